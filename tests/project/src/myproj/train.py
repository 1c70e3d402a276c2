"""The map of a training: settings, parts, fit, result. Start it with: lab train trial=baseline

trainer.fit calls, in this order: data.prepare_data and task.configure_optimizers; then for each batch
of each epoch data.on_after_batch_transfer, task.training_step, backward, optimizer.step and
schedule.step; after each epoch task.validation_step for each batch of the val split. The callbacks
that it calls between them, and what each costs: lab docs training
"""

if __name__ == "__main__":
    import sys

    sys.stderr.write("train.py is the map, not the command. Type: lab train trial=baseline\n")
    sys.exit(2)

from dataclasses import asdict

from labrig.train import (
    Recording,
    Run,
    accelerate,
    apply_settings,
    build_data,
    build_task,
    build_trainer,
    check_classes,
    data_record,
    forecast_from_bench,
    last_checkpoint,
    load_initial_weights,
    print_data_change,
    resolve_settings,
    run_final_test,
)
from omegaconf import DictConfig


def train(config: DictConfig, run: Run, recording: Recording) -> None:
    """Trains one attempt of `run`, whose record the caller prepares before and ends after.

    A run that is resumed stays as it was until `recording.begin`, whatever fails before.
    """
    # 1. Settings: `auto` as it fits this machine; seed, threads and precision of this process
    recording.note(forecast=forecast_from_bench(config, run.record["code"].get("tree")))
    settings = resolve_settings(config, recording.earlier)
    recording.note(**asdict(settings.chosen))
    config = settings.config
    apply_settings(config)

    # 2. Parts: what a sample is, what is learned, who trains (with callbacks, loggers, profiler)
    data = build_data(config)
    check_classes(config, data)
    task = build_task(config)
    recording.note(**load_initial_weights(task, config, run))  # init_from, of a run that begins
    task = accelerate(task, config)
    trainer = build_trainer(config, run, recording.n, data, task)
    recording.check_code()  # the code that runs is the code that was frozen
    fingerprint = data_record(data)
    print_data_change(run.dir, fingerprint)
    recording.begin(world_size=trainer.world_size, data=fingerprint)

    # 3. Fit: from the last checkpoint of the run, or from the start
    trainer.fit(task, datamodule=data, ckpt_path=last_checkpoint(run.checkpoints))
    # From here on the run counts as trained, whatever its test does.
    recording.measured |= {"global_step": trainer.global_step, "epoch": trainer.current_epoch}

    # 4. Result: the test split, once, with the final weights
    if config.trainer.test_after_fit:
        recording.tested = run_final_test(trainer, task, data)
    recording.metrics |= {name: float(value) for name, value in trainer.callback_metrics.items()}
