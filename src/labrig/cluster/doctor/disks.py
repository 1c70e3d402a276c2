"""The check `disks` of `lab doctor`: free space, and what is left of quotas, as file systems print them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from ...machine.command import output_of
from ...machine.disk import filesystem_type, lustre_stripes
from ...project import Project, read_yaml, site_of
from ..schedulers.command import answer_of
from ..sites.site import load_site, site_of_host
from .template import Finding

MANY_FILES = 100_000  # in a data directory or an environment: more than a metadata server likes
MIN_FREE_GB = 1
MIN_FREE_FILES = 1000
NEARLY_FULL = 0.8  # share of a quota from which on a line warns
FULL = 0.95  # share at which the next checkpoint may fail
MAX_LINES = 12  # of a site's own command that are shown
LESS = "lab runs prune, delete what you no longer need, or ask for more"


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


def disks(project: Project) -> Iterator[Finding]:
    """Each place that a project writes to, and the quotas that it counts against."""
    quotas = user_quotas()
    for setting, path in places(project):
        yield from disk(setting, path)
        quotas += quotas_of(existing(path))
        if setting.startswith("paths.data") and has_many_files(path):
            yield Finding(
                "wrong",
                f"{path} holds more than {MANY_FILES:,} files",
                "pack them into one: lab data pack",
            )
    for quota in dict.fromkeys(quotas):
        yield quota_finding(quota)
    yield from quotas_of_site(project)


def places(project: Project) -> Iterator[tuple[str, Path]]:
    """The settings that name a disk, each with its directory, which need not exist."""
    yield "home", Path.home()
    yield "paths.environment", Path(sys.prefix)
    for name in ("caches", "runs", "checkpoints", "scratch"):
        path = getattr(project.paths, name)
        if path is not None:
            yield f"paths.{name}", path
    for i, path in enumerate(project.paths.data):
        yield f"paths.data[{i}]", path


def existing(path: Path) -> Path:
    return next(parent for parent in (path, *path.parents) if parent.exists())


def disk(setting: str, path: Path) -> Iterator[Finding]:
    """Free space and files of the disk that `path` lies on or will lie on."""
    place = existing(path)
    disk_type = filesystem_type(place)
    space = os.statvfs(place)
    free_GB = space.f_bavail * space.f_frsize / 1e9
    n_free_files = space.f_favail
    stripes = lustre_stripes(place)
    striped = f", stripes {stripes}" if stripes else ""
    yield Finding(
        "ok",
        f"{setting}: {path} on {disk_type},"
        f" {free_GB:,.0f} GB and {n_free_files:,} files free{striped}",
    )
    counts_files = space.f_files > 0  # some file systems have no limit
    if free_GB < MIN_FREE_GB or (counts_files and n_free_files < MIN_FREE_FILES):
        key = setting.partition("[")[0]
        advice = f"lab runs prune, or set {key}"
        if setting == "home":
            advice = "lead caches elsewhere: paths.caches, then make setup"
        yield Finding("wrong", f"the disk of {setting} is full", advice)


def quota_finding(quota: Quota) -> Finding:
    """A quota, with advice from four fifths of its limit on."""
    text = f"quota of {quota.place}: {quota.used} of {quota.limit}"
    text += " files" if quota.what == "files" else ""
    if quota.share < NEARLY_FULL:
        return Finding("ok", text)
    level = "wrong" if quota.share >= FULL else "note"
    return Finding(level, f"{text}, {quota.share:.0%}", LESS)


def quotas_of_site(project: Project) -> Iterator[Finding]:
    """What the site's own commands print, which `quota` of its profile names."""
    name = site_of_host(project) or site_of(read_yaml(project.source / "conf" / "config.yaml"))
    for command in load_site(project, name)["quota"]:
        words = shlex.split(command)
        if not shutil.which(words[0]):
            continue
        for line in answer_of(*words).splitlines()[:MAX_LINES]:
            percents = [float(number) for number in re.findall(r"(\d+(?:\.\d+)?) ?%", line)]
            words_of_line = " ".join(line.split())
            if percents and max(percents) >= 100 * NEARLY_FULL:
                level = "wrong" if max(percents) >= 100 * FULL else "note"
                yield Finding(level, f"{words[0]}: {words_of_line}", LESS)
            elif words_of_line:
                yield Finding("ok", f"{words[0]}: {words_of_line}")


def has_many_files(directory: Path) -> bool:
    """Whether there are more than MANY_FILES below `directory`; it stops counting there."""
    names = (name for _, _, names in os.walk(directory) for name in names)
    return next(islice(names, MANY_FILES, None), None) is not None
