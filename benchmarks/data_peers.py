"""The same samples in each peer's format, read as its documentation shows; for data_loading.py.

A peer is (write, read): write(directory, x, y) makes its files once; read(directory, case) gives an endless
stream of batch sizes, each batch being two tensors that were really made.
"""

from __future__ import annotations

import io
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset


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
        writer.add_item(i, {"x": np.ascontiguousarray(x[i]), "y": int(y[i])})
    writer.done()
    writer.merge()


def read_litdata(directory: Path, case) -> Iterator[int]:
    from litdata import StreamingDataLoader, StreamingDataset

    loader = StreamingDataLoader(
        StreamingDataset(str(directory / "lit"), shuffle=True), batch_size=case.batch_size
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
    view = base.begin(buffers=True)

    def get(i):
        value = view.get(f"{i:07}".encode())
        return tensor(value[8:], case), int.from_bytes(value[:8], "little")

    return items(base.stat()["entries"], get, case)


def write_webdataset(directory: Path, x, y) -> None:
    per_shard = max(1, (32 << 20) // x[0].nbytes)
    for shard, start in enumerate(range(0, len(x), per_shard)):
        with tarfile.open(directory / f"web-{shard:04}.tar", "w") as tar:
            for i in range(start, min(len(x), start + per_shard)):
                for suffix, raw in (("bin", x[i].tobytes()), ("cls", str(int(y[i])).encode())):
                    info = tarfile.TarInfo(f"{i:07}.{suffix}")
                    info.size = len(raw)
                    tar.addfile(info, io.BytesIO(raw))


def read_webdataset(directory: Path, case) -> Iterator[int]:
    import webdataset

    shards = sorted(str(path) for path in directory.glob("web-*.tar"))
    samples = webdataset.WebDataset(shards, shardshuffle=len(shards)).shuffle(1000).to_tuple("bin", "cls")
    data = samples.map_tuple(lambda raw: tensor(raw, case), int).batched(case.batch_size)
    return epochs(webdataset.WebLoader(data, batch_size=None))


def write_arrow(directory: Path, x, y) -> None:
    import datasets

    features = datasets.Features({"x": datasets.Value("binary"), "y": datasets.Value("int64")})
    table = datasets.Dataset.from_dict({"x": [row.tobytes() for row in x], "y": y}, features=features)
    table.save_to_disk(str(directory / "arrow"))


def read_arrow(directory: Path, case) -> Iterator[int]:
    import datasets

    table = datasets.load_from_disk(str(directory / "arrow"))
    rng = np.random.default_rng(0)
    while True:
        order = rng.permutation(len(table))
        for start in range(0, len(order), case.batch_size):
            batch = table[order[start : start + case.batch_size].tolist()]  # a batch at once: its fastest way
            torch.stack([tensor(raw, case) for raw in batch["x"]]), torch.tensor(batch["y"])
            yield len(batch["y"])


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

    store, y = zarr.open_array(str(directory / "x.zarr"), mode="r"), np.load(directory / "zarr_y.npy")
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
            return torch.from_numpy(np.asarray(image.convert("RGB")).transpose(2, 0, 1).copy()), int(
                files[i].parent.name
            )

    return items(len(files), get, case)


PEERS = {
    "group per sample (HDF5)": (write_h5_groups, read_h5_groups),
    "LitData": (write_litdata, read_litdata),
    "LMDB": (write_lmdb, read_lmdb),
    "WebDataset": (write_webdataset, read_webdataset),
    "HF datasets": (write_arrow, read_arrow),
    "zarr 3, sharded": (write_zarr, read_zarr),
    "JPEG files": (write_jpeg, read_jpeg),
}
