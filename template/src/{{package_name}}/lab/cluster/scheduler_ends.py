# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""Reads what Slurm and Grid Engine remember of a job that is over."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class EndedJob:
    """A job that is over, in the scheduler's words.

    Args:
        states: the state, then what tells more; the first that schedulers.yaml knows counts.
        nodes: where it ran.
        text: a sentence of the scheduler's own; "" where it has none.
    """

    states: list[str]
    nodes: str
    text: str = ""


def read_scontrol(text: str, job_id: str) -> EndedJob | None:
    """One job of `scontrol show job`; None when it is not over."""
    match = re.search(r"JobState=(\S+) Reason=(.*?) Dependency=", text)
    if not match or match[1] in ("PENDING", "RUNNING", "COMPLETING", "REQUEUED", "SUSPENDED"):
        return None
    nodes = re.search(r"^ +NodeList=(\S+)", text, re.MULTILINE)
    reason = match[2].replace(" ", "_")
    return EndedJob([match[1], reason], "" if not nodes or nodes[1] == "(null)" else nodes[1])


def read_sacct(text: str, job_id: str) -> EndedJob | None:
    """State|nodes of a job in the first line, of its steps in the next."""
    rows = [line.split("|") for line in text.splitlines() if "|" in line]
    if not rows:
        return None
    states = [row[0].partition(" ")[0] for row in rows]  # CANCELLED by 1000
    of_steps = ["OUT_OF_MEMORY"] if "OUT_OF_MEMORY" in states else []
    return EndedJob([states[0], *of_steps], rows[0][1])


def read_qacct(text: str, job_id: str) -> EndedJob | None:
    """The entry of a job, or of one task of an array, in Grid Engine's accounting."""
    task = job_id.partition(".")[2] or "undefined"
    for block in re.split(r"^=+$", text, flags=re.MULTILINE):
        facts = dict(re.findall(r"^(\w+) +(.*?) *$", block, re.MULTILINE))
        if facts.get("taskid") == task:
            code, _, meaning = facts.get("failed", "0").partition(":")
            return EndedJob([code.strip()], facts.get("hostname", ""), meaning.strip())
    return None


# the first word of a command -> the reader of its answer
END_READERS = {"scontrol": read_scontrol, "sacct": read_sacct, "qacct": read_qacct}
