"""The map of a training, from top to bottom: record, parts, fit, result. Start it with: lab train trial=baseline

What trainer.fit calls, in this order: data.setup, task.configure_optimizers; then for each batch of each epoch
data.on_after_batch_transfer, task.training_step, backward, optimizer.step, schedule.step; and after each epoch
task.validation_step over the val split. Between them, the callbacks of lab/training: means, signals, checkpoints.
"""

if not __package__:
    import sys

    sys.stderr.write("train.py is the map, not the command. Type: lab train trial=baseline\n")
    sys.exit(2)

from omegaconf import DictConfig

from .lab.bench.forecast import forecast_from_bench
from .lab.record.recording import Recording
from .lab.record.run import Run
from .lab.training.accelerate import accelerate
from .lab.training.build import build_data, build_task
from .lab.training.checkpoint import last_checkpoint
from .lab.training.data_change import print_data_change
from .lab.training.health import add_health
from .lab.training.lightning_internals import skip_unused_hooks
from .lab.training.profilers import build_profile
from .lab.training.settings import resolve_auto, scale_to_processes
from .lab.training.trainer import build_trainer


def train(config: DictConfig, run: Run, recording: Recording) -> None:
    """Trains one attempt of `run`; its record was begun before this file was imported, and is ended by the caller."""
    # 1. Settings: seed, device, precision, threads; batch and learning rate for the number of processes
    recording.note(forecast=forecast_from_bench(config, run.record["code"].get("tree")))
    recording.note(**resolve_auto(config, recording.earlier), **scale_to_processes(config))
    profile = build_profile(config, run.dir / "profile")

    # 2. Parts: what a sample is, what is learned, who trains
    data = build_data(config)
    task = accelerate(build_task(config), config)
    trainer = build_trainer(config, run, recording.n, data, task)
    trainer = skip_unused_hooks(add_health(trainer, config, profile, run.dir))
    fingerprint = data.fingerprint() if hasattr(data, "fingerprint") else None
    print_data_change(run.dir, fingerprint)
    recording.note(world_size=trainer.world_size, data=fingerprint)

    # 3. Fit: from the newest checkpoint of the run, or from the start
    trainer.fit(
        task, datamodule=data, ckpt_path=last_checkpoint(run.checkpoints), weights_only=True
    )
    recording.measured |= {"global_step": trainer.global_step, "epoch": trainer.current_epoch}

    # 4. Result: the test split, once, with the final weights
    if config.trainer.test_after_fit:
        trainer.test(task, datamodule=data, verbose=False)
    recording.metrics |= {name: float(value) for name, value in trainer.callback_metrics.items()}
