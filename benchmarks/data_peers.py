"""The same samples in each peer's format, read as its documentation shows; for data_loading.py.

Each batch is two tensors that were really made.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset


@dataclass(frozen=True)
class Peer:
    """Another way to store and read samples."""

    write: Callable  # write(directory, x, y) makes its files once
    read: Callable  # read(directory, case) gives an endless stream of batch sizes


class Items(Dataset):
    """A map-style dataset from a function index -> (x, y)."""

    def __init__(self, n, get):
        self.n, self.get = n, get

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        return self.get(index)


def epochs(loader) -> Iterator[int]:
    """Batch sizes, epoch after epoch."""
    while True:
        for x, *_ in loader:
            yield len(x)


def items(n, get, case) -> Iterator[int]:
    return epochs(DataLoader(Items(n, get), case.batch_size, shuffle=True))


def tensor(raw, case) -> torch.Tensor:
    return torch.from_numpy(np.frombuffer(raw, case.dtype).reshape(case.shape).copy())


def write_h5_groups(directory: Path, x, y) -> None:
    with h5py.File(directory / "groups.h5", "w") as file:
        for i in range(len(x)):
            group = file.create_group(f"{i:07}")
            group["x"], group["y"] = x[i], y[i]


def read_h5_groups(directory: Path, case) -> Iterator[int]:
    file = h5py.File(directory / "groups.h5")

    def get(i):
        group = file[f"{i:07}"]
        return torch.from_numpy(group["x"][()]), int(group["y"][()])

    return items(len(file), get, case)


def write_litdata(directory: Path, x, y) -> None:
    from litdata.streaming.writer import BinaryWriter

    shutil.rmtree(directory / "lit", ignore_errors=True)
    writer = BinaryWriter(str(directory / "lit"), chunk_bytes=64 << 20)
    for i in range(len(x)):
        writer.add_item(i, {"x": x[i].tobytes(), "y": int(y[i])})
    writer.done()
    writer.merge()


def read_litdata(directory: Path, case) -> Iterator[int]:
    from litdata import StreamingDataLoader, StreamingDataset

    class Stream(StreamingDataset):
        def __getitem__(self, index):
            item = super().__getitem__(index)
            return {"x": tensor(item["x"], case), "y": item["y"]}

    loader = StreamingDataLoader(
        Stream(str(directory / "lit"), shuffle=True), batch_size=case.batch_size
    )
    while True:
        for batch in loader:
            yield len(batch["x"])


def write_lmdb(directory: Path, x, y) -> None:
    import lmdb

    with (
        lmdb.open(str(directory / "lmdb"), map_size=x.nbytes * 3 + (1 << 28)) as base,
        base.begin(write=True) as out,
    ):
        for i in range(len(x)):
            out.put(f"{i:07}".encode(), int(y[i]).to_bytes(8, "little") + x[i].tobytes())


def read_lmdb(directory: Path, case) -> Iterator[int]:
    import lmdb

    base = lmdb.open(str(directory / "lmdb"), readonly=True, readahead=False, lock=False)

    def get(i):
        with base.begin(write=False) as view:  # as torchvision's LSUN does
            value = view.get(f"{i:07}".encode())
        return tensor(memoryview(value)[8:], case), int.from_bytes(value[:8], "little")

    return items(base.stat()["entries"], get, case)


def write_webdataset(directory: Path, x, y) -> None:
    import webdataset

    per_shard = max(1, (32 << 20) // x[0].nbytes)
    with webdataset.ShardWriter(
        str(directory / "web-%04d.tar"), maxcount=per_shard, verbose=0
    ) as out:
        for i in range(len(x)):
            out.write({"__key__": f"{i:07}", "x.npy": x[i], "y.cls": int(y[i])})


def read_webdataset(directory: Path, case) -> Iterator[int]:
    import webdataset

    shards = sorted(str(path) for path in directory.glob("web-*.tar"))
    samples = webdataset.WebDataset(shards, shardshuffle=len(shards)).shuffle(1000).decode()
    return epochs(
        webdataset.WebLoader(
            samples.to_tuple("x.npy", "y.cls").batched(case.batch_size), batch_size=None
        )
    )


def write_arrow(directory: Path, x, y) -> None:
    import datasets

    shape = x.shape[1:]
    kind = str(x.dtype)
    array = datasets.Sequence(datasets.Value(kind), shape[0])
    if len(shape) == 3:
        array = datasets.Array3D(shape, kind)
    features = datasets.Features({"x": array, "y": datasets.Value("int64")})
    datasets.disable_progress_bars()
    parts = [{"x": list(x[i : i + 500]), "y": y[i : i + 500]} for i in range(0, len(x), 500)]
    tables = [datasets.Dataset.from_dict(part, features=features) for part in parts]
    datasets.concatenate_datasets(tables).save_to_disk(str(directory / "arrow"))


def read_arrow(directory: Path, case) -> Iterator[int]:
    import datasets

    table = datasets.load_from_disk(str(directory / "arrow")).with_format("torch")
    loader = DataLoader(table, case.batch_size, shuffle=True)
    while True:
        for batch in loader:
            yield len(batch["x"])


def write_zarr(directory: Path, x, y) -> None:
    import zarr

    per_shard = max(1, (32 << 20) // x[0].nbytes)
    shape = {"shape": x.shape, "chunks": (1, *x.shape[1:]), "shards": (per_shard, *x.shape[1:])}
    store = zarr.create_array(
        str(directory / "x.zarr"), dtype=x.dtype, compressors=None, overwrite=True, **shape
    )
    for start in range(0, len(x), per_shard):
        store[start : start + per_shard] = x[start : start + per_shard]
    np.save(directory / "zarr_y.npy", y)


def read_zarr(directory: Path, case) -> Iterator[int]:
    import zarr

    store = zarr.open_array(str(directory / "x.zarr"), mode="r")
    y = np.load(directory / "zarr_y.npy")
    return items(len(y), lambda i: (torch.from_numpy(np.asarray(store[i])), int(y[i])), case)


def write_jpeg(directory: Path, x, y) -> None:
    for i in range(len(x)):
        folder = directory / "jpeg" / f"{y[i]}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(x[i].transpose(1, 2, 0)).save(folder / f"{i:07}.jpg", quality=90)


def read_jpeg(directory: Path, case) -> Iterator[int]:
    files = sorted((directory / "jpeg").rglob("*.jpg"))

    def get(i):
        with Image.open(files[i]) as image:
            image_CHW = np.asarray(image.convert("RGB")).transpose(2, 0, 1)
        return torch.from_numpy(image_CHW.copy()), int(files[i].parent.name)

    return items(len(files), get, case)


PEERS = {
    "group per sample (HDF5)": Peer(write_h5_groups, read_h5_groups),
    "LitData": Peer(write_litdata, read_litdata),
    "LMDB": Peer(write_lmdb, read_lmdb),
    "WebDataset": Peer(write_webdataset, read_webdataset),
    "HF datasets": Peer(write_arrow, read_arrow),
    "zarr 3, sharded": Peer(write_zarr, read_zarr),
    "JPEG files": Peer(write_jpeg, read_jpeg),
}
