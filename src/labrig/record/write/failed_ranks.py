"""The process that failed first, of several that train together.

When one process ends, the others lose their connection to it and fail too. Each writes what ended it into
attempts/<n>/failed-<rank>.json. The first process, which has the record, takes the earliest reason: never
a lost connection where another process wrote why it ended.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from pathlib import Path
from typing import TypedDict

from ..files.atomic import read_advisory
from ..files.manifest import write_listed
from ..files.schema import RaisedError
from ..read.attempt_files import further_nodes
from .attempt import Attempt, describe_exception, write_traceback

PATIENCE_S = 5.0  # until the last of the others has written its reason
# What gloo, NCCL and torch's store raise when a process is gone; of other types, such as the
# ConnectionRefusedError of a data base, a lost connection is a reason of its own.
OF_TORCH = ("RuntimeError", "DistError", "DistBackendError", "DistNetworkError", "DistStoreError")
LOST = re.compile(
    r"connection (?:was )?(?:closed|reset|refused)|broken pipe|socket closed|remote process exited|"
    r"ncclremoteerror|ncclsystemerror|unhandled system error|process group watchdog|recvvalue failed",
    re.IGNORECASE,
)


class RankFailure(TypedDict):
    """attempts/<n>/failed-<rank>.json."""

    rank: int
    host: str
    failed_unix_s: float
    error: RaisedError


def note_failure(run_dir: Path, n: int, rank: int, host: str, error: BaseException) -> Path:
    """Writes why another process than the first failed; the file that has its whole traceback."""
    folder = run_dir / "attempts" / str(n)
    failure = RankFailure(
        rank=rank, host=host, failed_unix_s=time.time(), error=describe_exception(error)
    )
    # On a full disk, what is printed matters more.
    with suppress(OSError):
        write_listed(run_dir, f"attempts/{n}/failed-{rank}.json", failure)
    traceback = folder / f"traceback-{rank}.txt"
    write_traceback(traceback, error)
    return traceback


def first_reason(attempt: Attempt, own: RaisedError) -> RaisedError:
    """Why an attempt failed: `own`, which ended the first process, or what ended another one before.

    The line of another process begins with its rank and host.
    """
    ranks = range(1, attempt.facts.get("world_size") or 1)
    own_unix_s = time.time()
    end_s = time.monotonic() + PATIENCE_S
    failures = read_failures(attempt.dir)
    while is_lost(own) and len(failures) < len(ranks) and time.monotonic() < end_s:
        time.sleep(0.1)
        failures = read_failures(attempt.dir)
    reasons = [
        each
        for each in failures
        if not is_lost(each["error"]) and each["error"]["line"] != own["line"]
    ]
    first = min(reasons, key=lambda each: each["failed_unix_s"], default=None)
    if first and (is_lost(own) or first["failed_unix_s"] < own_unix_s):
        place = f"rank {first['rank']} on {first['host']}"
        return RaisedError(
            type=first["error"]["type"],
            line=f"{place}: {first['error']['line']}",
            place=first["error"]["place"],
        )
    silent = sorted(set(ranks) - {each["rank"] for each in failures})
    if is_lost(own) and silent:
        killed = f"rank {silent[0]} on {host_of(attempt, silent[0])} ended without a word"
        line = f"{killed}: killed (signal 9: memory?), or its node failed. {own['line']}"
        return RaisedError(type=own["type"], line=line, place=own["place"])
    return own


def read_failures(attempt_dir: Path) -> list[RankFailure]:
    files = sorted(attempt_dir.glob("failed-*.json"))
    return [failure for file in files if (failure := read_advisory(file, RankFailure))]


def is_lost(error: RaisedError) -> bool:
    """Whether an error only says that another process is gone."""
    return error["type"] in OF_TORCH and bool(LOST.search(error["line"]))


def host_of(attempt: Attempt, rank: int) -> str:
    """The host of a rank; each node has the same number of them."""
    nodes = [attempt.facts, *further_nodes(attempt.dir)]
    n_ranks = attempt.facts["world_size"]
    return str(nodes[rank * len(nodes) // n_ranks]["host"])
