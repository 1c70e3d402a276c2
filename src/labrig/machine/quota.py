"""What a person, a group and a project use of their quotas, as the tools of file systems print it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .command import output_of
from .disk import filesystem_type

UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15, "e": 1e18}
# A number, perhaps with a unit and with the star of what is over its limit. A grace period is none.
SIZE = re.compile(r"\[?(\d+(?:\.\d+)?)([kKMGTPE]?)\]?\*?")
TIMEOUT_S = 20


@dataclass(frozen=True)
class Quota:
    """How much of one limit is used.

    Args:
        what: "space" or "files".
        used, limit: as printed, such as 2.9G.
        share: of the limit; 1 is all of it.
    """

    place: str
    what: str
    used: str
    limit: str
    share: float


def quotas_of(directory: Path) -> list[Quota]:
    """The quotas on the disk of a directory that exists, on Lustre; [] elsewhere."""
    if filesystem_type(directory) != "lustre" or not shutil.which("lfs"):
        return []
    owners = [("-u", str(os.getuid())), ("-g", str(directory.stat().st_gid))]
    owners += [("-p", number) for number in lustre_project(directory)]
    answers = (_answer_of("lfs", "quota", "-h", *owner, str(directory)) for owner in owners)
    return list(dict.fromkeys(quota for answer in answers for quota in read_quotas(answer)))


def user_quotas() -> list[Quota]:
    """What `quota` says of this user's disks; [] where there is no such command."""
    return read_quotas(_answer_of("quota", "-s")) if shutil.which("quota") else []


def lustre_project(directory: Path) -> list[str]:
    """The number of the project whose quota a directory on Lustre counts against, if there is one."""
    number = _answer_of("lfs", "project", "-d", str(directory)).split()[:1]
    return [] if number in ([], ["0"]) or not number[0].isdigit() else number


def read_quotas(text: str) -> list[Quota]:
    """The rows below the line of titles of `quota` and `lfs quota`; those without a limit are left out.

    A row is the place, then used, soft limit, limit and grace of the space, then of the files. A
    long place stands on a line of its own.
    """
    rows: list[tuple[str, list[re.Match]]] = []
    table = re.split(r"^ *Filesystem.*$", text, maxsplit=1, flags=re.MULTILINE)[1:]
    for word in " ".join(table).split():
        size = SIZE.fullmatch(word)
        if "/" in word:
            rows.append((word, []))
        elif size and rows:
            rows[-1][1].append(size)
    return [
        quota
        for place, sizes in rows
        for what, numbers in (("space", sizes[:3]), ("files", sizes[3:6]))
        for quota in _quota(place, what, numbers)
    ]


def _quota(place: str, what: str, numbers: list[re.Match]) -> Iterator[Quota]:
    if len(numbers) < 3:
        return
    used, soft, hard = numbers
    limits = [limit for limit in (soft, hard) if _value(limit) > 0]
    if limits:
        limit = min(limits, key=_value)
        share = _value(used) / _value(limit)
        yield Quota(place, what, used[1] + used[2], limit[1] + limit[2], share)


def _value(size: re.Match) -> float:
    return float(size[1]) * UNITS[size[2].lower()]


def _answer_of(*command: str) -> str:
    """What a command prints, also when it fails because a quota is used up; "" without an answer."""
    return output_of(*command, timeout_s=TIMEOUT_S, failed_too=True) or ""
