# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""This process and its user, told apart from processes of other machines, containers and boots."""

import getpass
import os
import platform
from pathlib import Path


def user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container without an entry for this user
        return str(os.getuid())


def process_facts() -> dict:
    """What tells whether a process still lives: host, pid, and the boot and pid namespace in which the pid counts."""
    return {
        "host": platform.node(),
        "pid": os.getpid(),
        "pid_space": pid_space(),
        "pid_started": pid_started(os.getpid()),
    }


def pid_space() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return platform.node()


def pid_started(pid: int) -> str | None:
    """When process `pid` started, in clock ticks since boot, which tells a reused pid; None when it is gone."""
    try:
        fields = (
            Path(f"/proc/{pid}/stat")
            .read_text(encoding="utf-8", errors="replace")
            .rpartition(")")[2]
            .split()
        )
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]


CONTAINERS = ("APPTAINER_CONTAINER", "SINGULARITY_CONTAINER")
