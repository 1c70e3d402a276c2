"""Workers of every start method, ranks of any number, and readers that share the file's pages."""

import multiprocessing
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from hdf5_noise import add_noise
from hypothesis import given, settings
from hypothesis import strategies as st
from labrig.data import DataFileError, H5DataModule, H5Dataset, as_is, write_data_file
from labrig.errors import LabError
from labrig.hdf5.read.loader import AHEAD, SMALL_BATCHES_PER_TURN, SMALL_BYTES, Loader
from labrig.hdf5.read.order import Order, permutation
from projects import HELPERS, SOURCE
from torch.utils.data import DataLoader

N = 103


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    rng = np.random.default_rng(0)
    fields = {
        "x": rng.integers(0, 255, (N + 1, 50)).astype(np.uint8),
        "wav": [rng.normal(size=n).astype(np.float32) for n in rng.integers(5, 60, N + 1)],
        "y": np.arange(N + 1),
    }
    return write_data_file(
        tmp_path_factory.mktemp("data") / "a.h5",
        fields,
        {"train": range(N), "one": [N], "none": []},
    )


def loader(path, **options):
    shapes = {"wav": 20}
    dataset = H5Dataset(
        path, "train", ("x", "wav", "y"), shapes=shapes, crop="random", transform=add_noise
    )
    return Loader(dataset, Order(N, 8, seed=3, shuffle=True), **options)


def bytes_of(batches):
    return [[tensor.numpy().tobytes() for tensor in batch] for batch in batches]


@pytest.fixture(scope="module")
def expected(path):
    one = loader(path)
    return bytes_of(one), bytes_of(one)


@pytest.mark.parametrize("start_method", ["spawn", "forkserver"])
@pytest.mark.slow
def test_workers_give_what_the_thread_gives(path, expected, start_method, monkeypatch):
    here = Path(__file__).parent
    monkeypatch.setenv(
        "PYTHONPATH", f"{here}:{HELPERS}:{SOURCE}"
    )  # spawned workers import the transform
    multiprocessing.set_start_method(start_method, force=True)
    try:
        workers = loader(path, num_workers=2)
        assert (bytes_of(workers), bytes_of(workers)) == expected
        workers.close()
    finally:
        multiprocessing.set_start_method(None, force=True)


@pytest.mark.slow
def test_an_epoch_left_early_does_not_disturb_the_next(path, expected):
    for num_workers in (0, 2):
        left = loader(path, num_workers=num_workers)
        for i, _ in enumerate(left):
            if i == 2:
                break
        assert bytes_of(left) == expected[1]
        left.close()


