"""`data.order=blocks`: whole blocks in an order of their own each epoch, exact, and told ahead to the disk."""

import os

import numpy as np
import pytest
from hdf5_training import N, make_file, train
from hypothesis import given, settings
from hypothesis import strategies as st
from labrig.data import H5DataModule, H5Dataset, Loader, Order, write_data_file
from labrig.errors import LabError
from labrig.hdf5.file import open_file
from labrig.hdf5.read import datamodule
from labrig.hdf5.read.order import IN_FLIGHT, permutation
from test_hdf5_resume import samples, train_on_two, trained

N_TRAIN = N - 20
BLOCK = 5  # 37 blocks of the 183 samples that train: three groups
SIZES = {
    "n": st.integers(1, 400),
    "block": st.integers(1, 50),
    "batch_size": st.integers(1, 40),
    "seed": st.integers(0, 100),
}


def indices_of(order, epoch, position=0):
    return [index for batch in order.batches(epoch, position) for index in batch.indices.tolist()]


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(**SIZES, world_size=st.integers(1, 4), drop_last=st.booleans())
def test_each_sample_comes_once_and_the_ranks_divide_the_order_of_one(
    n, block, batch_size, seed, world_size, drop_last
):
    one = Order(n, batch_size * world_size, seed, True, drop_last, block=block)
    ranks = [
        Order(n, batch_size, seed, True, drop_last, rank, world_size, block)
        for rank in range(world_size)
    ]
    joined = [
        np.concatenate([part.indices for part in parts]).tolist()
        for parts in zip(*(rank.batches(0) for rank in ranks), strict=True)
    ]
    found = [index for step in joined for index in step]
    assert found == indices_of(one, 0)[: len(found)]
    assert len(set(found)) == len(found)
    if not drop_last and n >= world_size:
        assert sorted(found) == list(range(n))


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(**SIZES, epoch=st.integers(0, 5), n_steps=st.integers(0, 30))
def test_the_order_depends_on_seed_and_epoch_alone(n, block, batch_size, seed, epoch, n_steps):
    order = Order(n, batch_size, seed, True, block=block)
    whole = indices_of(order, epoch)
    assert whole == indices_of(Order(n, 7, seed, True, block=block), epoch)
    position = min(n_steps * batch_size, n)
    assert indices_of(order, epoch, position) == whole[position:]
    if n > 20:
        assert whole != indices_of(order, epoch + 1)
        assert whole != indices_of(Order(n, batch_size, seed + 1, True, block=block), epoch)


@settings(max_examples=100, deadline=None)
@given(**SIZES, n_steps=st.integers(0, 30), world_size=st.integers(1, 3))
def test_a_block_is_told_before_its_first_sample_is_read_and_only_once(
    n, block, batch_size, seed, n_steps, world_size
):
    order = Order(n, batch_size, seed, True, block=block, world_size=world_size)
    told = []
    for batch in order.batches(0, min(n_steps * order.step, n)):
        told += batch.ahead
        assert {index // block for index in batch.indices.tolist()} <= {
            each.start // block for each in told
        }
        # as much is in memory as is mixed, as much again, and what one step needs
        read = batch.end // block
        assert len(told) <= read + 1 + 2 * IN_FLIGHT
    assert len(set(told)) == len(told)


def test_only_the_blocks_of_a_group_are_mixed_and_no_group_is_small():
    n_blocks = 2 * IN_FLIGHT + 1
    order = np.array(indices_of(Order(10 * n_blocks, 8, 1, True, block=10), 0)) // 10
    spans = [np.flatnonzero(order == block) for block in range(n_blocks)]
    firsts = sorted(span[0] for span in spans)
    assert max(span[-1] - span[0] for span in spans) < 10 * IN_FLIGHT
    assert (
        10 * (n_blocks - 11) <= firsts[-1] < 10 * n_blocks - 50
    )  # eleven blocks are in the last of three groups
    assert len(set(order[: 2 * IN_FLIGHT].tolist())) > 10


def test_the_random_order_is_as_it_was():
    batches = [batch.indices.tolist() for batch in Order(10, 4, 3, shuffle=True).batches(1)]
    assert batches == [[0, 6, 2, 1], [3, 7, 4, 9], [8, 5]]
    assert all(batch.ahead is None for batch in Order(10, 4, 3, shuffle=True).batches(1))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """What an uninterrupted training in blocks sees and ends with."""
    directory = tmp_path_factory.mktemp("whole")
    make_file(directory / "data.h5")
    return train(directory, block=BLOCK)


@pytest.mark.release
@pytest.mark.parametrize(
    ("stop_after", "num_workers"), [(7, 0), (-1, 0), pytest.param(7, 2, marks=pytest.mark.slow)]
)
def test_resumed_in_blocks_is_uninterrupted(tmp_path, whole, stop_after, num_workers):
    make_file(tmp_path / "data.h5")
    before = train(tmp_path, stop_after=stop_after, num_workers=num_workers, block=BLOCK)
    after = train(tmp_path, resume=True, num_workers=num_workers, block=BLOCK)
    assert trained(before) + trained(after) == trained(whole)
    assert after["weights"] == whole["weights"]


def test_a_resumed_run_reads_in_the_order_of_its_checkpoint(tmp_path, whole, capfd):
    make_file(tmp_path / "data.h5")
    before = train(tmp_path, stop_after=7, block=BLOCK)
    after = train(tmp_path, resume=True)  # on a node where the file fits into memory
    assert trained(before) + trained(after) == trained(whole)
    assert after["weights"] == whole["weights"]
    assert "lab: resuming with data.order=blocks, in which the checkpoint" in capfd.readouterr().err


