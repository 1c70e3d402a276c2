"""data.standardize: by mean and deviation of the training rows of the run, wherever its model is used."""

import json
import re

import numpy as np
import pytest
import torch
from hdf5_packing import all_rows, packing  # noqa: F401
from labrig import H5DataModule
from labrig.data import DataFileError, write_data_file
from labrig.errors import LabError
from labrig.hdf5.pack.command import pack_command
from projects import project_in

RNG = np.random.default_rng(0)


def module(tmp_path, fields, **settings):
    n = len(next(iter(fields.values())))
    splits = {"train": range(n // 2), "val": range(n // 2, n - 5), "test": range(n - 5, n)}
    write_data_file(tmp_path / "a.h5", fields, splits)
    names = tuple(fields)
    return H5DataModule(str(tmp_path / "a.h5"), fields=names, batch_size=64, **settings)


def batch_of(data, split="val"):
    batch = next(iter(data.loader(split)))
    return data.on_after_batch_transfer(batch, 0)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "u1"])
def test_columns_become_zero_and_one_in_training(tmp_path, dtype):
    x = (RNG.normal(size=(60, 3)) * [1, 30, 5] + [100, 90, 80]).astype(dtype)
    data = module(tmp_path, {"x": x, "y": np.arange(60)}, standardize="x")
    train, y = batch_of(data, "train")
    assert (train.dtype, y.dtype) == (torch.float32, torch.int64)
    np.testing.assert_allclose(train.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(train.std(0, correction=0), 1, rtol=1e-5)
    val, _ = batch_of(data)
    wide = x.astype(np.float64)
    expected = (wide[30:55] - wide[:30].mean(0)) / wide[:30].std(0)
    np.testing.assert_allclose(val, expected, rtol=1e-5, atol=1e-5)


def test_times_keep_their_digits(tmp_path):
    """float32 would make one number of them before the mean is subtracted."""
    x = 1.7e9 + np.arange(60.0)[:, None]
    train, _ = batch_of(module(tmp_path, {"x": x, "y": x}, standardize="x"), "train")
    assert len(train.unique()) == 30


def test_channels_of_images_and_samples_of_any_length(tmp_path):
    x = RNG.normal(3, 2, size=(60, 2, 5, 4)).astype("f4")
    wav = [RNG.normal(-1, 4, size=n).astype("f4") for n in range(1, 61)]
    data = module(tmp_path, {"x": x, "wav": wav}, standardize=["x", "wav"], shapes={"wav": 9})
    images, waves = batch_of(data)
    mean, std = x[:30].mean((0, 2, 3)), x[:30].std((0, 2, 3))
    expected = (x[30:55] - mean[:, None, None]) / std[:, None, None]
    np.testing.assert_allclose(images, expected, rtol=1e-4, atol=1e-5)
    flat = np.concatenate(wav[:30]).astype(np.float64)
    np.testing.assert_allclose(waves[0], (wav[30][:9] - flat.mean()) / flat.std(), rtol=1e-4)
    assert len(waves[0])


def test_a_fold_has_statistics_of_its_own_rows(tmp_path):
    x = RNG.normal(size=(60, 1)) + np.arange(60)[:, None]
    data = module(tmp_path, {"x": x}, standardize="x", folds=5, fold=2)
    rows = data.rows("train")
    assert len(rows) == 44
    assert data.statistics["x"]["mean"].item() == pytest.approx(x[rows].mean(), rel=1e-12)


def test_a_constant_column_becomes_zero_and_nan_does_not_count(tmp_path):
    x = np.ones((60, 2))
    x[3, 1] = np.nan
    values, _ = batch_of(module(tmp_path, {"x": x, "y": x}, standardize="x"))
    assert (values == 0).all()
    with pytest.raises(DataFileError, match="no value in the training rows"):
        batch_of(module(tmp_path, {"x": x * np.nan, "z": x}, standardize="x"))


def test_a_constant_column_has_no_deviation_by_the_rounding_of_its_mean(tmp_path):
    """Of float64 the mean of a thousand 0.1 is not 0.1, and 0.3 became 10**14."""
    x = np.where(np.arange(2000) < 1000, 0.1, 0.3)[:, None] + [0.0, 1e6]
    data = module(tmp_path, {"x": x, "y": x}, standardize="x")
    train, _ = batch_of(data, "train")
    assert (train == 0).all()
    np.testing.assert_allclose(batch_of(data)[0], 0.2, rtol=1e-6)


def test_complex_numbers_keep_their_imaginary_part(tmp_path):
    x = np.arange(60).astype("c8")[:, None] * (2 + 4j)
    y, _ = batch_of(module(tmp_path, {"x": x, "y": x}, scale={"x": 2}))
    np.testing.assert_array_equal(y, x[30:55] / 2)
    with pytest.raises(DataFileError, match="x holds complex numbers"):
        batch_of(module(tmp_path, {"x": x, "y": x}, standardize="x"))


def test_the_state_of_one_run_holds_for_other_data(tmp_path):
    x = RNG.normal(5, 2, size=(60, 3))
    state = module(tmp_path, {"x": x, "y": x}, standardize="x").state_dict()
    other = module(tmp_path, {"x": 2 * x, "y": x}, standardize="x")
    other.load_state_dict(torch_round_trip(state, tmp_path))
    expected = (2 * x[30:55] - x[:30].mean(0)) / x[:30].std(0)
    np.testing.assert_allclose(batch_of(other)[0], expected, rtol=1e-5, atol=1e-5)
    assert len(batch_of(other)[0])


def test_new_data_need_no_training_part(tmp_path):
    x = RNG.normal(5, 2, size=(60, 3))
    state = module(tmp_path, {"x": x, "y": x}, standardize="x").state_dict()
    write_data_file(tmp_path / "new.h5", {"x": x[:9], "y": x[:9]}, {"test": range(9)})
    new = H5DataModule(str(tmp_path / "new.h5"), fields=("x", "y"), standardize="x")
    new.load_state_dict(state)
    expected = (x[:9] - x[:30].mean(0)) / x[:30].std(0)
    assert batch_of(new, "test")[0] == pytest.approx(expected, rel=1e-5, abs=1e-5)


def torch_round_trip(state, folder):
    torch.save(state, folder / "state")
    return torch.load(folder / "state", weights_only=True)


def test_what_cannot_be_standardised_is_refused(tmp_path):
    x = np.arange(60.0)
    for settings in ({"standardize": "z"}, {"standardize": "x", "scale": {"x": 2}}):
        with pytest.raises(LabError, match=r"Write: data\.standardize=x"):
            module(tmp_path, {"x": x}, **settings)


def test_the_yaml_of_a_wide_table_standardises_it(tmp_path, pack):
    table = tmp_path / "raw/t.csv"
    for first, line in ((1_700_000_000, "standardize: x "), (0, "standardize: null ")):
        table.write_text("t,y\n" + "".join(f"{first + i},{i % 2}\n" for i in range(40)))
        file = tmp_path / "src/myproj/conf/data/t.yaml"
        file.unlink(missing_ok=True)
        pack("t", table, "--as", "table", "--label", "y")
        assert line in file.read_text()


def test_lines_that_packing_wrote_follow_the_next_packing_and_others_stay(tmp_path, pack, capsys):
    table = tmp_path / "raw/t.csv"
    table.write_text("t,y\n" + "".join(f"{i},{'ab'[i % 2]}\n" for i in range(40)))
    pack("t", table, "--as", "table", "--label", "y")
    file = tmp_path / "src/myproj/conf/data/t.yaml"
    file.write_text(file.read_text().replace("batch_size: 64", "batch_size: 8"))
    table.write_text("t,y\n" + "".join(f"{i},{'abc'[i % 3]}\n" for i in range(30)))
    pack("t", table, "--as", "table", "--label", "y", "--seed", 7)
    text = file.read_text()
    assert text.startswith("# 30 samples, 3 classes: a, b, c. Written by")
    assert re.search(r'^pack: "lab data pack t \S+ --as table --label y --seed 7"', text, re.M)
    assert "batch_size: 8 " in text
    own = re.sub(r"^pack: .*$", "pack: make data", text, flags=re.M).replace("# 30", "# my 30")
    file.write_text(own)
    pack("t", table, "--as", "table", "--label", "y", "--seed", 8)
    assert file.read_text() == own
    assert "Its line `pack` makes another file" in capsys.readouterr().out


def test_other_data_get_the_numbers_of_the_classes_and_texts_that_a_model_learnt(tmp_path, pack):
    def write(name, rows):
        path = tmp_path / f"raw/{name}.csv"
        path.write_text("\n".join(",".join(map(str, row)) for row in rows))
        return path

    rows = [(i, "xyz"[i % 3], ("cat", "dog", "owl")[i % 3]) for i in range(30)]
    pack("old", write("old", [("a", "b", "y"), *rows]), "--as", "table", "--label", "y")
    (tmp_path / "data/kept").mkdir()
    rows = [(("owl", "cat")[i % 2], "zx"[i % 2], i) for i in range(30)]
    path = write("new", [("y", "b", "a"), *rows])
    (tmp_path / "data/old.h5").rename(tmp_path / "data/kept/old.h5")
    config = tmp_path / "src/myproj/conf/data/old.yaml"
    config.write_text(config.read_text().replace("path: old.h5", "path: kept/old.h5"))
    words = ["--as", "table", "--label", "y", "--classes-of", "old"]
    pack_command(project_in(tmp_path), ["new", str(path), *words])
    layout = H5DataModule(str(tmp_path / "data/new.h5")).layout
    assert json.loads(layout.arrays["y"].attrs["classes"]) == ["cat", "dog", "owl"]
    assert json.loads(layout.arrays["x"].attrs["columns"]) == ["a", "b"]
    assert json.loads(layout.arrays["x"].attrs["categories"]) == {"b": ["x", "y", "z"]}
    x, y = all_rows(layout, "x", "y")
    assert {(a % 2, b, c) for (a, b), c in zip(x.tolist(), y.tolist(), strict=True)} == {
        (0, 2, 2),
        (1, 0, 0),
    }
    for other in [("owl", "w", 1), ("bee", "x", 1)]:
        path = write("new", [("y", "b", "a"), *rows, other])
        with pytest.raises(
            DataFileError, match=r"old has no '(w|bee)', so its models have no number"
        ):
            pack_command(project_in(tmp_path), ["new", str(path), *words])


NUMBERED = [(i, 1 + i % 2, 1 + i % 3 % 2) for i in range(30)]
MEASURED = [(i, 1 + i % 2, i / 7) for i in range(30)]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            NUMBERED,
            [(1, 1, "one"), (2, 2, "two")],
            "column 'y': old has no 'one', 'two'.*: no names",
        ),
        (NUMBERED, [(1, "f", 1), (2, "m", 2)], "column 'b': old has no 'f', 'm'.*: no names"),
        (MEASURED, [(1, 1, "u"), (2, 2, "v")], "column 'y': old has no 'u', 'v'"),
    ],
)
def test_texts_where_a_model_learnt_numbers_are_refused(tmp_path, pack, old, new, message):
    """They became 0 and 1."""
    for name, rows in (("old", old), ("new", new * 9)):
        lines = [("a", "b", "y"), *rows]
        (tmp_path / f"raw/{name}.csv").write_text(
            "\n".join(",".join(map(str, line)) for line in lines)
        )
    words = ["--as", "table", "--label", "y"]
    pack("old", tmp_path / "raw/old.csv", *words)
    with pytest.raises(DataFileError, match=message):
        pack("new", tmp_path / "raw/new.csv", *words, "--classes-of", "old")


