"""The data path in short: written is read, damage is named, and a loader goes on where it was."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from myproj.lab import hdf5
from myproj.lab.hdf5.loader import Loader
from myproj.lab.hdf5.order import Order

N = 50


@pytest.fixture
def path(tmp_path):
    rng = np.random.default_rng(0)
    fields = {
        "x": rng.normal(size=(N, 2, 3)).astype(np.float32),
        "wav": [np.full(n, n, np.int16) for n in range(1, N + 1)],
        "y": np.arange(N),
    }
    return hdf5.write_data_file(
        tmp_path / "data.h5", fields, {"train": range(0, N, 2), "test": range(1, N, 2)}
    )


def test_a_batch_is_the_rows_of_the_split(path):
    train, test = (
        hdf5.H5Dataset(path, split, ("x", "wav", "wav_lengths", "y")) for split in ("train", "test")
    )
    x, wav, lengths, y = test.__getitems__([3, 0, 3])
    assert y.tolist() == [7, 1, 7]
    assert lengths.tolist() == [8, 2, 8]
    assert wav.tolist() == [[8] * 8, [2] * 2 + [0] * 6, [8] * 8]
    assert torch.equal(x[0], test[3][0])
    assert train[-1][3] == N - 2


def test_damage_is_named(path):
    hdf5.verify_file(path)
    array = hdf5.read_layout(path).arrays["x"]
    content = bytearray(path.read_bytes())
    content[array.offset + 5] ^= 1
    path.write_bytes(content)
    with pytest.raises(hdf5.DataFileError, match="/data/x is damaged"):
        hdf5.verify_file(path)
    os.truncate(path, len(content) - 1)
    with pytest.raises(
        hdf5.DataFileError, match=f"cut short: {len(content) - 1} bytes found, {len(content)}"
    ):
        hdf5.read_layout(path)


def test_two_ranks_share_each_epoch_and_go_on_in_the_middle(path):
    dataset = hdf5.H5Dataset(path, "train", ("y",))

    def ranks():
        return [
            Loader(dataset, Order(len(dataset), 4, 7, True, False, rank, 2)) for rank in range(2)
        ]

    def epoch(loaders):
        return [[y.tolist() for (y,) in loader] for loader in loaders]

    whole = ranks()
    first, second = epoch(whole), epoch(whole)
    assert sorted(y for batch in first[0] + first[1] for y in batch) == list(range(0, N, 2))
    assert first != second
    stopped, resumed = ranks(), ranks()
    for before, after in zip(stopped, resumed, strict=True):
        next(iter(before))
        after.load_state_dict(before.state_dict())
    assert epoch(resumed) == [first[0][1:], first[1][1:]]
    assert epoch(resumed) == second


def test_writing_and_verifying_import_no_torch(path):
    code = f"import sys; from myproj.lab.hdf5 import fingerprint, verify_file, write_data_file; verify_file({str(path)!r})\n"
    code += "print(sorted({'torch', 'lightning'} & set(sys.modules)))"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=environment
    )
    assert done.stdout == "[]\n", done.stderr
