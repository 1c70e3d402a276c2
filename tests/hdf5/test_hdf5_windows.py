"""`data.windows`: no window crosses an edge; the same ones on any number of processes and after a resume."""

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from labrig.data import DataFileError, H5DataModule, H5Dataset, Loader, Order, write_data_file
from labrig.errors import LabError

WINDOW = 8
LENGTHS = (500, 3, 61, 40)  # of the samples: three train, the last one validates
STARTS = np.cumsum([0, *LENGTHS])


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Values that count through all samples, so that a window says where it lies."""
    x = [np.arange(a, a + n) for a, n in zip(STARTS, LENGTHS, strict=False)]
    path = tmp_path_factory.mktemp("windows") / "w.h5"
    splits = {"train": [0, 1, 2], "val": [3]}
    return write_data_file(path, {"x": x, "y": np.arange(4)}, splits)


def dataset_of(file, split="train", crop="random", n=96, fields=("x", "y"), window=WINDOW):
    return H5Dataset(file, split, fields, windows={"x": window}, n_windows=n, crop=crop)


def batches(dataset, epoch=0, position=0, rank=0, world_size=1, batch_size=12, seed=0):
    order = Order(len(dataset), batch_size, seed, True, rank=rank, world_size=world_size)
    return [dataset.__getitems__(batch) for batch in order.batches(epoch, position)]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(window=st.integers(1, 61), seed=st.integers(0, 99), epoch=st.integers(0, 3))
def test_no_window_crosses_an_edge_of_a_sample_or_a_split(file, window, seed, epoch):
    for split, rows in (("train", {0, 1, 2}), ("val", {3})):
        for crop in ("random", "start"):
            if split == "val" and window > LENGTHS[3]:
                continue
            dataset = dataset_of(file, split, crop, window=window)
            for x, y in batches(dataset, epoch, seed=seed):
                assert x.shape[1] == window
                assert (x.diff(dim=1) == 1).all(), "values that follow one another"
                assert {*y.tolist()} <= rows
                assert (x[:, 0].numpy() >= STARTS[y]).all()
                assert (x[:, -1].numpy() < STARTS[y + 1]).all()


def test_random_windows_lie_everywhere_and_differ_in_each_epoch(file):
    first, second = (
        torch.cat([x for x, _ in batches(dataset_of(file, n=6000), epoch)])[:, 0]
        for epoch in range(2)
    )
    starts = {*range(500 - WINDOW + 1), *range(503, 564 - WINDOW + 1)}
    assert {*first.tolist()} == starts, "each place, and no other"
    counts = np.bincount(first)[sorted(starts)]
    assert counts.std() < 2 * counts.mean() ** 0.5
    assert (first != second).float().mean() > 0.9


def test_pieces_of_val_and_test_are_all_in_order(file):
    dataset = dataset_of(file, "train", "start")
    found = torch.cat([dataset[i][0] for i in range(len(dataset))])
    expected = [
        range(a, a + n // WINDOW * WINDOW) for a, n in zip(STARTS, LENGTHS[:3], strict=False)
    ]
    assert found.tolist() == [value for part in expected for value in part]


@pytest.mark.parametrize("world_size", [2, 3])
def test_any_number_of_processes_reads_the_same_windows(file, world_size):
    dataset = dataset_of(file)
    whole = batches(dataset, batch_size=12)
    each = [
        batches(dataset, 0, 0, rank, world_size, 12 // world_size) for rank in range(world_size)
    ]
    for i, (x, y) in enumerate(whole):
        assert torch.equal(x, torch.cat([of_rank[i][0] for of_rank in each]))
        assert torch.equal(y, torch.cat([of_rank[i][1] for of_rank in each]))


@pytest.mark.parametrize("num_workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_a_resume_reads_the_windows_that_were_left(file, num_workers):
    def loader():
        return Loader(dataset_of(file), Order(96, 12, 5, True), num_workers=num_workers)

    started = loader()
    epochs = [[x for x, _ in started] for _ in range(2)]
    assert not torch.equal(epochs[0][0], epochs[1][0])
    interrupted = loader()
    assert len([*interrupted]) == 8
    left = iter(interrupted)
    for expected in epochs[1][:3]:
        assert torch.equal(next(left)[0], expected)
    resumed = loader()
    resumed.load_state_dict(interrupted.state_dict())
    for x, expected in zip(resumed, epochs[1][3:], strict=True):
        assert torch.equal(x[0], expected)
    for each in (started, interrupted, resumed):
        each.close()
    copied = pickle.loads(pickle.dumps(dataset_of(file)))
    assert torch.equal(batches(copied, 1, seed=5)[0][0], epochs[1][0])


def module_of(file, **settings):
    return H5DataModule(str(file), batch_size=12, **{"windows": {"x": WINDOW}} | settings)


def test_the_data_module_draws_as_many_as_asked(file, capsys):
    data = module_of(file, windows_per_epoch=50, fields=["x"])
    assert [
        len(data.loader("train", shuffle=True).dataset),
        len(data.val_dataloader().dataset),
    ] == [50, 5]
    assert "1 sample of train left out: shorter than a window of 8" in capsys.readouterr().err
    assert len(module_of(file).loader("train", shuffle=True).dataset) == 62 + 7
    data.predict_split = "val"
    (val,) = zip(*data.predict_dataloader(), strict=True)
    assert torch.cat(val).flatten().tolist() == [*range(564, 604)]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"windows": None, "windows_per_epoch": 5}, r"goes with\s+data\.windows"),
        ({"windows_per_epoch": 0}, "a number above 0"),
        ({"order": "blocks"}, "Delete it: data.order=auto"),
        ({"windows": {"x": 600}}, r"no sample of the split has 600 values.*longest has 500"),
        ({"windows": {"x": 0}}, "expected whole numbers above 0"),
        ({"windows": {"y": 3}}, "windows names y, whose samples are no sequences"),
        ({"windows": {"z": 3}}, r"windows name \['z'\]"),
        ({"shapes": {"x": 9}}, "one field both"),
    ],
)
def test_what_has_no_windows_is_refused(file, settings, message):
    with pytest.raises((LabError, DataFileError), match=message):
        module_of(file, **settings).loader("train", shuffle=True)
