"""Several files in a folder, a list or a pattern are one data set: rows, splits, order, resume, hash, record."""

import json
import pickle
import shutil

import numpy as np
import pytest
import torch
from hdf5_training import BATCH_SIZE, N, make_file, train
from labrig.data import (
    DataFileError,
    H5DataModule,
    H5Dataset,
    fingerprint,
    read_layout,
    write_data_file,
)
from labrig.errors import LabError
from labrig.hdf5.file.checksum import sha256_of_hashes, verify_layout
from labrig.hdf5.file.find import data_files_in, find_data_files
from labrig.hdf5.file.joined import read_layouts
from labrig.hdf5.read import datamodule
from labrig.hdf5.read.field_readers import RaggedReader
from labrig.record.reproduce.recorded_inputs import kept_path
from test_hdf5_resume import samples, train_on_two, trained

SIZES = (40, 7, 53)


def fields(first, n, seed=0):
    """Samples that tell which they are: x and wav hold their number."""
    rng = np.random.default_rng(seed)
    numbers = np.arange(first, first + n)
    return {
        "x": np.repeat(numbers, 12).reshape(n, 3, 4).astype(np.float32),
        "wav": [
            np.full(k, i, np.int16) for i, k in zip(numbers, rng.integers(1, 9, n), strict=True)
        ],
        "y": numbers % 5,
    }


def splits_of(n):
    """Half of the rows train; in a small file the others are val, else val and test."""
    rows = np.arange(n)
    splits = {"train": rows[::2], "val": rows[1::4]}
    return splits if n < 10 else splits | {"test": rows[3::4]}


@pytest.fixture
def folder(tmp_path):
    """Three files, whose 100 samples are numbered through."""
    first = 0
    for number, n in enumerate(SIZES):
        path = tmp_path / "climate" / f"part-{number}.h5"
        path.parent.mkdir(exist_ok=True)
        write_data_file(path, fields(first, n, number), splits_of(n))
        first += n
    return tmp_path / "climate"


def expected_rows(split):
    """The numbers of the samples of a split, as the files have them."""
    starts = np.cumsum([0, *SIZES])
    rows = [
        start + splits_of(n)[split]
        for start, n in zip(starts, SIZES, strict=False)
        if split in splits_of(n)
    ]
    return np.concatenate(rows)


@pytest.mark.parametrize("split", ["train", "val", "test", "all"])
def test_each_split_is_that_of_the_files_one_after_another(folder, split):
    dataset = H5Dataset(folder, split, ("x", "wav", "wav_lengths", "y"))
    numbers = np.arange(100) if split == "all" else expected_rows(split)
    assert len(dataset) == len(numbers)
    picked = np.random.default_rng(0).integers(0, len(numbers), 200)
    x, wav, lengths, y = (tensor.numpy() for tensor in dataset.__getitems__(picked))
    assert (x == numbers[picked][:, None, None]).all()
    assert (y == numbers[picked] % 5).all()
    for row, length, number in zip(wav, lengths, numbers[picked], strict=True):
        assert (row[:length] == number).all()
        assert length > 0
    assert x.flags.writeable  # no view of the map


def test_what_is_read_is_what_one_file_with_these_samples_holds(folder, tmp_path):
    one = write_data_file(
        tmp_path / "one.h5",
        {name: values if name != "wav" else [*values] for name, values in joined_fields().items()},
        {name: expected_rows(name) for name in ("train", "val", "test")},
    )
    options = {"fields": ("x", "wav", "y"), "shapes": {"wav": 4}, "batch_size": 8, "seed": 3}
    for order in ("random", "blocks"):
        loaders = []
        for path in (str(one), str(folder)):
            data = H5DataModule(path, order=order, **options)
            data.block = 5 if order == "blocks" else 0
            loaders.append(data.train_dataloader())
        for _ in range(2):
            for batch, same in zip(*loaders, strict=True):
                assert all(map(torch.equal, batch, same))


def joined_fields():
    starts = np.cumsum([0, *SIZES])
    parts = [fields(start, n, k) for k, (start, n) in enumerate(zip(starts, SIZES, strict=False))]
    joined = {name: np.concatenate([part[name] for part in parts]) for name in ("x", "y")}
    return joined | {"wav": [wav for part in parts for wav in part["wav"]]}


