"""Nothing is left out or taken in without a line; names that look alike are refused, shown, or joined."""

import json
import os
import tarfile
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hdf5_packing import all_rows, packing  # noqa: F401
from labrig.data import DataFileError
from PIL import Image


def image(path, value=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 4), (value, 0, 0)).save(path)
    return path


def classes(layout):
    return json.loads(layout.arrays["y"].attrs["classes"])


def two_classes(root, n=5):
    for i in range(2 * n):
        image(root / "ab"[i % 2] / f"{i}.png", i)
    return root


@pytest.mark.parametrize("tool", [".ipynb_checkpoints", "__MACOSX", "__pycache__", ".thumbs"])
def test_the_folders_of_tools_are_no_classes_and_are_told(tmp_path, pack, capsys, tool):
    """R16: .ipynb_checkpoints became a class."""
    root = two_classes(tmp_path / "raw/r")
    image(root / tool / "a" / "0-checkpoint.png")
    (root / "a/._0.png").write_bytes(b"of macOS")
    (root / ".DS_Store").write_bytes(b"")
    assert classes(pack("r", root, "--as", "images")) == ["a", "b"]
    assert "files: 13 found, 10 packed, 3 hidden (such as .DS_Store)" in capsys.readouterr().out


def test_a_flat_folder_beside_an_empty_one_is_flat(tmp_path, pack):
    """R18: skimage's own pictures could not be packed because of __pycache__."""
    for i in range(5):
        image(tmp_path / f"raw/r/{i}.png", i)
    (tmp_path / "raw/r/__pycache__").mkdir()
    (tmp_path / "raw/r/empty").mkdir()
    layout = pack("r", tmp_path / "raw/r", "--as", "images")
    assert (layout.n_samples, "y" in layout.fields) == (5, False)


def test_a_folder_around_all_classes_is_skipped_as_in_a_tar(tmp_path, pack, capsys):
    """R19: it became the only class."""
    root = two_classes(tmp_path / "raw/r/dataset").parent
    assert classes(pack("r", root, "--as", "images")) == ["a", "b"]
    assert f"they are those in {root / 'dataset'}" in capsys.readouterr().out
    with tarfile.open(tmp_path / "raw/r.tar", "w") as archive:
        archive.add(root / "dataset", "dataset")
        archive.add(image(root / "dataset/a/._1.png"), "__MACOSX/dataset/a/._1.png")
    assert classes(pack("r", tmp_path / "raw/r.tar", "--as", "images")) == ["a", "b"]
    assert "files: 11 found, 10 packed, 1 hidden (such as __MACOSX/" in capsys.readouterr().out


def test_links_are_followed_once_and_one_that_leads_nowhere_is_damage(tmp_path, pack, capsys):
    """R20, R21: linked classes had no images; a dangling link was a traceback."""
    real = two_classes(tmp_path / "raw/real")
    root = tmp_path / "raw/r"
    root.mkdir()
    for name in "ab":
        (root / name).symlink_to(real / name)
    assert classes(pack("r", root, "--as", "images")) == ["a", "b"]
    (real / "a/again").symlink_to(real / "a")
    assert pack("r", root, "--as", "images").n_samples == 10
    assert "1 links not followed (such as a/again)" in capsys.readouterr().out
    (real / "a/99.png").symlink_to("nowhere")
    with pytest.raises(DataFileError, match=r"99\.png cannot be read"):
        pack("r", root, "--as", "images")
    layout = pack("r", root, "--as", "images", "--skip-damaged")
    assert json.loads(layout.attrs["skipped"]) == ["a/99.png"]
    assert "files: 12 found, 10 packed, 1 damaged, 1 links not foll" in capsys.readouterr().out


def test_links_among_classes_are_no_classes_in_whatever_order_they_are_found(tmp_path, pack):
    root = tmp_path / "raw/r"
    root.mkdir()
    for i in range(4):
        (root / f"early{i}").symlink_to(f"real{i}")
    for i in range(4):
        image(root / f"real{i}/0.png", i)
        (root / f"late{i}").symlink_to(f"real{i}")
    links = [f"{when}{i}" for when in ("early", "late") for i in range(4)]
    with pytest.raises(DataFileError, match=f"classes without images: {', '.join(links)}"):
        pack("r", root, "--as", "images")


def test_what_a_link_leads_to_is_taken_once_where_it_lies(tmp_path, pack, capsys):
    root = two_classes(tmp_path / "raw/r")
    image(root / "b/more/0.png", 11)
    (root / "a/link").symlink_to(root / "b/more")
    layout = pack("r", root, "--as", "images")
    assert np.bincount(*all_rows(layout, "y")).tolist() == [5, 6]
    assert "1 links not followed (such as a/link)" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["images", "encoded"])
