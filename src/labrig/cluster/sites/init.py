"""`lab site init`: asks this cluster and drafts its profile."""

from __future__ import annotations

import os
import re
import shutil
import socket
from datetime import date
from typing import Any

import yaml

from ...command_parser import CommandParser
from ...errors import Failed, LabError, Refused
from ...machine.network import INTERNET, is_reachable
from ...project import Project
from ..schedulers import all_schedulers
from ..schedulers.command import answer_of
from ..schedulers.scheduler import Scheduler
from ..schedulers.site_draft import SiteDraft
from .site import load_site

DISK_VARIABLES = re.compile(r"(\w*SCRATCH\w*|WORK\w*|STORE|PROJECT|DSDIR|\w*TMPDIR|PBS_LOCALDIR)$")
USEFUL_MODULES = re.compile(r"^(\S*(?:torch|cuda|apptainer|singularity)\S*?)/?$", re.M)
MAX_MODULES = 12  # that are named in the draft
# keys that the cluster itself has answered; whether jobs reach the internet, lab site verify tells
ANSWERED = ("queues", "gpu", "job", "internet.login")


def init_command(project: Project, args: list[str]) -> None:
    """Writes conf/site/NAME.yaml in the project from what the cluster answers."""
    parser = CommandParser(
        prog="lab site init", description="Asks this cluster, drafts conf/site/NAME.yaml."
    )
    default = default_name()
    parser.add_argument("name", nargs="?", default=default, help=f"of the profile ({default})")
    name = parser.parse_args(args).name
    path = project.source / "conf" / "site" / f"{name}.yaml"
    if path.exists():
        raise Refused(f"{path} exists. Remove it, or choose another name: lab site init NAME")
    text = draft_profile()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    load_site(project, name)  # checks it
    print(text)
    print(f"written to {path}")
    print(f"Read it, correct what is wrong, then try: lab submit --dry-run site={name} …")
    print(f"A job of one minute shows that it works: lab site verify site={name}")


def default_name() -> str:
    """The name of this host without digits: jean-zay3 is jeanzay."""
    host = socket.gethostname().partition(".")[0]
    return re.sub(r"\W|\d", "", host) or "local"


def draft_profile() -> str:
    """The profile of this cluster as YAML; comments hold what else the cluster answered."""
    scheduler, draft = ask_schedulers(installed_schedulers())
    disks = [name for name in sorted(os.environ) if DISK_VARIABLES.match(name)]
    notes = [f"disk {name}={os.environ[name]}" for name in disks]
    notes += [f"module {name}" for name in useful_modules()[:MAX_MODULES]]
    if scheduler.experimental:
        notes.insert(0, f"{scheduler.name} is experimental: nobody has run its job script yet")
    scratch = next((f"${name}" for name in disks if "SCRATCH" in name), None)
    profile: dict[str, Any] = {
        "scheduler": scheduler.name,
        "internet": {"jobs": False, "login": is_reachable(INTERNET)},
        "paths": {
            "runs": "runs",
            "checkpoints": scratch,
            "data": ["data"],
            "scratch": scratch,
            "environment": ".venv",
            "caches": ".caches",
        },
        "launcher": scheduler.launcher,
    }
    return format_profile(profile | draft.profile, [*notes, *draft.notes])


def installed_schedulers() -> list[Scheduler]:
    """The schedulers whose commands are on the path."""
    schedulers = [
        scheduler
        for scheduler in all_schedulers()
        if scheduler.found_by and shutil.which(scheduler.found_by)
    ]
    if schedulers:
        return schedulers
    raise LabError(
        "no scheduler is installed here. Log in to the cluster;"
        " for this machine use site=workstation"
    )


def ask_schedulers(schedulers: list[Scheduler]) -> tuple[Scheduler, SiteDraft]:
    """The first scheduler that answers, and what it says."""
    reasons = []
    for scheduler in schedulers:
        try:
            return scheduler, scheduler.draft_site()
        except Failed as error:  # installed, and not used here
            reasons.append(str(error))
    raise Failed("\n".join(reasons))


def useful_modules() -> list[str]:
    """Environment modules that a training may need."""
    answer = answer_of("bash", "-lc", "module -t avail 2>&1")
    return sorted(set(USEFUL_MODULES.findall(answer)))


def format_profile(profile: dict[str, Any], notes: list[str]) -> str:
    """YAML with the notes as comments, and with the source and confidence of each key."""
    source = {"what": f"lab site init on {socket.gethostname()}", "seen": f"{date.today()}"}
    keys = (*profile, "internet.login")
    confidence = {key: ["V" if key in ANSWERED else "?", "cluster"] for key in keys}
    profile = profile | {"sources": {"cluster": source}, "confidence": confidence}
    head = ["Drafted by lab site init. In `confidence`, ? marks what could not be asked.", *notes]
    comments = "".join(f"# {note}\n" for note in head)
    return comments + yaml.safe_dump(profile, sort_keys=False, default_flow_style=None, width=100)