def test_columns_that_a_model_has_not_are_told(tmp_path, pack, capsys):
    rows = "".join(f"{i},{i % 3},{i % 2}\n" for i in range(30))
    (tmp_path / "raw/old.csv").write_text('"a,b",c,y\n' + rows)
    (tmp_path / "raw/new.csv").write_text(
        'y,"a,b",c,new\n' + "".join(f"{i % 2},{i},{i % 3},{i % 5}\n" for i in range(30))
    )
    words = ["--as", "table", "--label", "y"]
    layout = pack("old", tmp_path / "raw/old.csv", *words, "--columns", '"a,b",c')
    assert json.loads(layout.fields["x"].attrs["columns"]) == ["a,b", "c"]
    pack_command(
        project_in(tmp_path),
        ["new", str(tmp_path / "raw/new.csv"), *words, "--classes-of", "old"],
    )
    assert "columns that are not read: new\n" in capsys.readouterr().out


class Grouped(H5DataModule):
    given = ()

    @classmethod
    def samples(cls, source):
        yield from cls.given


def test_each_group_by_its_own_training_rows_also_in_other_data(pack):
    def packed(name, groups):
        level = {"a": 10.0, "b": 1000.0, "c": 0.0}
        x = [RNG.normal(size=int(RNG.integers(20, 40))) + level[group] for group in groups]
        split = ["train" if i < len(groups) - 2 else "val" for i in range(len(groups))]
        Grouped.given = [
            {"x": a.astype("f4"), "group": g, "split": s}
            for a, g, s in zip(x, groups, split, strict=True)
        ]
        path = pack(name, "--as", f"{__name__}.Grouped").path
        return str(path.rename(path.parent.parent / path.name))

    how = {"fields": ["x", "group"], "standardize": "x", "standardize_per_group": True}
    first = H5DataModule(packed("one", "abababab"), windows={"past": 5}, **how)
    x, group = next(iter(first.loader("val")))
    seen, _ = first.on_after_batch_transfer((x, group), 0)
    for number in (0, 1):
        rows = first.layout.map(first.layout.split("train"))
        values, ends, groups = all_rows(first.layout, "x", "x_offsets", "group")
        train = np.concatenate([values[ends[r] : ends[r + 1]] for r in rows if groups[r] == number])
        expected = (x[group == number] - train.mean(dtype="f8")) / train.std(dtype="f8")
        np.testing.assert_allclose(seen[group == number], expected, atol=1e-4)

    other = H5DataModule(packed("two", "babab"), windows={"past": 5}, **how)
    other.load_state_dict(first.state_dict())
    mean = other.statistics["x"]["mean"]
    assert mean[0] == first.statistics["x"]["mean"][1], "b is the first group here"
    assert mean[1] == first.statistics["x"]["mean"][0]
    new = H5DataModule(packed("three", "abc"), windows={"past": 5}, **how)
    new.load_state_dict(first.state_dict())
    with pytest.raises(DataFileError, match=r"1 group of 2 that are read did not train"):
        new.loader("val")
    both = H5DataModule([first.path, packed("four", "abab")], windows={"past": 5}, **how)
    x, group = next(iter(both.loader("val")))  # of several files
    assert both.on_after_batch_transfer((x, group), 0)[0].shape == x.shape
    with pytest.raises(LabError, match=r"Write: data.fields=\[x,group\]"):
        H5DataModule("one.h5", fields=["x"], standardize="x", standardize_per_group=True)
