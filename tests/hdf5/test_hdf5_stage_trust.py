"""A staged copy is used only when it is the user's own, and holds what the data file holds."""

import gc
import os
import shutil

import numpy as np
import pytest
from labrig.data import DataFileError, H5DataModule, read_layout, write_data_file
from labrig.hdf5.file import checksum
from labrig.hdf5.read import stage as stages

SPLITS = {"train": range(30), "val": range(30, 50)}


class Owner:
    """Whoever uses a copy."""


@pytest.fixture
def node(tmp_path, monkeypatch):
    """A directory that stands for the node's disk."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "node").mkdir()
    return tmp_path / "node"


@pytest.fixture
def path(node, tmp_path):
    return data_file(tmp_path / "mine" / "a.h5", 0)


def data_file(path, seed):
    x = np.random.default_rng(seed).integers(0, 255, (50, 1000)).astype(np.uint8)
    return write_data_file(path, {"x": x, "y": np.arange(50)}, SPLITS, source="rng")


def content(path):
    layout = read_layout(path)
    return layout.map(layout.field("x")).tobytes()


def damage(copy):
    os.chmod(copy, 0o600)
    with open(copy, "r+b") as file:
        file.seek(read_layout(copy).field("x").offset + 17)
        file.write(b"\x01\x02\x03\x04\x05\x06\x07\x08")


def test_another_projects_file_of_the_same_name_size_and_time_is_not_taken(path, node, tmp_path):
    other = data_file(tmp_path / "theirs" / "a.h5", 1)
    stat = os.stat(path)
    os.utime(other, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert other.stat().st_size == stat.st_size
    owner = Owner()
    stages.stage(other, str(node), owner)
    data = H5DataModule(str(path), stage=str(node))
    assert content(data.layout.path) == content(path) != content(other)
    assert data.fingerprint()["sha256"] == checksum.fingerprint(path)["sha256"]
    assert data.fingerprint()["path"] == str(path)


def test_equal_files_share_one_copy_whatever_their_times(path, node, tmp_path):
    copied = tmp_path / "theirs" / "a.h5"
    copied.parent.mkdir()
    shutil.copyfile(path, copied)
    owner = Owner()
    assert stages.stage(path, str(node), owner) == stages.stage(copied, str(node), owner)


@pytest.mark.slow
def test_a_copy_damaged_later_is_made_again(path, node, capfd):
    kept = stages.stage(path, str(node), Owner(), keep=True)
    gc.collect()
    damage(kept)
    kept.chmod(stages.KEPT)
    assert stages.stage(path, str(node), Owner()) == kept
    assert "data/x is damaged" in capfd.readouterr().err
    assert content(kept) == content(path)
    gc.collect()
    assert kept.exists()


def test_a_copy_damaged_while_a_training_reads_it_ends_the_training(path, node):
    data = H5DataModule(str(path), stage=str(node))
    batches = iter(data.loader("train"))
    next(batches)
    damage(data.layout.path)
    with pytest.raises(DataFileError, match="data/x is damaged"):
        list(data.loader("train"))


def test_an_unchanged_copy_is_read_whole_once(path, node, monkeypatch):
    verified = []
    verify = checksum._verify_part
    monkeypatch.setattr(
        checksum, "_verify_part", lambda layout: verified.append(layout) or verify(layout)
    )
    first, second = Owner(), Owner()
    stages.stage(path, str(node), first)
    stages.stage(path, str(node), second)
    assert len(verified) == 1


def plant_directory(directory, path):
    directory.mkdir(mode=0o700)
    plant_copy(directory, path)
    os.chown(directory, 65534, 65534)


def plant_link(directory, path):
    elsewhere = directory.with_name("elsewhere")
    elsewhere.mkdir()
    plant_copy(elsewhere, path)
    directory.symlink_to(elsewhere)


def plant_open_directory(directory, path):
    directory.mkdir()
    directory.chmod(0o777)
    plant_copy(directory, path)


def plant_copy(directory, path):
    """What an attacker would leave: another file under the name of the copy."""
    name = f"{stages._content_key(read_layout(path))}-{path.name}"
    data_file(directory / name, 1)


@pytest.mark.parametrize("plant", [plant_directory, plant_link, plant_open_directory])
def test_a_directory_that_somebody_else_made_is_not_used(path, node, plant, capfd):
    if plant is plant_directory and os.getuid() != 0:
        pytest.skip("only root can give a directory to another user")
    plant(stages.stage_directory(str(node)), path)
    assert stages.stage(path, str(node), Owner()) == path
    message = capfd.readouterr().err
    assert message.startswith("lab: not staged to")
    assert message.count("\n") == 1
    with pytest.raises(DataFileError, match="nothing was removed"):
        stages.unstage(stages.stage_directory(str(node)), path)


@pytest.mark.parametrize("how", ["other content", "link", "others may write"])
def test_a_planted_copy_is_not_used(path, node, tmp_path, how, capfd):
    directory = stages.stage_directory(str(node))
    directory.mkdir(mode=0o700)
    plant_copy(directory, path)
    (planted,) = directory.iterdir()
    planted.chmod(stages.KEPT if how == "other content" else 0o666)
    if how == "link":
        planted.unlink()
        planted.symlink_to(data_file(tmp_path / "theirs.h5", 1))
    elif how == "others may write":
        shutil.copyfile(path, planted)
    owner = Owner()
    used = stages.stage(path, str(node), owner)
    assert content(used) == content(path)
    assert not used.is_symlink()
    assert used == path or not used.stat().st_mode & 0o022
