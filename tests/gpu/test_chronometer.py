"""The chronometer's events agree with the wall clock, and no step waits for the device because of us."""

import time
import warnings

import lightning.pytorch as L
import pytest
import torch
from gpu_runs import GPU, learn_on_gpu
from in_process import composed
from myproj.lab.bench.chronometer import WARMUP, Chronometer
from myproj.lab.training.accelerate import accelerate
from myproj.lab.training.build import build_data, build_task
from myproj.lab.training.health import Health
from myproj.lab.training.means import LogMeans
from myproj.lab.training.settings import apply_settings, resolve_settings
from myproj.lab.training.trainer import plain_trainer
from requirements import gpu

pytestmark = gpu
N_STEPS = 200


class WallClock(L.Callback):
    """The time of the steps that the chronometer measures; it waits for the device at both ends only."""

    def __init__(self):
        self.times_s = []

    def on_train_batch_start(self, trainer, task, batch, batch_idx):
        if trainer.global_step in (WARMUP, WARMUP + N_STEPS):
            torch.cuda.synchronize()
            self.times_s.append(time.perf_counter())


def trainer_of(home, *settings, callbacks=()):
    config = resolve_settings(composed(home, *settings), first_attempt={}).config
    apply_settings(config)
    data = build_data(config)
    task = accelerate(build_task(config), config)
    trainer = plain_trainer(
        config,
        data,
        task,
        callbacks=[LogMeans(), *callbacks],
        enable_checkpointing=False,
        log_every_n_steps=config.log.every_n_steps,
    )
    return trainer, task, data


def test_events_agree_with_the_wall_clock(home):
    clock = WallClock()
    settings = ("trial=baseline", *GPU, "trainer.max_epochs=20", "data.batch_size=64")
    trainer, task, data = trainer_of(home, *settings, callbacks=[clock])
    trainer.profiler = Chronometer(trainer, N_STEPS, accumulate=1)
    trainer.fit(task, datamodule=data)
    begin_s, end_s = clock.times_s[:2]
    steps = trainer.profiler.steps()
    assert len(steps) == N_STEPS
    measured_s = sum(sum(step.values()) for step in steps)
    assert measured_s == pytest.approx(end_s - begin_s, rel=0.02)


class CountWaits(L.Callback):
    """Counts the operations of each training step that wait for the device, as torch's debug mode reports them."""

    def __init__(self):
        self.waits = []

    def on_train_batch_start(self, *_):
        torch.cuda.set_sync_debug_mode("warn")
        self.caught = warnings.catch_warnings(record=True)
        self.seen = self.caught.__enter__()
        warnings.simplefilter("always")

    def on_train_batch_end(self, *_):
        self.waits.append(len(self.seen))
        self.caught.__exit__(None, None, None)
        torch.cuda.set_sync_debug_mode("default")


def test_no_step_waits_for_the_device(home, tmp_path):
    config = composed(home, "trial=baseline", *GPU)
    counter = CountWaits()
    callbacks = [Health(tmp_path, config.log.bounds), counter]
    settings = ("trial=baseline", *GPU, "trainer.precision=bf16-mixed", "log.every_n_steps=10")
    trainer, task, data = trainer_of(home, *settings, callbacks=callbacks)
    trainer.fit(task, datamodule=data)
    steps_without_logging = [n for i, n in enumerate(counter.waits, 1) if i % 10]
    assert len(steps_without_logging) > 10
    assert sum(steps_without_logging[3:]) == 0, "the first steps choose kernels"


def test_the_counter_sees_a_wait(home):
    class Item(L.Callback):
        def on_before_zero_grad(self, trainer, task, optimizer):
            torch.ones((), device="cuda").item()

    counter = CountWaits()
    trainer, task, data = trainer_of(home, "trial=baseline", *GPU, callbacks=[counter, Item()])
    trainer.fit(task, datamodule=data)
    assert min(counter.waits) >= 1


def test_the_training_itself_is_on_the_gpu(home):
    trained = learn_on_gpu(home, "trial=baseline")
    assert trained.trainer.strategy.root_device.type == "cuda"
