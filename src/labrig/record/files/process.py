"""Who and what runs here: the user, and the facts that show whether a process still lives."""

import getpass
import os
import platform
from pathlib import Path
from signal import Signals
from typing import Any

from ... import env
from .schema import ProcessFacts


def user() -> str:
    """The user's name, or number where there is no name."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container without an entry for this user
        return str(os.getuid())


def process_facts() -> ProcessFacts:
    """The facts of this process."""
    return {
        "host": platform.node(),
        "cwd": os.getcwd(),
        "pid": os.getpid(),
        "pid_space": pid_space(),
        "pid_started": pid_started(os.getpid()),
    }


def job_facts() -> dict[str, Any]:
    """The job that this process runs in, and when it began; nothing outside of a job."""
    if env.JOB not in os.environ or env.JOB_STARTED not in os.environ:
        return {}
    return {"job": {"id": os.environ[env.JOB], "started_unix_s": int(os.environ[env.JOB_STARTED])}}


def pid_space() -> str:
    """The boot and pid namespace of this process, in which alone its pid counts."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return platform.node()


def pid_started(pid: int) -> str | None:
    """When process `pid` started, in clock ticks since boot; None when it has ended.

    It differs between a process and a later one with the same pid.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The second field is the name in parentheses, which may hold spaces.
    fields = stat.rpartition(")")[2].split()
    state = fields[0]
    if state == "Z":  # ended, and waiting for its parent to ask how
        return None
    return fields[19]


def signal_name(number: int) -> str:
    """SIGTERM for 15; the number for signals without a name."""
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"