def test_a_folder_a_list_and_a_pattern_name_the_same_files(folder, tmp_path, monkeypatch):
    files = [folder / f"part-{number}.h5" for number in range(3)]
    search = [str(tmp_path)]
    names = [f"climate/{file.name}" for file in files]
    for path in (
        "climate",
        "climate/",
        "climate/part-*.h5",
        names,
        ["climate/part-[01].h5", files[2]],
    ):
        assert find_data_files(path, search) == files
    reordered = H5DataModule(names[::-1], search)
    assert reordered.files == files[::-1]
    assert (
        reordered.fingerprint()["sha256"] != H5DataModule("climate", search).fingerprint()["sha256"]
    )
    with pytest.raises(DataFileError, match=r"names .*part-0.h5 twice; write each file once"):
        find_data_files(["climate", names[0]], search)
    with pytest.raises(DataFileError, match=r"names no file; write such as data.path=digits.h5"):
        find_data_files([], search)
    with pytest.raises(DataFileError, match=r"no data file climate/part-7\.h5 in .*"):
        find_data_files([*names, "climate/part-7.h5"], search)
    with pytest.raises(DataFileError, match=r"no data file climte-\*\.h5 in"):
        find_data_files("climte-*.h5", search)


def test_a_file_that_was_kept_for_its_runs_is_no_part(folder):
    files = data_files_in(folder)
    shutil.copy(files[1], kept_path(files[1], "0123456789abcdef"))
    shutil.copy(files[1], folder / ".part-9.h5")
    assert data_files_in(folder) == files


def test_one_fingerprint_is_made_of_those_of_the_files(folder):
    whole = fingerprint(read_layouts(data_files_in(folder)))
    alone = [fingerprint(file) for file in data_files_in(folder)]
    assert [part["sha256"] for part in whole["files"]] == [part["sha256"] for part in alone]
    assert whole["n"] == 100
    assert whole["size_bytes"] == sum(part["size_bytes"] for part in alone)
    assert whole["path"] == str(folder)
    one = read_layouts(data_files_in(folder)[:1])
    assert sha256_of_hashes(one) == alone[0]["sha256"]
    changed = fields(40, 7, 1) | {"y": np.arange(7) + 1}
    write_data_file(folder / "part-1.h5", changed, splits_of(7))
    assert fingerprint(read_layouts(data_files_in(folder)))["sha256"] != whole["sha256"]


def test_damage_in_any_file_is_named(folder):
    files = data_files_in(folder)
    x = read_layout(files[2]).field("x")
    with open(files[2], "r+b") as file:
        file.seek(x.offset + 8)
        file.write(b"\xff")
    with pytest.raises(DataFileError, match=r"part-2\.h5: /data/x is damaged"):
        verify_layout(read_layouts(files))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda part: part.pop("y"),
            r"part-3\.h5: field 'y' is missing, expected int64 \[\] as in",
        ),
        (lambda part: part.update(z=part["y"]), r"field 'z' is int64 \[\], expected no such field"),
        (
            lambda part: part.update(x=part["x"][:, :2]),
            r"field 'x' is float32 \[2, 4\], expected float32 \[3, 4\] as in .*part-0\.h5",
        ),
        (
            lambda part: part.update(wav=np.zeros((6, 3), np.int16)),
            r"field 'wav' is int16 \[3\], expected int16 of varying length",
        ),
    ],
)
def test_files_that_differ_in_fields_are_refused_in_one_line(folder, change, message):
    part = fields(100, 6)
    change(part)
    write_data_file(folder / "part-3.h5", part, {"train": range(6)})
    with pytest.raises(DataFileError, match=message) as refused:
        H5DataModule(str(folder)).prepare_data()
    assert "\n" not in str(refused.value)


def test_a_foreign_file_is_refused(folder):
    import h5py

    with h5py.File(folder / "part-9.h5", "w") as file:
        file["x"] = np.zeros(3)
    with pytest.raises(DataFileError, match=r"part-9\.h5 was not written by `lab data pack`"):
        H5DataModule(str(folder)).layout  # noqa: B018


