"""The data are what data.py says: shapes, ranges, each sample once per epoch. Change it with data.py."""

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch
from labrig import Project
from labrig.data import write_data_file

data = import_module(f"{Project.find(Path(__file__)).package}.data")


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """The data module over a freshly written file of all digits."""
    samples = list(data.Digits.samples(None))
    path = tmp_path_factory.mktemp("data") / "digits.h5"
    fields = {name: np.stack([sample[name] for sample in samples]) for name in ("x", "y")}
    n = len(samples)
    write_data_file(
        path,
        fields,
        {"train": range(n - 300), "val": range(n - 300, n - 100), "test": range(n - 100, n)},
    )
    return data.Digits(str(path), batch_size=64)


def test_a_batch_has_the_documented_shape_and_range(digits):
    image_B1HW, label_B = digits.on_after_batch_transfer(next(iter(digits.train_dataloader())), 0)
    assert image_B1HW.shape == (64, 1, 8, 8)
    assert image_B1HW.dtype == torch.float32
    assert 0 <= image_B1HW.min() < 0.1
    assert 0.9 < image_B1HW.max() <= 1
    assert label_B.dtype == torch.int64
    assert set(label_B.tolist()) <= set(range(10))


def test_an_epoch_gives_every_training_sample_once_in_another_order_each_time(digits):
    loader = digits.train_dataloader()
    first, second = (torch.cat([label_B for _, label_B in loader]) for _ in range(2))
    assert len(first) == 1497
    assert not torch.equal(first, second)
    assert torch.equal(first.bincount(), second.bincount())
