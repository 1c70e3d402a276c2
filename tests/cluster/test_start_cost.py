# ruff: noqa: F811 (fixtures are imported by name)
"""A large job hears what its start costs, and how to pack the environment; the packed file gets stripes on Lustre."""

import os
import re
import shlex
import subprocess
import sys
from types import SimpleNamespace

import pytest
from labrig.cluster.image.build import build_command
from labrig.cluster.submit.check_program import inside_environment
from labrig.cluster.submit.start_cost import cost_of_start, n_installed_files
from labrig.machine import disk
from labrig.project import Project
from projects import work_on
from recorded_answers import lab  # noqa: F401
from small_environment import small_environment

COUNT_MODULES = """
import sys, torch, lightning
files = [str(getattr(module, "__file__", "")) for module in list(sys.modules.values())]
print(sum("site-packages" in file for file in files))
"""
LARGE = ["submit", "trial=baseline", "site=slurm", "job.nodes=8", "job.gpus=1"]
OFFER = r"^(?:lab: |# )?(\d+) processes on (\d+ nodes?) each open (.*) files of (.*)$"


def typed_lines(output):
    return re.findall(r"^#? +(lab .*)$", output, re.M)


@pytest.mark.slow
def test_a_large_job_hears_it_with_the_words_to_type(lab):
    output = lab(*LARGE, "seed=1,2", f"paths.scratch={lab.folder}/a b", "--dry-run")
    n, nodes, files, place = re.search(OFFER, output, re.M).groups()
    assert (n, nodes) == ("8", "8 nodes")
    assert files == f"what they import of the {n_installed_files():,}"
    assert place == f"{sys.prefix}."
    build, again = typed_lines(output)
    assert shlex.split(build)[1:3] == ["image", "build"]
    assert {"site=slurm", "site.python=packed"} <= set(shlex.split(build))
    words = [*LARGE, "seed=1,2", f"paths.scratch={lab.folder}/a b", "site.python=packed"]
    assert shlex.split(again) == ["lab", *words]
    # What it asks for is refused until the file is there, with the same command to make it.
    refused = lab(*words, "--dry-run", rc=2)
    assert set(shlex.split(refused.rpartition("Make it: ")[2])) == set(shlex.split(build))


class SiteOf(SimpleNamespace):
    def __getitem__(self, key):
        return getattr(self, key)


@pytest.mark.parametrize(
    ("n_tasks", "scheduler", "python", "is_told"),
    [
        (8, "slurm", "venv", True),
        (512, "pbs", "venv", True),
        (7, "slurm", "venv", False),
        (8, "slurm", "packed", False),
        (8, "slurm", "container", False),
        (8, "slurm", "module", False),
        (8, "local", "venv", False),
    ],
)
def test_whom_it_is_told(n_tasks, scheduler, python, is_told):
    plan = SimpleNamespace(
        request=SimpleNamespace(n_tasks=n_tasks, nodes=1),
        site=SiteOf(scheduler=scheduler, python=python),
        points=[SimpleNamespace(overrides=["trial=a", "site=b"])],
    )
    said = cost_of_start(plan, 3500)
    assert bool(said) == is_told
    if said:
        assert f"{n_tasks} processes on 1 node each open 3,500 files" in said[0]
        assert said[0].endswith(f": {3500 * n_tasks:,} in all.")
        assert said[2:] == [
            "  lab image build site=b site.python=packed",
            "  lab submit … site.python=packed",
        ]


@pytest.mark.slow
def test_eight_processes_on_fewer_nodes_count_too_and_a_command_stays_behind_the_dashes(lab):
    lab.fake("sbatch", "11\n")
    lab.fake("squeue")
    words = ["submit", "site=slurm", "job.nodes=2", "job.gpus=0", "job.tasks_per_node=4"]
    output = lab(*words, "--", "echo", "--dry-run")
    assert re.search(OFFER, output, re.M)[2] == "2 nodes"
    assert typed_lines(output)[1] == shlex.join(
        ["lab", *words, "site.python=packed", "--", "echo", "--dry-run"]
    )
    assert "job 11  run " in output, "it was sent all the same"


@pytest.mark.slow
def test_the_batch_before_sending_counts_the_files(lab):
    lab("data", "pack", "digits")
    lab.fake("sbatch", "11\n")
    lab.fake("squeue")
    output = lab(*LARGE)
    n_opened = int(re.search(OFFER, output, re.M)[3].replace(",", ""))
    done = subprocess.run(
        [sys.executable, "-c", COUNT_MODULES], capture_output=True, text=True, check=True
    )
    n_modules = int(done.stdout)
    assert n_modules > 1000
    assert 0.8 * n_modules < n_opened < 4 * n_modules
    assert f": {8 * n_opened:,} in all." in output


def test_a_library_that_is_loaded_counts_and_files_elsewhere_do_not():
    import numpy  # whose libraries are in the environment

    opened = inside_environment({f"{sys.prefix}/a.py", f"{sys.prefix}-other/a.py", "/b.py", "c.py"})
    assert f"{sys.prefix}/a.py" in opened
    libraries = opened - {f"{sys.prefix}/a.py"}
    assert any("numpy" in path for path in libraries), numpy
    assert all(".so" in path for path in libraries)


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
