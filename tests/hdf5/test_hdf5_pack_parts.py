"""`--jobs N` packs in N processes: the same file whatever N is, and a killed part is packed again alone."""

import json
import multiprocessing
import os
import signal
import time

import numpy as np
import pytest
import soundfile
from hdf5_packing import packing  # noqa: F401
from hdf5_pairs import pairs
from labrig.data import DataFileError, read_layout
from labrig.errors import Failed, LabError
from labrig.hdf5.file.checksum import fingerprint
from labrig.hdf5.pack import parts
from labrig.hdf5.pack.command import pack_command
from labrig.hdf5.pack.options import parse_options
from labrig.hdf5.pack.parts import folder_of_parts, make_part_here
from PIL import Image
from projects import project_in
from test_hdf5_pack import images

OTHER_EACH_TIME = ("created",)


def audio(root):
    rng = np.random.default_rng(0)
    for name in ("crow", "owl"):
        (root / name).mkdir(parents=True)
        for i in range(9):
            wav = rng.integers(-999, 999, 200 + 17 * i).astype(np.int16)
            soundfile.write(root / name / f"{i}.wav", wav, 8000)
    return root


def content(layout):
    """All bytes and attributes of a file that say something, and where its arrays lie."""
    arrays = {
        name: (array.offset, array.sha256, array.attrs)
        for name, array in layout.arrays_by_path.items()
    }
    attrs = {key: value for key, value in layout.attrs.items() if key not in OTHER_EACH_TIME}
    return arrays, attrs


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["images", "encoded", "audio"])
def test_the_file_is_the_same_whatever_the_number(tmp_path, pack, kind):
    make = audio if kind == "audio" else images
    root = make(tmp_path / "raw" / "a")
    suffix = ".wav" if kind == "audio" else ".png"
    damaged = sorted(root.rglob(f"*{suffix}"))[4]
    damaged.write_bytes(damaged.read_bytes()[:60])
    words = (root, "--as", kind, "--skip-damaged", "--group", r"(\d)\.")
    alone = pack("a", *words)
    sha256 = fingerprint(alone)["sha256"]
    expected = content(alone)
    for n in (1, 2, 5):
        (tmp_path / "data/a.h5").unlink()
        made = pack("a", *words, "--jobs", n)  # which leaves nothing else in the folder
        assert content(made) == expected
        assert fingerprint(made)["sha256"] == sha256
    assert "--jobs" not in made.attrs["command"]


@pytest.mark.slow
def test_pairs_are_the_same_whatever_the_number(tmp_path, pack, capsys):
    """Also the values of the masks, of which no part has all; the groups; and what was left out."""
    root = tmp_path / "raw" / "cells"
    pairs(root, values=(0, 7), n=10)
    for name in ("p1_1", "p4_0"):
        Image.fromarray(np.full((24, 30), ord(name[1]), np.uint8)).save(
            root / "masks" / f"{name}.png"
        )
    (root / "images" / "p2_0.png").write_bytes(b"none")
    (root / "masks" / "p3_1.png").unlink()
    lines = [
        f"images/{path.name},masks/{path.name},ward,{path.stem[:2]}"
        for path in sorted(root.glob("images/*"))
    ]
    (root / "t.csv").write_text("\n".join(["image,mask,place,patient", *lines]) + "\n")
    for source, group in ((root, r"(p\d)_"), (root / "t.csv", "patient")):
        words = (source, "--as", "pairs", "--skip-damaged", "--group", group)
        expected = content(pack("a", *words))
        assert json.loads(expected[0]["data/y"][2]["values"]) == [0, 7, ord("1"), ord("4")]
        assert expected[1]["skipped"].count(".png") == 2
        for n in (1, 2, 5):
            (tmp_path / "data/a.h5").unlink()
            capsys.readouterr()
            assert content(pack("a", *words, "--jobs", n)) == expected
            assert capsys.readouterr().out.count("columns that are not read") == (source != root)
        (tmp_path / "data/a.h5").unlink()


@pytest.mark.slow
def test_masks_that_number_their_objects_in_one_part_have_no_classes(tmp_path, pack):
    root = tmp_path / "raw" / "cells"
    pairs(root, values=(0, 1), n=4)
    numbers = np.arange(720, dtype=np.uint8).reshape(24, 30)  # 256 different ones
    Image.fromarray(numbers).save(root / "masks" / "p0_0.png")
    assert (
        len(json.loads(pack("a", root, "--as", "pairs", "--jobs", 2).arrays["y"].attrs["values"]))
        == 256
    )
    for i in range(4):
        Image.fromarray(numbers.astype(np.uint16) + 256 * i).save(
            root / "masks" / f"p{i // 2}_{i % 2}.png"
        )
    assert "values" not in pack("a", root, "--as", "pairs", "--jobs", 2).arrays["y"].attrs


