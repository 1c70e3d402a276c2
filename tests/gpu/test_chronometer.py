"""The chronometer's events agree with the wall clock."""

import time

import lightning.pytorch as L
import pytest
from gpu_runs import GPU, keep_figure, wait_for_device
from in_process import composed
from labrig.bench.chronometer import WARMUP, Chronometer
from labrig.training.parts.accelerate import accelerate
from labrig.training.parts.build import build_data, build_task
from labrig.training.parts.settings import apply_settings, resolve_settings
from labrig.training.parts.trainer import plain_trainer
from labrig.training.watch.means import LogMeans
from rehearsal import DEVICE, REHEARSED
from requirements import gpu

pytestmark = gpu
N_STEPS = 30 if REHEARSED else 200
SETTINGS = ("trial=baseline", *GPU, f"trainer.max_epochs={2 if REHEARSED else 10}")


class WallClock(L.Callback):
    """The time of the steps that the chronometer measures; it waits for the device at both ends only."""

    def __init__(self):
        self.times_s = []

    def on_train_batch_start(self, trainer, task, batch, batch_idx):
        if trainer.global_step in (WARMUP, WARMUP + N_STEPS):
            wait_for_device()
            self.times_s.append(time.perf_counter())


def test_events_agree_with_the_wall_clock(home):
    config = resolve_settings(composed(home, *SETTINGS), first_attempt={}).config
    apply_settings(config)
    data = build_data(config)
    task = accelerate(build_task(config), config)
    clock = WallClock()
    trainer = plain_trainer(
        config,
        data,
        task,
        callbacks=[LogMeans(), clock],
        enable_checkpointing=False,
        log_every_n_steps=config.log.every_n_steps,
    )
    chronometer = trainer.profiler = Chronometer(trainer, N_STEPS, accumulate=1)
    trainer.fit(task, datamodule=data)
    assert trainer.strategy.root_device.type == DEVICE
    begin_s, end_s = clock.times_s
    steps = chronometer.steps()
    assert len(steps) == N_STEPS
    measured_s = sum(sum(step.values()) for step in steps)
    keep_figure("events over wall clock", f"{measured_s / (end_s - begin_s):.4f}")
    assert measured_s == pytest.approx(end_s - begin_s, rel=0.02)
