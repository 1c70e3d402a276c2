"""The first lines of a job that was sent from another machine: whether this job is the one.

Two things can make a second job of a run. A machine dies after its scheduler took the job and
before it wrote that down, so the run is sent again: then the job that was sent last continues.
And `on=a,b` sends two on purpose: the one that starts first continues.

Who is first is decided by the jobs themselves, when they start: they create one link on the disk
of the first host, which only one process can do. So it also holds while the laptop is off. A job on
another host reaches that disk by itself when the clusters share it, else by `ssh`. Where a node
cannot reach it, its job continues, and the laptop ends one of two running jobs when it next asks.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from .connection import host_script


@dataclass(frozen=True)
class Race:
    """A run that was sent to several hosts.

    Args:
        name: of the host of this job.
        judge: the first of the hosts, as `ssh` calls it.
        link: on its disk; it is made by the first job, and names that job's host.
    """

    name: str
    judge: str
    link: str


def guard(sending: Path, nonce: str, race: Race | None) -> str:
    """Lines of shell for the job script.

    Args:
        sending: a file that holds the nonce of the job that was sent last.
        nonce: of this job.
    """
    parts = [host_script("sent_last", sending=sending, nonce=nonce)]
    if race:
        parts.append(race_part(race))
    return "\n".join([*parts, "", ""])


def race_part(race: Race) -> str:
    """Lines that end the job when a job on another host has started first."""
    link = shlex.quote(race.link)
    return host_script(
        "started_first",
        name=race.name,
        judge=race.judge,
        folder=Path(race.link).parent,
        claim=f"ln -sn {shlex.quote(race.name)} {link} 2>/dev/null; readlink {link}",
    )