@pytest.mark.slow
def test_a_killed_part_of_pairs_is_packed_again_alone(tmp_path, target, pack, monkeypatch):
    root = tmp_path / "raw" / "cells"
    pairs(root)
    words = ["a", str(root), "--as", "pairs", "--jobs", "3"]
    target.parent.mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(parts, "make_part_here", kill_one)
        with pytest.raises(Failed, match=r"part 2 of 3 was killed. The other parts stay"):
            pack_command(project_in(tmp_path), words)
    times = {path: path.stat().st_mtime_ns for path in folder_of_parts(target).iterdir()}
    assert len(times) == 8
    monkeypatch.setattr("labrig.hdf5.pack.command.remove_parts", lambda _: None)
    pack_command(project_in(tmp_path), words)
    assert {path: path.stat().st_mtime_ns for path in times} == times
    assert read_layout(target).n_samples == 8


def test_a_mask_that_changed_is_packed_again(tmp_path, target, pack):
    root = tmp_path / "raw" / "cells"
    pairs(root)
    words = ["a", str(root), "--as", "pairs", "--part", "1/2"]
    pack_command(project_in(tmp_path), words)
    report = folder_of_parts(target) / "1-of-2.json"
    first = json.loads(report.read_text())["identity"]
    pack_command(project_in(tmp_path), words)
    assert json.loads(report.read_text())["identity"] == first
    os.utime(root / "masks/p0_0.png", ns=(0, 1))
    pack_command(project_in(tmp_path), words)
    assert json.loads(report.read_text())["identity"] != first


def test_masks_called_row_are_refused_in_parts(tmp_path, target, pack):
    root = tmp_path / "raw" / "cells"
    pairs(root)
    (root / "masks").rename(root / "row")
    pairs(root)
    with pytest.raises(DataFileError, match=r"cells has 'row', which parts need .* without --jobs"):
        pack_command(project_in(tmp_path), ["a", str(root), "--as", "pairs", "--jobs", "2"])
    assert not target.exists()
    assert "row" in pack("a", root, "--as", "pairs").fields


@pytest.mark.slow
def test_more_processes_than_files_are_no_mistake(tmp_path, pack):
    root = images(tmp_path / "raw" / "a", classes=("cat",), each=2)
    assert pack("a", root, "--as", "images", "--jobs", 4).n_samples == 2


@pytest.fixture
def source(tmp_path, pack):
    return images(tmp_path / "raw" / "a")


@pytest.fixture
def target(tmp_path):
    return tmp_path / "data" / "a.h5"


def command(tmp_path, source, *words):
    pack_command(project_in(tmp_path), ["a", str(source), "--as", "images", *map(str, words)])


def parts_of(target):
    return sorted(path.name for path in folder_of_parts(target).iterdir())


