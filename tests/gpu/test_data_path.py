"""Batches come to the device from page-locked memory, as fast as memory and bus carry them."""

import time

import numpy as np
import torch
from gpu_runs import keep_figure, wait_for_device
from labrig.data import H5DataModule
from labrig.hdf5.pack.writer import write_data_file
from rehearsal import DEVICE, REHEARSED, only_a_gpu_shows
from requirements import gpu

pytestmark = gpu
N_SAMPLES = 256 if REHEARSED else 4096
BATCH = 64 if REHEARSED else 256


def copies_GB_per_s(source, target):
    """How fast a tensor is copied to another one, again and again."""
    target.copy_(source)
    wait_for_device()
    begin_s = time.perf_counter()
    for _ in range(50):
        target.copy_(source, non_blocking=True)
    wait_for_device()
    return 50 * source.nbytes / (time.perf_counter() - begin_s) / 1e9


def slowest_copy_GB_per_s():
    """A batch goes from memory to page-locked memory, and from there over the bus."""
    memory = torch.ones(BATCH, 3, 128, 128)
    page_locked = torch.ones(BATCH, 3, 128, 128, pin_memory=not REHEARSED)
    to_page_locked = copies_GB_per_s(memory, page_locked)
    over_the_bus = copies_GB_per_s(page_locked, torch.empty_like(memory, device=DEVICE))
    keep_figure("memory to page-locked memory, GB/s", f"{to_page_locked:.1f}")
    keep_figure("page-locked memory to the device, GB/s", f"{over_the_bus:.1f}")
    return min(to_page_locked, over_the_bus)


def loader_of(path):
    data = H5DataModule(str(path), batch_size=BATCH, fields=["x"], num_workers=0)
    data.setup("fit")
    return data.train_dataloader()


def test_batches_are_page_locked_and_nothing_but_copies_takes_time(tmp_path):
    path = tmp_path / "images.h5"
    images = np.ones((N_SAMPLES, 3, 128, 128), np.float32)
    write_data_file(path, {"x": images}, splits={"train": np.arange(N_SAMPLES)})
    loader = loader_of(path)
    for (batch,) in loader:  # the page cache is warm after this, and page-locked memory taken
        assert batch.is_pinned() or REHEARSED
        batch.to(DEVICE, non_blocking=True)
    wait_for_device()
    begin_s = time.perf_counter()
    n_bytes = 0
    for (batch,) in loader:
        n_bytes += batch.to(DEVICE, non_blocking=True).nbytes
    wait_for_device()
    rate_GB_per_s = n_bytes / (time.perf_counter() - begin_s) / 1e9
    assert n_bytes == images.nbytes
    slowest_GB_per_s = slowest_copy_GB_per_s()
    keep_figure("data file to the device, GB/s", f"{rate_GB_per_s:.1f}")
    only_a_gpu_shows("the speed of the bus")
    assert rate_GB_per_s > 0.5 * slowest_GB_per_s


def test_batches_that_are_copied_ahead_are_the_same(tmp_path):
    """On a stream of their own, while the training's stream is kept busy and memory is used again."""
    path = tmp_path / "numbers.h5"
    numbers = np.arange(N_SAMPLES, dtype=np.float32)[:, None] + np.zeros(1024, np.float32)
    write_data_file(path, {"x": numbers}, splits={"train": np.arange(N_SAMPLES)})
    loader = loader_of(path)
    in_memory = [batch.double().sum().item() for (batch,) in loader]
    loader = loader_of(path)
    only_a_gpu_shows("streams")
    loader.device = torch.device(DEVICE)
    busy = torch.ones(2048, 2048, device=DEVICE)
    sums = []
    for (batch,) in loader:
        assert batch.device.type == DEVICE
        busy = busy @ busy / 2048
        sums.append(batch.double().sum())
        del batch
        torch.full(
            (BATCH, 1024), float("nan"), device=DEVICE
        )  # takes memory that is free too early
    assert [one.item() for one in sums] == in_memory