def write_classes(path, names, key="classes"):
    from labrig.hdf5.pack.writer import write_fields

    attrs = {"y": {key: json.dumps(names)}}
    write_fields(path, {"y": np.zeros(3, np.int64)}, {}, provenance={}, field_attrs=attrs)
    return path


def test_classes_mean_the_same_in_all_files(tmp_path):
    a = write_classes(tmp_path / "a.h5", ["cat", "dog"])
    more = write_classes(tmp_path / "b.h5", ["cat", "dog", "owl"])
    for files in ([a, more], [more, a]):
        assert read_layouts(files).field("y").attrs["classes"] == '["cat", "dog", "owl"]'
    other = write_classes(tmp_path / "c.h5", ["ant", "cat"])
    with pytest.raises(
        DataFileError, match=r"classes of field 'y' is .*ant.*expected .*owl.* as in"
    ):
        read_layouts([a, more, other])
    without = write_data_file(tmp_path / "d.h5", {"y": np.zeros(3, np.int64)}, {})
    with pytest.raises(DataFileError, match=r"classes of field 'y' is None"):
        read_layouts([a, without])
    masks = [
        write_classes(tmp_path / f"m{k}.h5", values, "values")
        for k, values in enumerate([[0, 9], [0, 4]])
    ]
    assert read_layouts(masks).field("y").attrs["values"] == "[0, 4, 9]"


def test_a_pickled_data_set_holds_no_rows(folder):
    dataset = H5Dataset(folder, "train", ("x", "wav"), shapes={"wav": 4})
    before = dataset.__getitems__(range(20))
    pickled = pickle.dumps(dataset)
    assert len(pickled) < 20000
    assert all(map(torch.equal, before, pickle.loads(pickled).__getitems__(range(20))))


def test_folds_divide_the_rows_of_all_files(folder):
    held_out = []
    for fold in range(4):
        data = H5DataModule(str(folder), folds=4, fold=fold, stratify="y")
        rows = {split: set(data.rows(split).tolist()) for split in ("train", "val")}
        assert not rows["train"] & rows["val"]
        held_out += data.rows("val").tolist()
        classes = np.bincount(np.array(sorted(rows["val"])) % 5)
        assert classes.max() - classes.min() <= 1
    assert sorted(held_out) == sorted([*expected_rows("train"), *expected_rows("val")])


def test_folds_of_groups_in_several_files_are_refused(tmp_path):
    for name in "ab":
        group = np.arange(9) // 3
        write_data_file(tmp_path / f"{name}.h5", {"x": np.ones(9), "group": group}, {})
    with pytest.raises(LabError, match=r"is 2 files with groups, which each numbers by itself"):
        H5DataModule(str(tmp_path), folds=3, fold=0).rows("val")


def test_all_files_are_staged_and_the_record_names_the_originals(folder, tmp_path):
    place = tmp_path / "node"
    place.mkdir()
    data = H5DataModule(str(folder), stage=str(place), fields=("x", "y"))
    assert [part.path.parent.parent for part in data.layout.parts] == [place] * 3
    content = data.fingerprint()
    assert content["path"] == str(folder)
    assert [part["path"] for part in content["files"]] == [*map(str, data_files_in(folder))]
    assert content["sha256"] == H5DataModule(str(folder)).fingerprint()["sha256"]
    x, _ = next(iter(data.val_dataloader()))
    assert x[:, 0, 0].tolist() == expected_rows("val")[: len(x)].tolist()


def test_the_disk_is_told_of_the_rows_of_a_block_in_each_file(folder, monkeypatch):
    layout = read_layouts(data_files_in(folder))
    told = []
    for part in layout.parts:
        monkeypatch.setattr(
            type(part.file),
            "tell_ahead",
            lambda file, *place: told.append((file.path.name, *place)),
        )
    layout.tell_ahead(layout.field("x"), 38, 50)
    offsets = [part.field("x").offset for part in layout.parts]
    assert told == [
        ("part-0.h5", offsets[0] + 38 * 48, 2 * 48),
        ("part-1.h5", offsets[1], 7 * 48),
        ("part-2.h5", offsets[2], 3 * 48),
    ]
    told.clear()
    reader = RaggedReader(layout, "wav", 4, "start")
    reader.tell_ahead(39, 41)
    assert [name for name, *_ in told] == ["part-0.h5", "part-1.h5"]


