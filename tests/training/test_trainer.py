"""The callbacks of a Trainer: their order, health, and what is shown of the progress."""

import json

import lightning.pytorch as L
import pytest
import torch
from in_process import BASELINE, Linear, composed
from labrig.errors import Failed
from labrig.training.parts.build import build_task
from labrig.training.parts.trainer import build_trainer, plain_trainer
from labrig.training.watch import health
from labrig.training.watch.health import Health
from labrig.training.watch.means import LogMeans
from labrig.training.watch.optimizer_watch import OptimizerWatch
from labrig.training.watch.progress import Bar, StepLines, build_progress
from lightning.fabric.plugins.environments import MPIEnvironment
from lightning.pytorch.callbacks import TQDMProgressBar
from omegaconf import OmegaConf
from torch.utils.data import DataLoader


class Clock:
    """Stands for the module `time`: a second passes only when a test says so."""

    now_s = 0.0

    def perf_counter(self):
        return self.now_s

    def time(self):
        return self.now_s


class ClockData(L.LightningDataModule):
    """45 batches of 16 images; each takes `batch_s` to load."""

    def __init__(self, clock, batch_s):
        super().__init__()
        self.clock = clock
        self.batch_s = batch_s

    def train_dataloader(self):
        return DataLoader(range(45 * 16), batch_size=16, collate_fn=self.load)

    def load(self, indices):
        self.clock.now_s += self.batch_s
        return torch.zeros(len(indices), 1, 8, 8), torch.zeros(len(indices), dtype=torch.long)


class ClockModel(Linear):
    """A step takes 10 ms."""

    clock = None

    def forward(self, image_B1HW):
        self.clock.now_s += 0.01
        return super().forward(image_B1HW)