@pytest.mark.parametrize("num_workers", [0, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("stop", [1, 5, 13])
def test_a_loaded_position_continues_without_lightning(path, expected, num_workers, stop):
    first = loader(path, num_workers=num_workers)
    for i, _ in enumerate(first, start=1):
        if i == stop:
            break
    second = loader(path, num_workers=num_workers)
    second.load_state_dict(pickle.loads(pickle.dumps(first.state_dict())))
    rest = expected[0][stop:]
    assert (bytes_of(second) if rest else []) == rest
    assert bytes_of(second) == expected[1]
    # plain numbers, for torch.load(weights_only=True)
    assert {type(value) for value in first.state_dict().values()} == {int}
    first.close()
    second.close()


def small_batches(path, **options):
    dataset = H5Dataset(path, "train", ("x", "wav", "y"), shapes={"wav": 20}, crop="random")
    return Loader(dataset, Order(N, 2, seed=3, shuffle=True), **options)


def test_small_batches_read_together_are_what_each_is_alone(path):
    one = small_batches(path)
    planned = list(one.order.batches(0))
    given = []
    for batch, plan in zip(one, planned, strict=True):
        # a checkpoint during a batch includes it, and none of those read already
        assert one.position == plan.end
        given.append(batch)
    assert bytes_of(given) == bytes_of(map(one.dataset.__getitems__, planned))
    for stop in (1, 6, 17, len(planned) - 1):
        resumed = small_batches(path)
        resumed.load_state_dict(one.state_dict() | {"position": planned[stop - 1].end})
        assert bytes_of(resumed) == bytes_of(given[stop:])
    left = small_batches(path)
    for _ in range(2):  # read ahead when it is left, which must not show in the next epoch
        for i, _ in enumerate(left):
            if i == 20:
                break
    assert bytes_of(left) == bytes_of(map(one.dataset.__getitems__, one.order.batches(2)))


@pytest.mark.parametrize("bad", [0, 1, 20, 51])
def test_an_error_comes_after_the_batches_before_it(path, monkeypatch, bad):
    one, planned = small_batches(path), list(small_batches(path).order.batches(0))
    read = H5Dataset.__getitems__

    def fails(self, batch):
        if batch.end == planned[bad].end:
            raise DataFileError("damaged")
        return read(self, batch)

    monkeypatch.setattr(H5Dataset, "__getitems__", fails)
    given = []
    with pytest.raises(DataFileError, match="damaged"):
        given += one
    ends = [batch.end for batch in planned[:bad]]
    assert (len(given), one.position) == (bad, ends[-1] if ends else 0)


def test_only_small_batches_without_a_transform_are_read_together(path, tmp_path):
    def turns(dataset, batch_size):
        one = Loader(dataset, Order(len(dataset), batch_size))
        read = one._read
        lengths = []

        def count(batches):
            lengths.append(len(batches))
            return read(batches)

        one._read = count
        assert sum(len(x) for x, *_ in one) == len(dataset)
        return lengths

    small = turns(H5Dataset(path, "train", ("x", "y")), 2)
    assert small[:AHEAD] == [1] * AHEAD
    assert max(small) == SMALL_BATCHES_PER_TURN
    assert sum(small) == -(-N // 2)
    slow = H5Dataset(path, "train", ("x", "y"), transform=lambda batch, rng: batch)
    assert set(turns(slow, 2)) == {1}
    large = write_data_file(
        tmp_path / "large.h5", {"x": np.zeros((40, SMALL_BYTES), np.uint8)}, {"train": range(40)}
    )
    assert set(turns(H5Dataset(large, "train", ("x",)), 2)) == {1}


def test_a_position_in_other_data_is_refused(path):
    state = loader(path).state_dict() | {"n": N + 1}
    with pytest.raises(LabError, match=f"made with {N + 1} training samples"):
        loader(path).load_state_dict(state)


def test_two_ranks_continue_in_the_middle_of_an_epoch(path):
    dataset = H5Dataset(path, "train", ("y",))

    def start_ranks():
        orders = [Order(N, 4, 7, shuffle=True, rank=rank, world_size=2) for rank in range(2)]
        return [Loader(dataset, order) for order in orders]

    def epoch(loaders):
        return [[y.tolist() for (y,) in loader] for loader in loaders]

    uninterrupted = start_ranks()
    first, second = epoch(uninterrupted), epoch(uninterrupted)
    resumed = start_ranks()
    for before, after in zip(start_ranks(), resumed, strict=True):
        next(iter(before))
        after.load_state_dict(before.state_dict())
    assert epoch(resumed) == [batches[1:] for batches in first]
    assert epoch(resumed) == second


@settings(max_examples=300, deadline=None)
@given(
    st.integers(1, 400), st.integers(1, 50), st.integers(1, 9), st.integers(0, 99), st.booleans()
)
@pytest.mark.slow
def test_ranks_divide_every_epoch(n, batch_size, world_size, seed, drop_last):
    if n < world_size:
        return
    orders = [
        Order(n, batch_size, seed, True, drop_last, rank, world_size) for rank in range(world_size)
    ]
    epochs = [[list(order.batches(epoch)) for order in orders] for epoch in range(2)]
    for ranks in epochs:
        n_steps = {len(batches) for batches in ranks}
        assert n_steps == {len(orders[0].starts())}  # as many on each rank
        assert all(len(batch.indices) for batches in ranks for batch in batches)
        seen = np.concatenate(
            [batch.indices for batches in ranks for batch in batches] or [np.empty(0, int)]
        )
        assert len(set(seen)) == len(seen)
        assert len(seen) == (n if not drop_last else n - n % (batch_size * world_size))
        assert [batch.end for batch in ranks[0]] == [batch.end for batch in ranks[-1]]
    # the global order does not depend on the number of ranks, and continues from any step
    alone = permutation(n, seed, 0)
    for step in range(len(epochs[0][0])):
        rows = np.concatenate([batches[step].indices for batches in epochs[0]])
        end = epochs[0][0][step].end
        np.testing.assert_array_equal(rows, alone[end - len(rows) : end])
        rest = list(orders[0].batches(0, end))
        assert [batch.end for batch in rest] == [batch.end for batch in epochs[0][0][step + 1 :]]


def test_a_plain_data_loader_works_too(path):
    dataset = H5Dataset(path, "train", ("x", "y"))
    batches = list(DataLoader(dataset, batch_size=10, shuffle=True, collate_fn=as_is))
    assert sorted(torch.cat([y for _, y in batches]).tolist()) == list(range(N))


def test_a_split_smaller_than_the_ranks_is_refused(path, monkeypatch):
    data = H5DataModule(str(path), fields=("x",))
    assert len(list(data.loader("one"))) == 1
    with pytest.raises(DataFileError, match="split 'none' has 0 samples"):
        data.loader("none")
    monkeypatch.setattr(data, "ranks", lambda: (0, 2))
    with pytest.raises(DataFileError, match="split 'one' has 1 sample, fewer than the 2 processes"):
        data.loader("one")


def test_a_file_is_found_along_the_search_path(path, tmp_path):
    data = H5DataModule("a.h5", search=[str(tmp_path), str(path.parent)], fields=("y",))
    assert data.file == path
    with pytest.raises(
        DataFileError, match=r"no data file b\.h5 in .*did you mean: a\.h5.*lab data pack b"
    ):
        _ = H5DataModule("b.h5", search=[str(tmp_path), str(path.parent)]).file


def test_pickling_a_dataset_leaves_the_map_behind(path):
    dataset = H5Dataset(path, "train", ("x", "wav", "y"))
    dataset[0]
    assert len(pickle.dumps(dataset)) < 4000
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(dataset))[5][0], dataset[5][0])


def _read_and_report_memory(path, ready, done, answers):
    """Puts the KiB of the file that this process holds, pages shared by four counting a quarter."""
    dataset = H5Dataset(path, "train", ("x",))
    rng = np.random.default_rng(os.getpid())
    for _ in range(60):
        dataset.__getitems__(rng.integers(0, len(dataset), 1000))
    ready.wait(120)
    held_kib = 0
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split(" ")[0]:
            inside = str(path) in line
        elif inside and line.startswith("Pss:"):
            held_kib += int(line.split()[1])
    answers.put(held_kib)
    done.wait(120)


@pytest.mark.slow
def test_four_readers_hold_the_file_once(tmp_path):
    x = np.random.default_rng(0).integers(0, 255, (12_000, 64 * 64), dtype=np.uint8)  # 49 MB
    path = write_data_file(tmp_path / "a.h5", {"x": x}, {"train": range(len(x))})
    size_kib = x.nbytes // 1024
    fork = multiprocessing.get_context("fork")
    ready, done, answers = fork.Barrier(4), fork.Barrier(4), fork.Queue()
    readers = [
        fork.Process(target=_read_and_report_memory, args=(path, ready, done, answers))
        for _ in range(4)
    ]
    for reader in readers:
        reader.start()
    held_kib = [answers.get(timeout=180) for _ in readers]
    for reader in readers:
        reader.join(60)
    assert 0.7 * size_kib < sum(held_kib) < 1.3 * size_kib
