# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab site show` and `lab site init`: the profile of a cluster, and a draft of one made by asking the cluster itself."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import socket
import subprocess
from pathlib import Path

import yaml

from ..errors import LabError, Refused
from ..project import Project
from .site import account_of, load_site

DISKS = re.compile(r"(\w*SCRATCH\w*|WORK\w*|STORE|PROJECT|DSDIR|\w*TMPDIR|PBS_LOCALDIR)$")


def show_command(project: Project, args: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="lab site show", description="Prints a site's profile; without NAME, the sites there are."
    )
    parser.add_argument("name", nargs="?")
    options = parser.parse_args(args)
    if options.name is None:
        found: dict[str, Path] = {}
        for directory in reversed(project.site_directories):
            found |= {path.stem: path for path in directory.glob("*.yaml")}
        for name, path in sorted(found.items()):
            print(f"{name:<16} {path}")
        return
    site = load_site(project, options.name)
    print(f"# {site.path}\n# account: {account_of(site) or 'none in accounts.yaml'}\n{site.text}", end="")


def init_command(project: Project, args: list[str]) -> None:
    """Writes conf/site/NAME.yaml in the project from what the cluster answers.

    Raises:
        LabError: there is no scheduler here.
        Refused: the file exists.
    """
    parser = argparse.ArgumentParser(
        prog="lab site init", description="Asks this cluster, and drafts conf/site/NAME.yaml."
    )
    parser.add_argument(
        "name", nargs="?", default=re.sub(r"\W|\d", "", socket.gethostname().partition(".")[0]) or "local"
    )
    options = parser.parse_args(args)
    path = project.root / "src" / project.package / "conf" / "site" / f"{options.name}.yaml"
    if path.exists():
        raise Refused(f"{path} exists; remove it, or give another name: lab site init NAME")
    text = draft()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    load_site(project, options.name)
    print(
        f"{text}\nwritten to {path}. Read it, mend what is wrong, then try: lab submit site={options.name} … --dry-run"
    )


def draft() -> str:
    """The profile of the cluster this machine belongs to, each answer with the command it came from.

    Raises:
        LabError: neither Slurm nor another scheduler is installed here.
    """
    found = next((name for name in ("sbatch", "qsub", "pjsub") if shutil.which(name)), None)
    if found is None:
        raise LabError(
            "no scheduler is installed here. Log in to the cluster first; for this machine use site=workstation"
        )
    disks = {name: os.environ[name] for name in sorted(os.environ) if DISKS.match(name)}
    scratch = next((f"${name}" for name in disks if "SCRATCH" in name), None)
    modules = sorted(
        set(
            re.findall(
                r"^(\S*(?:torch|cuda|apptainer|singularity)\S*?)/?$", _say("bash", "-lc", "module -t avail 2>&1"), re.M
            )
        )
    )
    kind = (
        "slurm"
        if found == "sbatch"
        else "pjm"
        if found == "pjsub"
        else "gridengine"
        if shutil.which("qconf")
        else "pbs"
    )
    profile = {"scheduler": kind, "internet": False, "launcher": "srun" if kind == "slurm" else "mpirun"}
    profile["paths"] = {
        "runs": "runs",
        "checkpoints": scratch,
        "data": ["data"],
        "scratch": scratch,
        "environment": ".venv",
    }
    notes = [f"variables of disks: {', '.join(f'{name}={value}' for name, value in disks.items()) or 'none'}"]
    notes += [f"modules that may be of use: {', '.join(modules[:12]) or 'none'}"]
    if kind == "slurm":
        profile |= slurm(notes)
    profile["sources"] = {
        "cluster": {"what": f"lab site init on {socket.gethostname()}", "seen": _say("date", "+%F").strip()}
    }
    profile["confidence"] = {key: ["V", "cluster"] for key in ("resources", "queues", "gpu") if key in profile}
    profile["confidence"] |= {key: ["?", "cluster"] for key in ("internet", "launcher", "requeue") if key in profile}
    profile["verified"] = None
    head = "# Drafted by `lab site init`. ? marks what could not be asked.\n" + "".join(f"# {note}\n" for note in notes)
    return head + yaml.safe_dump(profile, sort_keys=False, allow_unicode=True)


def slurm(notes: list[str]) -> dict:
    """Partitions with their limits and GPUs, accounts, and what Slurm does at preemption."""
    queues, per_node, kinds = [], [], set()
    for line in _say("sinfo", "--noheader", "--format=%R|%l|%G").splitlines():
        name, limit, gres = line.split("|")
        hours = None if limit == "infinite" else round(_hours(limit), 2)
        if name not in [queue["name"] for queue in queues]:
            queues.append({"name": name, "option": "--partition={queue}", "max_h": hours})
        for kind, count in re.findall(r"gpu:(?:([\w.-]+):)?(\d+)", gres):
            per_node.append(int(count))
            kinds.add(kind or "gpu")
    config = _say("scontrol", "show", "config")
    for key in ("SLURM_VERSION", "PreemptMode", "SelectType", "TaskPlugin"):
        notes += [" ".join(found[0].split()) for found in [re.search(rf"^{key}\s*=.*$", config, re.M)] if found]
    accounts = _say(
        "sacctmgr", "-nP", "show", "assoc", f"user={os.environ.get('USER', '')}", "format=account,qos"
    ).split()
    notes.append(f"your accounts and QoS: {', '.join(accounts) or 'not told'}")
    return {
        "gpu": {"name": "/".join(sorted(kinds)), "per_node": max(per_node), "memory_GB": None} if per_node else None,
        "resources": [{"gpus": 0, "options": []}, {"gpus": "any", "options": ["--gres=gpu:{gpus}"]}],
        "queues": queues,
        "requeue": {"method": "scontrol", "lead_s": 120, "max": 50},
    }


def _hours(limit: str) -> float:
    """Slurm's [days-]hours:minutes:seconds, or minutes:seconds."""
    days, _, rest = limit.rpartition("-")
    parts = [int(part) for part in rest.split(":")]
    return int(days or 0) * 24 + sum(part * 60**i for i, part in enumerate(reversed(parts))) / 3600


def _say(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