def learn(home, tmp_path, monkeypatch, batch_s=0.0, change=None):
    """Trains one epoch with Health, and gives the rows of speed.jsonl."""
    clock = Clock()
    monkeypatch.setattr(health, "time", clock)
    monkeypatch.setattr(ClockModel, "clock", clock)
    config = composed(home, *BASELINE, "trainer.precision=32-true", "trainer.devices=1")
    task = build_task(config)
    task.model = ClockModel()
    if change:
        change(task)
    means = LogMeans()
    trainer = plain_trainer(
        config,
        ClockData(clock, batch_s),
        task,
        callbacks=[means, Health(tmp_path, config.log.bounds, means.train)],
        log_every_n_steps=15,
        enable_checkpointing=False,
    )
    trainer.fit(task, datamodule=ClockData(clock, batch_s))
    return [json.loads(line) for line in (tmp_path / "speed.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_an_mpi4py_without_an_mpi_is_left_alone(home, tmp_path, monkeypatch):
    def no_library():
        raise RuntimeError("cannot load MPI library")

    monkeypatch.setattr(MPIEnvironment, "detect", no_library)
    config = composed(home, *BASELINE, "trainer.precision=32-true", "trainer.devices=1")
    trainer = plain_trainer(
        config, None, L.LightningModule(), callbacks=[], default_root_dir=tmp_path
    )
    assert trainer.world_size == 1


@pytest.mark.slow
def test_health_warns_once_of_slow_data(home, tmp_path, monkeypatch, capsys):
    rows = learn(home, tmp_path, monkeypatch, batch_s=0.03)
    assert [row["step"] for row in rows] == [15, 30, 45]
    assert rows[1]["speed/data_wait"] == pytest.approx(0.75)
    assert rows[1]["speed/samples_per_s"] == pytest.approx(16 / 0.04)
    assert all(0.05 < row["speed/memory_gb"] < 100 for row in rows)
    printed = capsys.readouterr().out
    assert printed.count("waits for data 75% of the time (step 30)") == 1
    assert "lab bench" in printed


@pytest.mark.slow
def test_health_is_silent_when_data_is_fast(home, tmp_path, monkeypatch, capsys):
    rows = learn(home, tmp_path, monkeypatch, batch_s=0.001)
    assert rows[1]["speed/data_wait"] == pytest.approx(1 / 11, abs=1e-4)
    assert "waits for data" not in capsys.readouterr().out


@pytest.mark.parametrize(("acc", "allowed"), [(1.97, False), (1.000001, True)])
def test_a_metric_outside_of_its_bounds_stops_the_training(
    home, tmp_path, monkeypatch, acc, allowed
):
    def score(task):
        step = task.training_step
        task.training_step = lambda batch, batch_idx: (
            step(batch, batch_idx) | {"acc": torch.tensor(acc)}
        )

    if allowed:
        assert learn(home, tmp_path, monkeypatch, change=score)
        return
    with pytest.raises(Failed) as failed:
        learn(home, tmp_path, monkeypatch, change=score)
    for word in ("train/acc is 1.97", "log.bounds.acc allows 0 to 1", "sync_dist=True"):
        assert word in str(failed.value)


class Record:
    """What build_trainer reads of a run."""

    def __init__(self, folder):
        self.dir = folder
        self.checkpoints = folder / "checkpoints"


class Own(L.Callback):
    pass


@pytest.mark.slow
@pytest.mark.parametrize("n_devices", [1, 2])
def test_the_callbacks_stand_in_the_order_that_is_written_down(home, tmp_path, n_devices):
    own = "+callbacks.own={_target_: test_trainer.Own}"
    config = composed(
        home,
        *BASELINE,
        own,
        "profile=simple",
        "trainer.precision=32-true",
        f"trainer.devices={n_devices}",
    )
    trainer = build_trainer(config, Record(tmp_path), 1, ClockData(Clock(), 0), build_task(config))
    names = [type(callback).__name__ for callback in trainer.callbacks]
    several = n_devices > 1
    assert names == [
        *(["BuffersAgree"] if several else []),
        "ProfileCallback",
        "Validations",
        *(["WholeGroups"] if several else []),
        "EpochSums",
        "OptimizerWatch",
        "LogMeans",
        "Health",
        "Own",
        "NoEffect",
        "Pace",
        "StepLines",
        "FirstLines",
        "EpochLines",
        "FoundBatchSize",
        "NodeFacts",
        "IdleWatch",
        "PlainLoaders",
        "Unsaved",
        "StretchCallback",
        "PreemptionCallback",
        "TestedWeights",
        "Internals",
        "Checkpoints",
    ]


def test_a_bar_is_drawn_on_a_terminal_or_when_asked_for():
    def kinds(progress, own):
        return [type(callback) for callback in progress_callbacks(progress, own)]

    assert kinds("auto", [])[1] == StepLines, "the tests have no terminal"
    assert kinds(True, [])[1] == Bar
    own = kinds(True, [TQDMProgressBar()])
    assert Bar not in own, "the user's takes its place"
    assert StepLines not in own


def progress_callbacks(progress, own):
    watch = OptimizerWatch()
    log = OmegaConf.create({"progress": progress, "every_s": 60})
    return build_progress(log, own, LogMeans(watch=watch), watch)


@pytest.mark.slow
@pytest.mark.parametrize("own", [[], [TQDMProgressBar()]])
def test_lines_and_bar_do_not_mix(home, tmp_path, capsys, own):
    config = composed(home, *BASELINE, "trainer.precision=32-true", "trainer.devices=1")
    task = build_task(config)
    data = ClockData(Clock(), 0)
    callbacks = [LogMeans(), *own, *progress_callbacks(True, own)]
    trainer = plain_trainer(config, data, task, callbacks=callbacks, enable_checkpointing=False)
    trainer.fit(task, datamodule=data)
    printed = capsys.readouterr().out.replace("\r", "\n").splitlines()
    bar = [line for line in printed if "| 1/45" in line]
    assert bar
    assert bar[0].lower().startswith("epoch ")
    (epoch,) = [line for line in printed if line.startswith("epoch 1/1  train/acc ")]
    assert epoch.endswith(" s)"), "the line stands alone"