@pytest.mark.slow
def test_two_ranks_share_the_blocks_of_an_epoch(tmp_path, whole):
    make_file(tmp_path / "data.h5")
    ranks, _ = train_on_two(tmp_path, block=BLOCK)
    for epoch in range(3):
        parts = [samples(*trained(rank, epoch)) for rank in ranks]
        assert sorted(parts[0] + parts[1]) == list(range(N_TRAIN))
    assert samples(ranks[0]["seen"][0], ranks[1]["seen"][0]) == samples(*whole["seen"][:2])


@pytest.fixture
def path(tmp_path):
    """600 samples: x of 4 KB, and recordings of 100 to 199 values."""
    rng = np.random.default_rng(0)
    fields = {
        "x": rng.integers(0, 255, (600, 4096), dtype=np.uint8),
        "wav": [np.zeros(n, np.float32) for n in rng.integers(100, 200, 600)],
        "y": np.arange(600),
    }
    splits = {"train": range(0, 600, 2), "val": range(1, 600, 2)}
    return write_data_file(tmp_path / "a.h5", fields, splits)


FIELDS_BYTES = 600 * (4096 + 8)


def test_auto_reads_blocks_only_where_the_fields_exceed_the_memory(path, monkeypatch, capfd):
    monkeypatch.setattr(datamodule, "memory_limit_bytes", lambda: FIELDS_BYTES)
    fits = H5DataModule(str(path), seed=5)
    assert indices_of(fits.train_dataloader().order, 0) == permutation(300, 5, 0).tolist()
    assert "order" not in fits.fingerprint()
    assert capfd.readouterr().err == ""
    monkeypatch.setattr(datamodule, "memory_limit_bytes", lambda: FIELDS_BYTES - 1)
    large = H5DataModule(str(path), seed=5)
    assert large.train_dataloader().order.block == 2**22 // (4096 + 8)
    assert large.val_dataloader().order.block == 0
    assert large.fingerprint()["order"] == "blocks"
    told = capfd.readouterr().err
    assert told.count("\n") == 1
    assert "a.h5 (0.0 GB) does not fit into the memory of the job" in told
    assert "data.order=blocks" in told
    assert H5DataModule(str(path), order="random").train_dataloader().order.block == 0
    assert H5DataModule(str(path), fields=("y",)).train_dataloader().order.block == 0


def test_blocks_give_the_samples_that_the_random_order_gives(path):
    data = H5DataModule(str(path), order="blocks", fields=("x", "wav", "y"), shapes={"wav": 50})
    data.block = 7
    loader = data.train_dataloader()
    every = H5Dataset(path, "train").__getitems__(range(300))
    found = sorted(((y, x) for x, _, ys in loader for x, y in zip(x, ys, strict=False)), key=first)
    assert [int(y) for y, _ in found] == every[1].tolist()
    assert all((x == expected).all() for (_, x), expected in zip(found, every[0], strict=True))


def first(pair):
    return int(pair[0])


def test_another_order_is_refused():
    with pytest.raises(LabError, match=r"data.order is 'block', expected one of: auto, random"):
        H5DataModule("a.h5", order="block")


@pytest.mark.parametrize("own_rows", [False, True])
def test_the_disk_is_told_of_all_bytes_of_a_block_in_one_piece(path, monkeypatch, own_rows):
    told = []
    monkeypatch.setattr(open_file, "PIECE_BYTES", 1)
    monkeypatch.setattr(
        os, "posix_fadvise", lambda handle, start, n, advice: told.append((start, n, advice))
    )
    rows = np.random.default_rng(1).permutation(600)[:300] if own_rows else None
    dataset = H5Dataset(path, "train", ("x", "wav", "y"), rows=rows)
    loader = Loader(dataset, Order(300, 16, 2, True, block=20))
    assert sum(len(y) for _, _, y in loader) == 300
    layout = dataset.layout
    x = layout.field("x")
    of_x = sorted((start, n) for start, n, _ in told if x.offset <= start < x.offset + x.n_bytes)
    assert len(of_x) == 15  # each block once
    lying = np.sort(rows) if own_rows else np.arange(0, 600, 2)
    expected = [
        (x.offset + lying[k] * 4096, x.offset + (lying[k + 19] + 1) * 4096)
        for k in range(0, 300, 20)
    ]
    assert of_x == [(start, end - start) for start, end in expected]
    assert len(told) == 15 * 4  # x, y, wav and its offsets
    assert {advice for _, _, advice in told} == {os.POSIX_FADV_WILLNEED}


def test_no_call_tells_more_than_the_kernel_takes(path, monkeypatch):
    told = []
    monkeypatch.setattr(open_file, "told_at_once_bytes", lambda device: 1000)
    monkeypatch.setattr(open_file, "PIECE_BYTES", 100)
    monkeypatch.setattr(os, "posix_fadvise", lambda handle, start, n, _: told.append((start, n)))
    file = open_file.OpenFile(path)
    file.tell_ahead(150, 2201)
    assert told == [(100, 1000), (1100, 1000), (2100, 300)]
    monkeypatch.undo()
    assert open_file.told_at_once_bytes(file.identity.device) >= 128 << 10
    assert open_file.told_at_once_bytes(os.makedev(4095, 1)) == 128 << 10
    file.tell_ahead(0, path.stat().st_size + 10**9)  # a hint, never an error
