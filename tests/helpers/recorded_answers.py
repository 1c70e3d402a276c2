"""A project on whose PATH lie commands with recorded answers, and runs as submit and their attempts leave them."""

import getpass
import json
import platform

import pytest
from projects import call
from records import whole_record

SQUEUE = """\
11|RUNNING|None|1-01:00:05|2026-11-20T18:00:00
12|PENDING|DependencyNeverSatisfied|0:00|N/A
13_4|PENDING|BeginTime|0:00|N/A
"""


@pytest.fixture
def lab(own_project):
    """lab(*words) runs a command in a project.

    lab.fake(name, text, rc) puts a command into lab.tools, which is on its PATH; it notes its calls in lab.calls.
    """
    tools = own_project.parent / "myproj-bin"
    calls = own_project.parent / "calls"
    calls.touch()

    def lab(*words, **options):
        return call(own_project, "lab", *words, **options)

    def fake(name, text="", rc=0):
        answer = tools / f"{name}.answer"
        answer.write_text(text)
        script = tools / name
        script.write_text(f'#!/bin/sh\necho "{name} $*" >>"{calls}"\ncat "{answer}"\nexit {rc}\n')
        script.chmod(0o755)

    # A Slurm of other tests may be up, and know the number of a job.
    for name in ("sacct", "scontrol"):
        (tools / name).write_text("#!/bin/sh\nexit 1\n")
        (tools / name).chmod(0o755)
    lab.fake = fake
    lab.calls = calls
    lab.tools = tools
    lab.folder = own_project
    lab.runs = own_project / "runs/baseline"
    return lab


def make_run(lab, n, job, *, ends=None, starts=False, requeue=False, **record):
    """A run's directory as submit and its attempts leave it."""
    directory = lab.runs / f"20261120-19000{n}-abcdef"
    (directory / "checkpoints").mkdir(parents=True)
    process = {"pid": 1, "pid_started": "0", "pid_space": "another machine"}
    values = {"who": getpass.getuser(), "host": platform.node(), "process": process}
    if job is not None:
        values["job"] = {"scheduler": "slurm", "site": "slurm", "nodes": 2, "gpus": 4} | job
    (directory / "run.json").write_text(json.dumps(whole_record(directory.name, **values | record)))
    if starts or ends:
        attempt = directory / "attempts/1"
        attempt.mkdir(parents=True)
        (attempt / "start.json").write_text(json.dumps(process | {"started_unix_s": 0}))
        (attempt / "heartbeat").touch()
    if ends:
        (directory / "attempts/1/end.json").write_text(json.dumps({"status": ends}))
        (directory / "summary.json").write_text(json.dumps({"format": 1, "status": ends}))
    if requeue:
        (directory / "requeue").touch()
    return directory
