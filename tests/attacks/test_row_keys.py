"""A metric may not replace what a row of metrics.jsonl says of its own place."""

from types import SimpleNamespace

import lightning.pytorch as L
import pytest
import torch
from attempts import Net, attempt
from labrig.errors import LabError
from labrig.record.files.metrics_file import ROW_KEYS, MetricsLog, read_metrics
from labrig.training.start.program_log import ProgramLog
from torch import nn

NAMES = sorted(ROW_KEYS)
EPOCH = ("trainer.max_epochs=1", "trainer.limit_train_batches=8", "checkpoint.monitor=null")


class Steps(L.LightningModule):
    """Logs another value under the name of a key, from one of its steps."""

    name = "attempt"
    place = "train"

    def __init__(self):
        super().__init__()
        self.net = Net()

    def step(self, batch, name):
        if name == self.place:
            self.log(self.name, 77.0)
        image, label = batch
        return nn.functional.cross_entropy(self.net(image), label)

    def training_step(self, batch, batch_idx):
        return self.step(batch, "train")

    def validation_step(self, batch, batch_idx):
        return self.step(batch, "val")

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("place", ["train", "val"])
def test_a_task_is_told_before_a_row_is_written(home, tmp_path, monkeypatch, name, place):
    """a-rowkeys."""
    monkeypatch.setattr(Steps, "name", name)
    monkeypatch.setattr(Steps, "place", place)
    with pytest.raises(LabError, match=f"no metric can be named '{name}'.*train/{name}"):
        attempt(home, tmp_path, *EPOCH, "task._target_=test_row_keys.Steps")
    for row in read_metrics(tmp_path):
        assert 77 not in [row[key] for key in ROW_KEYS]


@pytest.mark.parametrize("name", NAMES)
def test_a_row_is_refused_whoever_writes_it(tmp_path, name):
    with pytest.raises(LabError, match=f"no metric can be named '{name}'"):
        MetricsLog(tmp_path, 1).append(1, 0, {"train/loss": 1.0, name: 77.0})
    assert read_metrics(tmp_path) == []


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_a_program_is_kept_apart_on_every_rank(tmp_path, name, is_first):
    """a-rowkeys, of the log() of a program: Hugging Face's Trainer logs `epoch`."""
    config = SimpleNamespace(log=SimpleNamespace(every_s=0), logger={})
    run = SimpleNamespace(dir=tmp_path, checkpoints=tmp_path)
    log = ProgramLog(config, run, 1, is_first)
    log(1, {"loss": 1.0})
    log(2, {"loss": 0.5, name: 77.0})
    rows = read_metrics(tmp_path)
    assert [row["step"] for row in rows] == [1, 2] * is_first
    assert all(row[f"log/{name}"] == 77.0 for row in rows[1:])
    assert 77.0 not in [row[key] for row in rows for key in ROW_KEYS]
