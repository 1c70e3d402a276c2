"""Packing into a directory of the test, as `lab data pack` does; for test_hdf5_pack*.py."""

import os
import signal

import pytest
from labrig.data import verify_file
from labrig.hdf5.file.layout import Layout
from labrig.hdf5.pack.command import pack_command
from labrig.project import Paths, Project
from projects import project_in


@pytest.fixture(name="pack")
def packing(tmp_path, monkeypatch):
    """pack(name, *words): the layout of the verified file, which lies in tmp_path / "data"."""
    monkeypatch.setattr(
        Project, "paths", Paths(tmp_path / "runs", None, None, None, [tmp_path / "data"])
    )
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "raw").mkdir()

    def pack(name, *words) -> Layout:
        pack_command(project_in(tmp_path), [name, *map(str, words)])
        files = {f"{name}.h5"} | ({f"{name}.names.csv"} if "--names" in words else set())
        assert set(os.listdir(tmp_path / "data")) == files  # and nothing temporary
        return verify_file(tmp_path / "data" / f"{name}.h5")

    return pack


def all_rows(layout, *fields):
    return [layout.map(layout.arrays[name]) for name in fields]
