"""A project on whose PATH lie commands with recorded answers, and runs as submit and their attempts leave them."""

import getpass
import json
import platform

import pytest
from conftest import call

SQUEUE = """\
11|RUNNING|None|1-01:00:05
12|PENDING|DependencyNeverSatisfied|0:00
13_4|PENDING|BeginTime|0:00
"""


@pytest.fixture
def lab(own_project):
    """lab(*words) in a project; lab.fake(name, text, rc) puts a command on its PATH that notes its calls in lab.asked."""
    tools = own_project.parent / "myproj-bin"
    asked = own_project.parent / "asked"
    asked.touch()

    def lab(*words, **options):
        return call(own_project, "lab", *words, **options)

    def fake(name, text="", rc=0):
        (tools / f"{name}.answer").write_text(text)
        script = (
            f'#!/bin/sh\necho "{name} $*" >>"{asked}"\ncat "{tools}/{name}.answer"\nexit {rc}\n'
        )
        (tools / name).write_text(script)
        (tools / name).chmod(0o755)

    lab.fake, lab.asked, lab.folder, lab.runs = (
        fake,
        asked,
        own_project,
        own_project / "runs/baseline",
    )
    return lab


def make_run(lab, n, job, *, ends=None, starts=False, requeue=False, **record):
    """A run's directory as submit and its attempts leave it."""
    directory = lab.runs / f"20261120-19000{n}-abcdef"
    process = {"pid": 1, "pid_started": "0", "pid_space": "another machine"}
    about = {
        "run_id": directory.name,
        "trial": "baseline",
        "who": getpass.getuser(),
        "host": platform.node(),
    }
    job = job and {"scheduler": "slurm", "site": "slurm", "nodes": 2, "gpus": 4} | job
    (directory / "checkpoints").mkdir(parents=True)
    (directory / "run.json").write_text(
        json.dumps(about | {"process": process, "job": job} | record)
    )
    if starts or ends:
        (directory / "attempts/1").mkdir(parents=True)
        (directory / "attempts/1/start.json").write_text(
            json.dumps(process | {"started_unix_s": 0})
        )
        (directory / "attempts/1/heartbeat").touch()
    if ends:
        (directory / "attempts/1/end.json").write_text(json.dumps({"status": ends}))
        (directory / "summary.json").write_text(json.dumps({"status": ends}))
    if requeue:
        (directory / "requeue").touch()
    return directory