@pytest.mark.parametrize(
    ("names", "typed"),
    [
        (("train", "dev", "test"), "val={}/dev test={}/test train={}/train"),
        (("train", "val", "extra"), "train={}/train val={}/val"),
        (("all/train", "all/val"), "train={}/all/train val={}/all/val"),
        (("Training", "eval"), "train={}/Training val={}/eval"),
        (("train2017", "val2017"), "train={}/train2017 val={}/val2017"),
    ],
)
def test_splits_are_no_classes(tmp_path, pack, kind, names, typed):
    root = tmp_path / "raw/r"
    for name in names:
        two_classes(root / name, 2)
    with pytest.raises(DataFileError) as error:
        pack("r", root, "--as", kind)
    command = f"{typed.replace('{}', str(root))} --as {kind}"
    assert f"Type: lab data pack r {command}\n" in str(error.value)
    assert classes(pack("r", *command.split())) == ["a", "b"]


def test_a_class_that_is_called_as_a_split_is_one_in_a_source_with_a_split(tmp_path, pack):
    for name in ("car", "train"):
        image(tmp_path / f"raw/r/{name}/0.png")
    assert classes(pack("r", f"train={tmp_path}/raw/r", "--as", "images")) == ["car", "train"]


def test_a_directory_around_is_one_in_all_sources(tmp_path, pack):
    """The only class of val was taken for one: its directories were classes."""
    for place in ("train/cat/s1", "train/cat/s2", "train/dog/s1", "val/cat/s1", "val/cat/s2"):
        image(tmp_path / f"raw/{place}/0.png")
    words = [f"{split}={tmp_path}/raw/{split}" for split in ("train", "val")]
    with pytest.raises(DataFileError, match=r"around all others: 0 in \S+train, 1 in \S+val\."):
        pack("r", *words, "--as", "images")
    image(tmp_path / "raw/val/dog/s1/0.png")
    assert classes(pack("r", *words, "--as", "images")) == ["cat", "dog"]


def test_files_of_other_suffixes_are_counted(tmp_path, pack, capsys):
    """R22: 12 of 22 files vanished."""
    root = two_classes(tmp_path / "raw/r")
    for i, suffix in enumerate(("gif", "gif", "ppm", "jfif", "GIF")):
        (root / "a" / f"x{i}.{suffix}").write_bytes(b"")
    pack("r", root, "--as", "images")
    said = capsys.readouterr().out
    assert "files: 15 found, 10 packed, 5 of other kinds (.gif 3, .jfif 1, .ppm 1)\n" in said


def test_a_file_has_the_program_of_its_name_and_no_other(tmp_path, pack):
    """K19: a tar took all programs of its folder."""
    root = two_classes(tmp_path / "raw/r")
    with tarfile.open(tmp_path / "raw/drawn.tar", "w") as archive:
        archive.add(root, "drawn")
    for name in ("drawn.py", "other.py", "clean.sh"):
        (tmp_path / "raw" / name).write_text("pass")
    (root / "make.py").write_text("pass")
    layout = pack("r", tmp_path / "raw/drawn.tar", "--as", "images")
    assert [Path(each["path"]).name for each in json.loads(layout.attrs["made_by"])] == ["drawn.py"]
    layout = pack("r", root, "--as", "images")
    assert [Path(each["path"]).name for each in json.loads(layout.attrs["made_by"])] == ["make.py"]


def test_classes_that_the_other_data_set_lacks_are_refused(tmp_path, pack):
    pack("r", two_classes(tmp_path / "raw/r"), "--as", "images")
    os.rename(tmp_path / "data/r.h5", tmp_path / "r.h5")
    config = tmp_path / "src/myproj/conf/data/r.yaml"
    config.write_text(config.read_text().replace("path: r.h5", f"path: {tmp_path}/r.h5"))
    words = ("s", tmp_path / "raw/s", "--as", "images", "--classes-of", "r")
    for i in range(3):
        image(tmp_path / f"raw/s/b/{i}.png", i)
    layout = pack(*words)
    assert (classes(layout), set(all_rows(layout, "y")[0].tolist())) == (["a", "b"], {1})
    image(tmp_path / "raw/s/c/0.png")
    with pytest.raises(DataFileError, match=r"classes: r has no 'c', so.*It has: a, b\. Rename"):
        pack(*words)


LOOK_ALIKE = ["cat", "cat\u200b"]
CAFES = [unicodedata.normalize(form, "café") for form in ("NFC", "NFD")]


