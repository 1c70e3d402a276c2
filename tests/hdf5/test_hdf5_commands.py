"""The commands `lab data …` except pack, and all that docs/data.md shows."""

import itertools
import os
import re
import shlex
import signal
from importlib import import_module

import hdf5_programs
import numpy as np
import pytest
from labrig.data import read_layout, write_data_file
from labrig.errors import Failed, LabError
from labrig.hdf5 import COMMANDS
from labrig.hdf5.file import info
from labrig.hdf5.read import disks, stage
from labrig.project import Paths, Project
from projects import ROOT, project_in


@pytest.fixture(name="project")
def project_with_digits(tmp_path, monkeypatch):
    """A project whose data/digits.h5 holds 30 samples."""
    monkeypatch.setattr(
        Project,
        "paths",
        Paths(tmp_path / "runs", None, None, None, [tmp_path / "empty", tmp_path / "data"]),
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    wav = [np.zeros(n, np.int16) for n in range(30)]
    fields = {"x": np.zeros((30, 4, 5), np.float32), "wav": wav, "y": np.arange(30) % 3}
    write_data_file(
        tmp_path / "data" / "digits.h5",
        fields,
        {"train": range(20), "val": range(20, 30)},
        source="zeros",
    )
    return project_in(tmp_path)


def test_info(project, capsys):
    info.info_command(project, ["digits"])
    output = capsys.readouterr().out
    for part in (
        "30 samples",
        "float32  4x5",
        "int16    ragged",
        "train 20, val 10",
        "3 classes: 0 10",
        "source: zeros",
    ):
        assert part in output
    assert "memory yes" in output
    with pytest.raises(LabError, match="no data set 'digit'; did you mean: digits"):
        info.info_command(project, ["digit"])


def test_verify_names_what_is_damaged(project, tmp_path, capsys):
    path = tmp_path / "data" / "digits.h5"
    info.verify_command(project, [str(path)])
    assert "all 30 samples are as they were written" in capsys.readouterr().out
    with path.open("r+b") as file:
        file.seek(read_layout(path).arrays["x"].offset)
        file.write(b"\x01")
    with pytest.raises(Failed, match="data/x is damaged"):
        info.verify_command(project, ["digits"])


def test_stage_keeps_a_copy_until_it_is_removed(project, tmp_path, capsys):
    (tmp_path / "node").mkdir()
    place = tmp_path / "node" / f"lab-data-{os.getuid()}"
    stage.stage_command(project, ["digits", "--to", str(tmp_path / "node")])
    (copy,) = place.iterdir()
    assert f"{copy} is kept until: lab data stage digits --to" in capsys.readouterr().out
    assert read_layout(copy).n_samples == 30
    stage.stage_command(project, ["digits", "--to", str(tmp_path / "node"), "--remove"])
    assert not list(place.iterdir())


def test_bench_measures_each_disk_and_leaves_nothing(project, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(disks, "RANDOM_S", 0.01)
    monkeypatch.setenv("HOME", str(tmp_path / "data"))
    disks.disks_command(project, ["digits"])
    output = capsys.readouterr().out
    assert output.count("samples/s at random") >= 2
    assert "scratch     not here" in output
    assert os.listdir(tmp_path / "data") == ["digits.h5"]


def test_a_disk_is_as_fast_as_it_was_read(project, tmp_path, monkeypatch):
    clock_s = itertools.count(step=0.5)
    monkeypatch.setattr(disks.time, "perf_counter", lambda: next(clock_s))
    layout = read_layout(tmp_path / "data/digits.h5")
    n_bytes = max(field.n_bytes for field in layout.fields.values())
    speed = disks.measure(layout, tmp_path)
    assert speed.in_order_MBps == n_bytes / 1e6 / 0.5
    assert speed.random_samples_per_s == 2


@pytest.mark.slow
def test_packing_and_verifying_import_no_torch(tmp_path):
    assert "imported: []" in hdf5_programs.run("pack_and_verify_a_table", tmp_path)


def code_blocks(page, language):
    text = (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [block for its_language, block in blocks if its_language == language]


def test_the_documented_commands_run(project, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(disks, "RANDOM_S", 0.01)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    functions = {name: function for name, _, function in COMMANDS}
    (commands,) = code_blocks("data", "")
    lines = [*commands.splitlines(), "lab data stage digits --to shm --remove"]
    for line in lines:
        _, *words = shlex.split(line, comments=True)
        module, function = functions[" ".join(words[:2])].split(":")
        getattr(import_module(f"labrig.hdf5.{module}"), function)(project, words[2:])
    assert "1797 samples" in capsys.readouterr().out


def test_the_documented_code_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = [*code_blocks("data", "python"), *code_blocks("data-design", "python")]
    assert len(blocks) == 3
    names = {}
    for block in blocks:
        exec(block, names)
    assert len(names["batch"][0]) == 3
    (tmp_path / "raw").mkdir()
    for name in ("anna-1", "ben-0"):
        np.arange(4.0).tofile(tmp_path / "raw" / f"{name}.dat")
    samples = list(names["Spectra"].samples(tmp_path / "raw"))
    assert [(sample["group"], int(sample["y"])) for sample in samples] == [("anna", 1), ("ben", 0)]
    assert names["Photos"](tmp_path / "raw").fingerprint()["n"] == 2


def test_a_file_larger_than_the_memory_does_not_fit(monkeypatch, capsys):
    monkeypatch.setattr(info, "memory_limit_bytes", lambda: 10 << 30)
    monkeypatch.setattr(info, "memory_used_bytes", lambda: 0)
    info.print_places(9 << 30)
    info.print_places(7 << 30)
    too_large, fits = capsys.readouterr().out.splitlines()
    assert "memory no (10.7 GB)" in too_large
    assert "memory yes (10.7 GB)" in fits