def test_auto_counts_the_bytes_of_all_files(folder, monkeypatch, capfd):
    n_bytes = 100 * (48 + 8)
    monkeypatch.setattr(datamodule, "memory_limit_bytes", lambda: n_bytes - 1)
    assert H5DataModule(str(folder)).block > 0
    assert "climate (0.0 GB) does not fit" in capfd.readouterr().err
    monkeypatch.setattr(datamodule, "memory_limit_bytes", lambda: n_bytes)
    assert H5DataModule(str(folder)).block == 0
    assert H5DataModule(str(folder)).n_classes == 5


def test_a_file_that_comes_while_a_training_begins_is_not_read(folder):
    data = H5DataModule(str(folder))
    data.prepare_data()
    write_data_file(folder / "part-3.h5", fields(100, 6), {"train": range(6)})
    assert len(data.train_dataloader().dataset) == len(expected_rows("train"))
    assert (
        len(H5DataModule(str(folder)).train_dataloader().dataset) == len(expected_rows("train")) + 6
    )


@pytest.mark.parametrize("n_here", [2, 4])
def test_ranks_read_the_files_that_the_first_one_saw(folder, monkeypatch, n_here):
    def broadcast(decided):
        decided[0] = 3

    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "broadcast_object_list", broadcast)
    monkeypatch.setattr(H5DataModule, "ranks", lambda _: (0, 1))
    write_data_file(folder / "part-3.h5", fields(100, 6), {"val": range(6)})
    for file in data_files_in(folder)[n_here:]:
        file.unlink()
    data = H5DataModule(str(folder))
    if n_here == 2:
        with pytest.raises(DataFileError, match=r"2 files here, and 3 for the first process"):
            data.loader("val")
        return
    assert len(data.loader("val").dataset) == len(expected_rows("val"))


def cut_into_files(directory):
    """The file of `hdf5_training` as three files, which hold its samples in its order."""
    make_file(directory / "whole.h5")
    whole = read_layout(directory / "whole.h5")
    index = whole.map(whole.field("index"))
    flat, offsets = whole.map(whole.field("wav")), whole.map(whole.arrays["wav_offsets"])
    wav = [flat[offsets[row] : offsets[row + 1]] for row in range(N)]
    (directory / "data").mkdir()
    for number, (start, stop) in enumerate([(0, 50), (50, 57), (57, N)]):
        splits = {
            name: [row - start for row in rows if start <= row < stop]
            for name, rows in {"train": range(N - 20), "val": range(N - 20, N)}.items()
        }
        write_data_file(
            directory / "data" / f"{number}.h5",
            {"index": index[start:stop], "wav": wav[start:stop]},
            splits,
        )


@pytest.mark.slow
@pytest.mark.parametrize("block", [None, 5])
def test_a_training_on_several_files_is_that_on_one_and_resumes_exactly(tmp_path, block):
    cut_into_files(tmp_path)
    of_one = train(tmp_path, name="whole.h5", block=block)
    of_several = train(tmp_path, name="data", block=block)
    assert of_several["seen"] == of_one["seen"]
    assert of_several["weights"] == of_one["weights"]
    before = train(tmp_path, name="data", stop_after=7, block=block)
    after = train(tmp_path, name="data", resume=True, block=block)
    assert trained(before) + trained(after) == trained(of_one)
    assert after["weights"] == of_one["weights"]


@pytest.mark.release
@pytest.mark.slow
def test_two_ranks_with_workers_share_the_rows_of_all_files(tmp_path):
    cut_into_files(tmp_path)
    ranks, _ = train_on_two(tmp_path, name="data", num_workers=1)
    of_one = train(tmp_path, name="whole.h5", batch_size=2 * BATCH_SIZE, epochs=1)
    for epoch in range(3):
        parts = [samples(*trained(rank, epoch)) for rank in ranks]
        assert sorted(parts[0] + parts[1]) == list(range(N - 20))
    assert samples(ranks[0]["seen"][0], ranks[1]["seen"][0]) == samples(of_one["seen"][0])
