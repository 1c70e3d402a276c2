"""The shell that runs on a host: the files of host/, with their @@{names} filled in."""

from __future__ import annotations

import shlex
from pathlib import Path

from ..cluster.submit.script import JobTemplate

FOLDER = Path(__file__).parent / "host"


class Quoted(str):
    """Text that the shell may read as it is."""


Value = str | int | Path | list[str]


def host_script(name: str, /, **values: Value) -> str:
    """A file of host/ with its names filled in.

    Args:
        values: quoted for the shell, unless they are Quoted; a list becomes its words.
    """
    text = (FOLDER / f"{name}.sh").read_text(encoding="utf-8")
    return JobTemplate(text.rstrip()).substitute({key: quote(each) for key, each in values.items()})


def quote(value: Value) -> str:
    if isinstance(value, Quoted):
        return value
    return shlex.join(value) if isinstance(value, list) else shlex.quote(str(value))
