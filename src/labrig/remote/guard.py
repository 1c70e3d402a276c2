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
    file = shlex.quote(str(sending))
    lines = [
        "# ---- sent from another machine: only the job that was sent last continues",
        'LOG="$RUN_DIR/job.log"',
        f'if [ -e {file} ] && [ "$(cat {file})" != {nonce} ]; then',
        '  echo "job $JOB was sent again after a failure; this first one ends" >>"$LOG"',
        "  exit 0",
        "fi",
    ]
    if race:
        lines += race_lines(race)
    return "\n".join([*lines, "", ""])


def race_lines(race: Race) -> list[str]:
    """Lines that end the job when a job on another host has started first."""
    link = shlex.quote(race.link)
    folder = shlex.quote(str(Path(race.link).parent))
    claim = f"ln -sn {shlex.quote(race.name)} {link} 2>/dev/null; readlink {link}"
    ssh = f"ssh -o BatchMode=yes -o ConnectTimeout=20 {shlex.quote(race.judge)}"
    return [
        "# ---- sent to several hosts: the job that starts first continues",
        f"claim() {{ {claim}; }}",
        f"if [ -d {folder} ]; then",
        "  FIRST=$(claim || true)",
        "else",
        f"  FIRST=$({ssh} {shlex.quote(claim)} </dev/null || true)",
        "fi",
        'case "$FIRST" in',
        f"  {shlex.quote(race.name)}) ;;",
        f'  "") echo "{race.judge} does not answer, so this job may not be the only one" >>"$LOG" ;;',
        "  *)",
        '    echo "the job on $FIRST has started first; this one ends" >>"$LOG"',
        '    echo "the job on $FIRST started first" >"$RUN_DIR/cancelled"',  # lab queue says it
        "    exit 0",
        "    ;;",
        "esac",
    ]