@pytest.mark.parametrize(
    "names",
    [
        CAFES,
        LOOK_ALIKE,
        ["t-shirt", "t\u2011shirt"],
        ["Cat", "cat"],
        ["1", "01"],
        ["1", "1.0"],
        ["cat", "cat "],
        ["a b", "a  b"],
    ],
)
def test_classes_that_are_spelled_alike_are_refused_and_shown(tmp_path, pack, names):
    """R25: café and café were two classes, one in each split."""
    for split, name in zip(("train", "val"), names, strict=True):
        for i in range(3):
            image(tmp_path / f"raw/{split}/{name}/{i}.png", i)
            image(tmp_path / f"raw/{split}/tea/{i}.png", 10 + i)
    words = [f"{split}={tmp_path}/raw/{split}" for split in ("train", "val")]
    with pytest.raises(DataFileError) as error:
        pack("r", *words, "--as", "images")
    shown = [ascii(name) if not name.isascii() else repr(name) for name in names]
    for text in (*shown, "--join-names", "--names-as-written"):
        assert text in str(error.value)
    assert len(set(shown)) == 2
    joined = pack("r", *words, "--as", "images", "--join-names")
    assert len(classes(joined)) == 2
    assert np.bincount(*all_rows(joined, "y")).tolist() == [6, 6]
    assert len(classes(pack("r", *words, "--as", "images", "--names-as-written"))) == 3


@pytest.mark.parametrize("groups", [("p7", "P7"), ("p7", "p7 "), ("7", "07"), CAFES, LOOK_ALIKE])
def test_a_patient_lies_in_one_split_whatever_the_spelling(tmp_path, pack, groups):
    for i in range(40):
        group = groups[i % 2] if i < 8 else f"q{i}"
        image(tmp_path / f"raw/r/{group}-{i}.png", i)
    words = (
        "r",
        tmp_path / "raw/r",
        "--as",
        "images",
        "--group",
        "(.*)-",
        "--split",
        "train=.5,val=.5",
    )
    with pytest.raises(
        DataFileError, match=r"groups that differ in their spelling only.*--join-names"
    ):
        pack(*words)
    layout = pack(*words, "--join-names")
    x, group = all_rows(layout, "x", "group")
    assert len(set(group[x[:, 0, 0, 0] < 8])) == 1
    for rows in layout.splits.values():
        in_split = x[layout.map(rows)][:, 0, 0, 0] < 8
        assert in_split.sum() in (0, 8)
    assert len(set(all_rows(pack(*words, "--names-as-written"), "group")[0])) == 34


def test_keys_tell_all_sources_apart(tmp_path, pack):
    """R63: 20 keys twice; one line of a split file placed two rows."""
    for i, name in enumerate(("one", "two")):
        for k in range(3):
            image(tmp_path / f"raw/{name}/raw/a/{k}.png", 10 * i + k)
    sources = [tmp_path / f"raw/{name}/raw" for name in ("one", "two")]
    layout = pack("r", *sources, "--as", "images", "--names")
    lines = (tmp_path / "data/r.names.csv").read_text().splitlines()[1:]
    keys = {line.split(",")[2] for line in lines}
    assert keys == {f"{name}/raw/a/{k}.png" for name in ("one", "two") for k in range(3)}
    os.remove(tmp_path / "data/r.names.csv")
    file = tmp_path / "split.csv"
    file.write_text(
        "sample,split\n" + "".join(f"{key},{'test' if 'two' in key else 'train'}\n" for key in keys)
    )
    layout = pack("r", *sources, "--as", "images", "--split-file", file)
    (x,) = all_rows(layout, "x")
    assert sorted(x[layout.map(layout.splits["test"])][:, 0, 0, 0]) == [10, 11, 12]
    with pytest.raises(DataFileError, match="is named twice"):
        pack("r", sources[0], sources[0], "--as", "images")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a/99.png,train", r"1 line for no sample, such as 'a/99\.png'"),
        ("a/0.png,val", "a sample not listed above"),
        (" a/1.png,val", r"no line for 'a/1\.png'|1 line for no sample"),
        ("a/1.png,Train", "Call it train"),
        ("a/1.png,training", "Call it train"),
    ],
)
def test_a_split_file_names_each_sample_once_and_nothing_else(tmp_path, pack, line, message):
    for k in range(2):
        image(tmp_path / f"raw/r/a/{k}.png", k)
    lines = ["a/0.png,train", *([] if "1.png" in line else ["a/1.png,val"]), line]
    (tmp_path / "split.csv").write_text("\n".join(lines))
    with pytest.raises(DataFileError, match=message):
        pack("r", tmp_path / "raw/r", "--as", "images", "--split-file", tmp_path / "split.csv")
