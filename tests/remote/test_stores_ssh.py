# ruff: noqa: F811 (fixtures are imported by name)
"""Data files that a group shares on a host, over a real sshd whose connection is cut."""

import os
import shutil
import tempfile

import pytest
from labrig.errors import Failed
from labrig.remote.connection import LostConnection
from labrig.remote.stores import command
from shared_data import (
    files_at,
    killed,
    make_several,
    project_with_data,
    pull,
    pull_after_a_cut,
    push,
    without_data,
)
from ssh_hosts import hosts  # noqa: F401

pytestmark = pytest.mark.slow
SCRIPT = "sha256sum"  # a part of the script that stores a file


@pytest.fixture
def mine(tmp_path, monkeypatch, hosts):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{hosts.folder}/bin:{os.environ['PATH']}")
    return project_with_data(tmp_path / "mine")


@pytest.fixture
def place(hosts, tmp_path):
    """A folder of the account `a`, as it is typed, and where it is."""
    folder = hosts.accounts["a"].home / "it's shared" / tmp_path.name
    return f"ssh://a/~/{folder.relative_to(hosts.accounts['a'].home)}", folder


def test_a_colleague_gets_the_very_bytes(mine, place, tmp_path, capsys):
    project, sha256 = mine
    at, folder = place
    push(project, at)
    assert os.listdir(folder) == [f"{sha256}-digits.h5"]
    push(project)
    assert f"{at} has it already" in capsys.readouterr().out
    theirs = without_data(project, tmp_path / "theirs")
    pull(theirs)
    there, here = (each.root / "data/digits.h5" for each in (project, theirs))
    assert there.read_bytes() == here.read_bytes()
    command.list_command(project, [at])
    assert sha256[:12] in capsys.readouterr().out
    absolute = without_data(project, tmp_path / "third")
    pull(absolute, f"ssh://a{folder}")
    assert (absolute.root / "data/digits.h5").read_bytes() == there.read_bytes()


@pytest.mark.release
@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_a_push_whose_connection_is_lost_goes_on(mine, place, hosts, when):
    project, sha256 = mine
    at, folder = place
    hosts.accounts["a"].cut(when, SCRIPT)
    with pytest.raises(LostConnection, match=r"Type the same again"):
        push(project, at)
    assert files_at(project, at) == ([f"{sha256}-digits.h5"] if when == "after" else [])
    push(project, at)
    there = folder / f"{sha256}-digits.h5"
    assert there.read_bytes() == (project.root / "data/digits.h5").read_bytes()
    assert os.listdir(folder) == [there.name]


@pytest.mark.release
@pytest.mark.parametrize("step", [0, 6, 11])
def test_a_push_that_is_killed_goes_on(mine, place, step):
    project, sha256 = mine
    at, folder = place
    short = tempfile.mkdtemp()  # a socket of ssh has at most 107 characters
    killed(project, step, "push", "digits", at, **os.environ, TMPDIR=short)
    shutil.rmtree(short)
    there = folder / f"{sha256}-digits.h5"
    if step < 11:  # else all bytes were on their way, and the host completes the file
        assert files_at(project, at) == []
    push(project, at)
    assert there.read_bytes() == (project.root / "data/digits.h5").read_bytes()
    assert os.listdir(folder) == [there.name]


def test_a_push_and_a_pull_go_on_where_they_were(mine, place, tmp_path, monkeypatch):
    project, sha256 = mine
    at, folder = place
    folder.mkdir(parents=True)
    content = (project.root / "data/digits.h5").read_bytes()
    (folder / f".{sha256}-digits.h5.part").write_bytes(content[:700_000])
    told = []

    class Bar:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def update(self, n_bytes):
            told.append(n_bytes)

    monkeypatch.setattr(command, "byte_progress", lambda *_: Bar())
    push(project, at)
    assert told == [700_000, len(content) - 700_000]
    theirs = without_data(project, tmp_path / "theirs")
    part = theirs.root / "data" / f".digits.h5.{sha256[:12]}.part"
    part.parent.mkdir()
    part.write_bytes(content[:300_000])
    told.clear()
    pull(theirs)
    assert told[0] == 300_000
    assert sum(told) == len(content)
    assert (theirs.root / "data/digits.h5").read_bytes() == content


@pytest.mark.release
def test_bytes_that_an_earlier_push_left_damaged_are_not_stored(mine, place):
    project, sha256 = mine
    at, folder = place
    folder.mkdir(parents=True)
    (folder / f".{sha256}-digits.h5.part").write_bytes(bytes(1000))
    with pytest.raises(
        Failed, match=r"the file did not arrive as it was sent. Type the same again"
    ):
        push(project, at)
    assert files_at(project, at) == []
    push(project, at)
    assert files_at(project, at) == [f"{sha256}-digits.h5"]


def test_a_link_in_place_of_a_part_is_not_followed(mine, place, tmp_path):
    project, sha256 = mine
    at, folder = place
    folder.mkdir(parents=True)
    (tmp_path / "precious").write_text("mine")
    (folder / f".{sha256}-digits.h5.part").symlink_to(tmp_path / "precious")
    with pytest.raises(Failed, match=r"is a link; remove it"):
        push(project, at)
    assert (tmp_path / "precious").read_text() == "mine"


def test_a_host_that_does_not_answer(mine):
    with pytest.raises(Failed, match=r"no connection to nobody.invalid"):
        push(mine[0], "ssh://nobody.invalid/data")


@pytest.mark.release
def test_several_files(mine, place, tmp_path):
    project, _ = mine
    hashes = make_several(project)
    push(project, place[0])
    assert sorted(files_at(project, place[0])) == sorted(f"{each}-digits.h5" for each in hashes)
    copied, original = pull_after_a_cut(project, tmp_path / "theirs", hashes)
    assert copied == original
