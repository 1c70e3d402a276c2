# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab site init`: asks this cluster and drafts its profile."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import socket
from datetime import date
from typing import Any

import yaml

from ..errors import LabError, Refused
from ..project import Project
from .doctor import output_of
from .job_size import parse_seconds
from .scheduler import run_scheduler_command
from .site import load_site
from .site_show import ASKED

COMMANDS = {"sbatch": "slurm", "pjsub": "pjm", "qconf": "gridengine", "qsub": "pbs"}
DISKS = re.compile(r"(\w*SCRATCH\w*|WORK\w*|STORE|PROJECT|DSDIR|\w*TMPDIR|PBS_LOCALDIR)$")
MODULES = re.compile(r"^(\S*(?:torch|cuda|apptainer|singularity)\S*?)/?$", re.M)
CONFIG = re.compile(
    r"^(?:SLURM_VERSION|PreemptMode|SelectType|TaskPlugin|AccountingStorageEnforce) .*$", re.M
)


def init_command(project: Project, args: list[str]) -> None:
    """Writes conf/site/NAME.yaml in the project from what the cluster answers.

    Raises:
        LabError: there is no scheduler here.
        Refused: the file exists.
    """
    parser = argparse.ArgumentParser(
        prog="lab site init", description="Asks this cluster, drafts conf/site/NAME.yaml."
    )
    host = re.sub(r"\W|\d", "", socket.gethostname().partition(".")[0])
    parser.add_argument(
        "name", nargs="?", default=host or "local", help=f"of the profile ({host or 'local'})"
    )
    name = parser.parse_args(args).name
    path = project.source / "conf" / "site" / f"{name}.yaml"
    if path.exists():
        raise Refused(f"{path} exists; remove it, or give another name: lab site init NAME")
    text = draft()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    load_site(project, name)
    print(
        f"{text}\nwritten to {path}\nRead it, mend what is wrong, then try: lab submit --dry-run site={name} …"
    )


def draft() -> str:
    """The profile of the cluster this machine belongs to, as YAML whose comments say what else it answered.

    Raises:
        LabError: no scheduler is installed here.
        Failed: Slurm does not answer.
    """
    kind = next((kind for command, kind in COMMANDS.items() if shutil.which(command)), None)
    if kind is None:
        raise LabError(
            "no scheduler is installed here. Log in to the cluster; for this machine use site=workstation"
        )
    disks = [name for name in sorted(os.environ) if DISKS.match(name)]
    scratch = next((f"${name}" for name in disks if "SCRATCH" in name), None)
    modules = sorted(set(MODULES.findall(output_of("bash", "-lc", "module -t avail 2>&1"))))
    notes = [f"disk {name}={os.environ[name]}" for name in disks] + [
        f"module {name}" for name in modules[:12]
    ]
    profile: dict[str, Any] = {"scheduler": kind, "internet": False}
    paths = {
        "runs": "runs",
        "checkpoints": scratch,
        "data": ["data"],
        "scratch": scratch,
        "environment": ".venv",
    }
    profile |= {"paths": paths, "launcher": "srun" if kind == "slurm" else "mpirun"}
    profile |= slurm(notes) if kind == "slurm" else {}
    profile["sources"] = {
        "cluster": {"what": f"lab site init on {socket.gethostname()}", "seen": f"{date.today()}"}
    }
    profile["confidence"] = {
        key: ["V" if key in ASKED else "?", "cluster"] for key in profile if key != "sources"
    }
    head = ["Drafted by lab site init. In `confidence`, ? marks what could not be asked.", *notes]
    text = yaml.safe_dump(profile, sort_keys=False, default_flow_style=None, width=100)
    return "".join(f"# {note}\n" for note in head) + text


def slurm(notes: list[str]) -> dict[str, Any]:
    """Partitions with their limits and GPUs, the default one first; adds accounts and Slurm's own settings to `notes`."""
    queues, gpus = {}, []
    answer = run_scheduler_command("sinfo", "--noheader", "--format=%P|%a|%l|%G|%c")
    rows = [line.split("|") for line in answer.splitlines() if "|up|" in line]
    for partition, _, limit, gres, cpus in sorted(rows, key=lambda row: "*" not in row[0]):
        name, here = partition.rstrip("*"), re.findall(r"gpu:(?:([a-z]\w*):)?(\d+)", gres)
        queue = queues.setdefault(name, {"name": name, "option": "--partition={queue}"})
        queue |= {} if here else {"max_gpus": 0}
        if limit[0].isdigit():
            queue["max_h"] = parse_seconds(limit if limit.count(":") == 2 else f"0:{limit}") / 3600
        gpus += [(int(n), int(cpus.rstrip("+")) // int(n), kind or "gpu") for kind, n in here]
    notes += CONFIG.findall(run_scheduler_command("scontrol", "show", "config"))
    user = f"user={os.environ.get('USER', '')}"
    accounts = output_of("sacctmgr", "-nP", "show", "assoc", user, "format=account,qos")
    notes += [f"account|QoS {line}" for line in accounts.splitlines()]
    told: dict[str, Any] = {"queues": list(queues.values())}
    if gpus:
        numbers, cpus_per_gpu, kinds = zip(*gpus, strict=True)
        told["gpu"] = {"name": "/".join(sorted(set(kinds))), "per_node": max(numbers)}
        told["job"] = {"gpus": 1, "cpus_per_gpu": min(cpus_per_gpu)}
    told["resources"] = [
        {"gpus": 0, "options": []},
        {"gpus": "any", "options": ["--gres=gpu:{gpus}"]},
    ]
    return told | {"requeue": {"method": "scontrol", "lead_s": 120, "max": 50}}
