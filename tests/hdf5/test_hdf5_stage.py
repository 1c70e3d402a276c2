"""A staged copy is made once, checked, shared, and removed by its last user."""

import gc
import os
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from hdf5_programs import start
from labrig.data import (
    DataFileError,
    H5DataModule,
    fingerprint,
    read_layout,
    verify_file,
    write_data_file,
)
from labrig.hdf5.file import checksum
from labrig.hdf5.read import stage as page_cache
from labrig.hdf5.read import stage as stages
from labrig.machine import disk


class Owner:
    """Whoever uses a copy."""


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    x = np.random.default_rng(0).integers(0, 255, (50, 1000)).astype(np.uint8)
    splits = {"train": range(30), "val": range(30, 40), "test": range(40, 50)}
    return write_data_file(tmp_path / "source" / "däta 1.h5", {"x": x, "y": np.arange(50)}, splits)


@pytest.fixture
def node(tmp_path):
    """A directory that stands for the node's disk."""
    (tmp_path / "node").mkdir()
    return tmp_path / "node"


def left(node):
    return sorted(os.listdir(node / f"lab-data-{os.getuid()}"))


@pytest.mark.release
@pytest.mark.slow
def test_a_copy_is_shared_and_removed_by_its_last_user(path, node):
    first, second = Owner(), Owner()
    copies = [stages.stage(path, str(node), owner) for owner in (first, second)]
    assert copies[0] == copies[1] != path
    assert verify_file(copies[0]).n_samples == 50
    del first
    gc.collect()
    assert copies[0].exists()
    del second
    gc.collect()
    assert left(node) == []


@pytest.mark.slow
def test_a_data_module_reads_the_copy(path, node):
    data = H5DataModule(str(path), stage=str(node))
    assert data.layout.path.is_relative_to(node)
    assert sum(len(y) for _, y in data.loader("train")) == 30
    del data
    gc.collect()
    assert left(node) == []


@pytest.mark.slow
def test_of_many_processes_one_copies(path, node):
    users = [start("use_copy", path, node) for _ in range(4)]
    lines = []
    for process in users:
        while not (line := process.stdout.readline()).startswith("has 50"):
            assert line == "copies\n"
            lines.append(line)
    assert len(lines) == 1
    assert len([name for name in left(node) if name.endswith(".h5")]) == 1
    for process in users:
        process.communicate(timeout=60)
    assert left(node) == []


@pytest.mark.slow
def test_what_a_dead_job_left_is_cleared_at_the_next_start(path, node):
    process = start("use_copy", path, node)
    while process.stdout.readline() != "has 50\n":
        pass
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert len(left(node)) == 1
    os.utime(path, (1, 1))  # another version of the file: the old copy is of no use to anyone
    owner = Owner()
    copy = stages.stage(path, str(node), owner)
    assert left(node) == [copy.name]


@pytest.mark.release
@pytest.mark.slow
def test_a_kept_copy_outlives_its_user_until_it_is_removed(path, node):
    copy = stages.stage(path, str(node), Owner(), keep=True)
    gc.collect()
    assert copy.exists()
    assert stages.stage(path, str(node), Owner()) == copy
    gc.collect()
    assert copy.exists()
    stages.unstage(stages.stage_directory(str(node)), path)
    assert left(node) == []


@pytest.mark.parametrize("why", ["disk", "memory", "while copying", "read-only"])
def test_a_file_that_does_not_fit_is_read_where_it_is_with_one_line(
    path, node, why, monkeypatch, capsys
):
    if why == "disk":
        usage = shutil.disk_usage(node)._replace(free=10_000)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    elif why == "memory":
        monkeypatch.setattr(disk, "filesystem_type", lambda _: "tmpfs")
        monkeypatch.setattr(disk, "memory_limit_bytes", lambda: 120_000)
        monkeypatch.setattr(disk, "memory_used_bytes", lambda: 100_000)
    else:

        def copyfile(source, target):
            Path(target).write_bytes(b"begun")
            raise OSError(28 if why == "while copying" else 30, "No space left on device")

        monkeypatch.setattr(shutil, "copyfile", copyfile)
    assert stages.stage(path, str(node), Owner()) == path
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert str(path) in message
    assert "not staged" in message
    assert left(node) == []


def test_a_copy_that_differs_is_refused(path, node, monkeypatch):
    def copyfile(source, target):
        content = bytearray(Path(source).read_bytes())
        content[read_layout(source).arrays["x"].offset + 17] ^= 1
        Path(target).write_bytes(content)

    monkeypatch.setattr(shutil, "copyfile", copyfile)
    with pytest.raises(DataFileError, match=r"the copy is damaged.*data/x is damaged"):
        stages.stage(path, str(node), Owner())
    assert not [name for name in left(node) if name.endswith((".h5", ".tmp"))]


