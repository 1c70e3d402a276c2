"""Batches that are copied to a GPU one ahead: the same ones, each waited for, and the position is that of what was
given. The streams of CUDA are stood in for here; tests/gpu/test_data_path.py has real ones."""

from contextlib import contextmanager
from types import SimpleNamespace

import lightning.pytorch as L
import numpy as np
import pytest
import torch
from labrig.data import H5DataModule
from labrig.hdf5.pack.writer import write_data_file
from labrig.hdf5.read.loader import copied_ahead

CPU = torch.device("cpu")


@pytest.fixture
def log(monkeypatch):
    """What the streams were asked for, in order."""
    log = []

    class Stream:
        n_events = 0

        def __init__(self, device):
            self.device = device

        def record_event(self):
            self.n_events += 1
            log.append(("copied", self.n_events))
            return self.n_events

        def wait_event(self, event):
            log.append(("waited", event))

    @contextmanager
    def stream(one):
        yield

    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", stream)
    monkeypatch.setattr(torch.cuda, "current_stream", Stream)
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda *_: log.append("kept"))
    return log


def test_each_copy_begins_one_batch_ahead_and_is_waited_for(log):
    given = []
    for (batch,) in copied_ahead([(torch.tensor([n]),) for n in range(3)], CPU):
        given.append(int(batch))
        log.append(("given", len(given)))
    assert given == [0, 1, 2]
    assert log == [
        *(("copied", 1), ("copied", 2), ("waited", 1), "kept", ("given", 1)),
        *(("copied", 3), ("waited", 2), "kept", ("given", 2)),
        *(("waited", 3), "kept", ("given", 3)),
    ]


@pytest.mark.parametrize("n_batches", [0, 1])
def test_few_batches_come_as_well(log, n_batches):
    assert len(list(copied_ahead([(torch.ones(2),)] * n_batches, CPU))) == n_batches


def test_an_error_comes_after_the_batches_before_it(log):
    def read():
        yield (torch.ones(1),)
        yield (torch.ones(1),)
        raise ValueError("a broken sample")

    batches = copied_ahead(read(), CPU)
    next(batches)
    next(batches)
    with pytest.raises(ValueError, match="a broken sample"):
        next(batches)


def test_the_position_is_that_of_the_batches_that_were_given(log, tmp_path):
    path = tmp_path / "numbers.h5"
    write_data_file(path, {"x": np.arange(40)}, splits={"train": np.arange(40)})
    both = []
    for device in (None, CPU):
        data = H5DataModule(str(path), batch_size=4, fields=["x"], num_workers=0)
        data.setup("fit")
        loader = data.train_dataloader()
        loader.device = device
        both.append([(batch.tolist(), loader.state_dict()) for (batch,) in loader])
    assert len(both[0]) == 10
    assert both[0] == both[1]


class WantsTheBatchBefore(L.LightningModule):
    def on_before_batch_transfer(self, batch, dataloader_idx):
        return batch


@pytest.mark.parametrize(
    ("task", "device", "copies"),
    [
        (L.LightningModule, "cuda", True),
        (L.LightningModule, "cpu", False),
        (WantsTheBatchBefore, "cuda", False),
    ],
)
def test_it_is_copied_ahead_where_nothing_forbids_it(task, device, copies):
    data = H5DataModule("numbers.h5")
    strategy = SimpleNamespace(root_device=torch.device(device))
    data.trainer = SimpleNamespace(strategy=strategy, lightning_module=task())
    assert (data._copies_to() is not None) is copies
    data.copy_ahead = False
    assert data._copies_to() is None
