"""The packed file of an environment gets stripes on Lustre."""

import os
import subprocess
import sys

import pytest
from labrig.cluster.image.build import build_command
from labrig.machine import disk
from labrig.project import Project
from projects import work_on
from recorded_answers import lab  # noqa: F401
from small_environment import small_environment

# No Lustre is at hand: `lfs` is a stand-in that accepts one way to be called.

LFS = """#!/bin/sh
echo "$(ls -A "$6" | wc -l) $*" >>"{calls}"
[ $# = 6 ] && [ "$1 $2 $3 $4 $5" = "setstripe -c 4 -S 4M" ] && [ -d "$6" ]
"""


@pytest.fixture
def build(own_project, tmp_path, monkeypatch):
    """build(kind) packs a small environment onto a disk of this kind; the calls of lfs and the file."""
    tools = tmp_path / "bin"
    tools.mkdir()
    calls = tmp_path / "calls"
    calls.touch()
    (tools / "lfs").write_text(LFS.format(calls=calls))
    (tools / "lfs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(sys, "prefix", str(small_environment(tmp_path / "environment")))
    project = work_on(Project(own_project, "myproj"))

    def build(kind):
        monkeypatch.setattr(disk, "filesystem_type", lambda *_: kind)
        build_command(project, ["site.python=packed", f"paths.scratch={tmp_path}/scratch"])
        (file,) = (tmp_path / "scratch/images").iterdir()
        return calls.read_text().splitlines(), file

    return build


def test_the_packed_file_gets_stripes_on_lustre_before_its_first_byte(build):
    calls, file = build("lustre")
    assert calls == [f"0 setstripe -c 4 -S 4M {file.parent}"]
    listed = subprocess.run(["tar", "-tf", file], capture_output=True, text=True, check=True)
    assert "./bin/python" in listed.stdout.splitlines()


@pytest.mark.slow
def test_elsewhere_and_without_lfs_it_is_packed_as_before(build, capfd):
    calls, file = build("ext4")
    assert calls == []
    file.unlink()
    folder = os.environ["PATH"].partition(os.pathsep)[0]
    os.remove(f"{folder}/lfs")
    capfd.readouterr()
    calls, file = build("lustre")
    assert file.stat().st_size > 0
    said = "".join(capfd.readouterr())
    assert [line.split()[0] for line in said.splitlines()] == ["packing", f"{file}:"]