def test_a_place_that_is_not_there(path, monkeypatch):
    for name in disk.NODE_LOCAL:
        monkeypatch.delenv(name, raising=False)
    for where in ("tmpdir", "/nowhere"):
        with pytest.raises(DataFileError, match=r"data\.stage"):
            stages.stage(path, where, Owner())


def test_the_page_cache_gets_the_file_only_when_it_fits(path, monkeypatch):
    buffers = []

    def not_cached(*_):
        raise BlockingIOError

    def allocate(n_bytes):
        buffers.append(n_bytes)
        return bytearray(n_bytes)

    monkeypatch.setattr(os, "preadv", not_cached)
    monkeypatch.setattr(page_cache, "BLOCK_BYTES", 4096)
    monkeypatch.setattr(page_cache, "bytearray", allocate, raising=False)
    page_cache.read_into_cache(path)
    assert len(buffers) > 1
    buffers.clear()
    monkeypatch.setattr(page_cache, "memory_limit_bytes", lambda: path.stat().st_size)
    page_cache.read_into_cache(path)
    assert buffers == []


def test_the_fingerprint_is_of_the_content_and_computed_once(path, tmp_path, monkeypatch):
    verified = []
    verify = checksum._verify_part
    monkeypatch.setattr(
        checksum, "_verify_part", lambda layout: verified.append(layout) or verify(layout)
    )
    first = fingerprint(path)
    assert fingerprint(path) == first
    assert len(verified) == 1
    copy = Path(shutil.copy(path, tmp_path / "copy.h5"))
    assert fingerprint(copy)["sha256"] == first["sha256"]
    layout = read_layout(path)
    write_data_file(
        path, {"x": layout.map(layout.arrays["x"]) + 1, "y": np.arange(50)}, {"train": range(50)}
    )
    assert fingerprint(path)["sha256"] != first["sha256"]
    os.truncate(copy, 3000)
    with pytest.raises(DataFileError, match="cut short"):
        fingerprint(copy)


def test_the_fingerprint_notices_a_byte_changed_in_place(path):
    fingerprint(path)
    time.sleep(0.01)
    with path.open("r+b") as file:
        file.seek(read_layout(path).arrays["x"].offset)
        file.write(b"\x00\x01\x02")
    with pytest.raises(DataFileError, match="data/x is damaged"):
        fingerprint(path)


def test_a_home_that_cannot_be_written_costs_only_time(path, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert fingerprint(path) == fingerprint(path)


MOUNTS = """\
/dev/sda / ext4 rw 0 0
10.0.0.1@o2ib:/fs /lustre lustre rw 0 0
tmpfs /dev/shm tmpfs rw 0 0
server:/home /my\\040home nfs4 rw 0 0
"""


def test_the_type_of_a_file_system_is_that_of_the_longest_mount(tmp_path):
    (tmp_path / "mounts").write_text(MOUNTS)
    kinds = {
        "/lustre/a/b": "lustre",
        "/lustrous": "ext4",
        "/dev/shm": "tmpfs",
        "/my home/x": "nfs4",
        "/": "ext4",
    }
    assert {place: disk.filesystem_type(place, tmp_path / "mounts") for place in kinds} == kinds


@pytest.fixture
def lustre(tmp_path, monkeypatch):
    """A recorded `lfs` on the path, and a disk that says it is Lustre; the calls it got."""
    (tmp_path / "bin").mkdir()
    calls, lfs = tmp_path / "calls", tmp_path / "bin" / "lfs"
    lfs.write_text(
        "#!/bin/sh\nfor last; do :; done\n"
        f'echo "$(test -e "$last" && wc -c < "$last" || echo new) $*" >> "{calls}"\n'
        'test "$1" = setstripe && : > "$last"\ntest "$1" = getstripe && printf "4\\n4194304\\n"\nexit 0\n'
    )
    lfs.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(disk, "filesystem_type", lambda *_: "lustre")
    return calls


def test_a_file_on_lustre_is_striped_before_its_first_byte(lustre, tmp_path):
    path = write_data_file(tmp_path / "a.h5", {"x": np.arange(9)}, {})
    (call,) = lustre.read_text().splitlines()
    assert call.startswith("new setstripe -c 4 -S 4M ")
    assert " -i" not in call
    assert verify_file(path).n_samples == 9
    assert disk.lustre_stripes(path) == "4 4194304"


def test_elsewhere_nothing_is_striped(lustre, tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "filesystem_type", lambda *_: "ext4")
    path = write_data_file(tmp_path / "a.h5", {"x": np.arange(9)}, {})
    assert disk.lustre_stripes(path) is None
    assert not lustre.exists()