@pytest.mark.slow
def test_parts_of_jobs_are_joined(tmp_path, source, target, pack, capsys):
    for number in (2, 1, 3):
        command(tmp_path, source, "--part", f"{number}/3")
    said = capsys.readouterr().out
    assert f"{folder_of_parts(target)}/2-of-3.json: 4 samples" in said
    assert "the same with --jobs 3 in place of --part" in said
    assert len(parts_of(target)) == 12
    times = {path: path.stat().st_mtime_ns for path in folder_of_parts(target).glob("*-of-3.*")}
    joined = {}
    remove = parts.remove_parts

    def look(target):
        joined.update({path: path.stat().st_mtime_ns for path in times})
        remove(target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("labrig.hdf5.pack.command.remove_parts", look)
        made = content(pack("a", source, "--as", "images", "--jobs", 3))
    assert joined == times  # none was packed again
    target.unlink()
    assert content(pack("a", source, "--as", "images")) == made


def kill_one(*arguments):
    """In the process of a part: the second one is killed the first time."""
    options, target, _ = arguments
    flag = target.with_name("killed")
    if options.part.number == 2 and not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    make_part_here(*arguments)


@pytest.mark.slow
def test_a_killed_part_is_packed_again_alone(tmp_path, source, target, pack, monkeypatch):
    monkeypatch.setattr(parts, "make_part_here", kill_one)
    target.parent.mkdir()
    with pytest.raises(Failed, match=r"part 2 of 3 was killed. The other parts stay"):
        command(tmp_path, source, "--jobs", 3)
    assert parts_of(target) == [
        f"{k}-of-3.{name}" for k in (1, 3) for name in ("json", "row", "x", "y")
    ]
    times = {path: path.stat().st_mtime_ns for path in folder_of_parts(target).iterdir()}
    monkeypatch.setattr("labrig.hdf5.pack.command.remove_parts", lambda _: None)
    command(tmp_path, source, "--jobs", 3)
    assert {path: path.stat().st_mtime_ns for path in times} == times
    assert read_layout(target).n_samples == 12


def test_a_part_of_other_sources_or_options_is_packed_again(tmp_path, source, target, pack):
    command(tmp_path, source, "--part", "1/2")
    report = folder_of_parts(target) / "1-of-2.json"
    first = json.loads(report.read_text())["identity"]
    command(tmp_path, source, "--part", "1/2", "--size", 4, 4)
    assert json.loads(report.read_text())["identity"] != first
    assert report.with_suffix(".x").stat().st_size == 6 * 3 * 4 * 4
    touched = sorted(source.rglob("*.png"))[0]
    os.utime(touched, ns=(0, time.time_ns()))
    second = json.loads(report.read_text())["identity"]
    command(tmp_path, source, "--part", "1/2", "--size", 4, 4)
    assert json.loads(report.read_text())["identity"] != second


def test_a_source_that_changes_meanwhile_is_noticed(tmp_path, source, target, pack, monkeypatch):
    for number in (1, 2):
        command(tmp_path, source, "--part", f"{number}/2")
    monkeypatch.setattr("labrig.hdf5.pack.command.make_parts", lambda *_: None)
    os.utime(source / "cat/image 0.png", ns=(1, 1))
    with pytest.raises(DataFileError, match=r"changed while it was packed. Type the same again"):
        command(tmp_path, source, "--jobs", 2)
    assert not target.exists()


@pytest.mark.slow
def test_damage_is_told_as_without_parts_and_the_other_parts_stay(tmp_path, source, target, pack):
    damaged = sorted(source.rglob("*.png"))[1]
    damaged.write_bytes(b"")
    with pytest.raises(DataFileError, match=r"cat/image 1.png cannot be read.*--skip-damaged"):
        command(tmp_path, source, "--jobs", 2)
    assert parts_of(target) == [f"1-of-2.{name}" for name in ("json", "row", "x", "y")]
    command(tmp_path, source, "--jobs", 2, "--skip-damaged")
    assert json.loads(read_layout(target).attrs["skipped"]) == ["cat/image 1.png"]
    assert not folder_of_parts(target).exists()


@pytest.mark.slow
def test_a_part_that_was_cut_is_packed_again(tmp_path, source, target, pack, monkeypatch):
    for number in (1, 2):
        command(tmp_path, source, "--part", f"{number}/2")
    os.truncate(folder_of_parts(target) / "2-of-2.x", 100)
    with pytest.raises(DataFileError, match=r"2-of-2.x is not as it was written. Type the same"):
        command(tmp_path, source, "--jobs", 2)
    command(tmp_path, source, "--part", "2/2")
    command(tmp_path, source, "--jobs", 2)
    assert read_layout(target).n_samples == 12


def test_images_of_several_sizes_are_refused(tmp_path, target, pack):
    root = images(tmp_path / "raw" / "b", sizes=((9, 7), (8, 12)))
    for number in (1, 2):
        command(tmp_path, root, "--part", f"{number}/2")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("labrig.hdf5.pack.command.make_parts", lambda *_: None)
        with pytest.raises(DataFileError, match=r"field 'x' is uint8 \[3, 9, 7\] in some .*--size"):
            command(tmp_path, root, "--jobs", 2)


def test_nothing_but_damage_is_no_file(tmp_path, target, pack):
    root = images(tmp_path / "raw" / "b", classes=("cat",), each=2)
    for path in root.rglob("*.png"):
        path.write_bytes(b"")
    for number in (1, 2):
        command(tmp_path, root, "--part", f"{number}/2", "--skip-damaged")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("labrig.hdf5.pack.command.make_parts", lambda *_: None)
        with pytest.raises(DataFileError, match="no samples to write, all were left out"):
            command(tmp_path, root, "--jobs", 2, "--skip-damaged")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["t.npy", "--as", "arrays", "--jobs", "2"],
            "--jobs goes with --as images or --as encoded",
        ),
        (
            ["t.npy", "--as", "table", "--jobs", "2"],
            "a table is packed by one process: what number",
        ),
        (["t.npy", "--as", "table", "--part", "1/2"], "Leave out --jobs and --part"),
        (["t.npy", "--as", "images", "--jobs", "0"], "--jobs N needs a number above 0"),
        (["t.npy", "--as", "images", "--jobs", "2", "--part", "1/2"], "and no --part"),
    ],
)
def test_what_is_typed_wrong_is_told(tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    np.save("t.npy", np.zeros(3))
    with pytest.raises(LabError, match=message):
        parse_options(["a", *words])


@pytest.mark.parametrize("word", ["3", "0/4", "5/4", "a/b"])
def test_a_part_that_is_none_is_refused(tmp_path, capsys, word):
    with pytest.raises(SystemExit):
        parse_options(["a", str(tmp_path), "--as", "images", "--part", word])
    assert f"found '{word}', expected" in capsys.readouterr().err


def test_no_process_stays(tmp_path, source, target, pack):
    command(tmp_path, source, "--jobs", 2)
    assert multiprocessing.active_children() == []
