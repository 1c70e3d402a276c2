"""The claim to the next attempt of a run: of several that resume a run at once, exactly one continues.

Whoever creates attempts/<n>/lock owns attempt n: the file is created with O_EXCL, which only one
process can do, also on NFS. It names the process. The owner touches attempts/<n>/heartbeat about
every 30 s. Attempt n + 1 can be claimed when attempt n is over:

=========================================================  ==============================
the newest attempt                                         it is over
=========================================================  ==============================
has an end.json                                            yes
is owned by a process of this machine                      when that process has ended
is owned by the job that starts this process for this run  yes: a scheduler starts a job
                                                           again after its end only
is owned by an earlier chunk of the chain of this job      yes: this job waited for its end
was over when `lab submit RUN` sent this job               yes
is owned by a process elsewhere                            after 10 minutes of silence
=========================================================  ==============================

So no lock has to be removed by hand after a crash. Silence is measured by the clock of the disk.
An owner that was silent for so long, and lives, ends itself when it sees the next attempt.

Who only reads a run, such as `lab eval`, claims no attempt: `in_use` says that it is needed meanwhile.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ... import env
from ...errors import LabError
from ..files.atomic import read_advisory
from ..files.process import process_facts
from ..files.schema import ProcessFacts, StartRecord
from ..read.run import run_record
from ..read.status import SILENT_S, alive

LOCK = "lock"
USED = ".used-"  # how the lock of a process begins that reads a run
LONGEST_USE_S = 86400  # after which the lock of a reader on another machine counts for nothing
CHUNK_JOBS = "chunk_jobs"  # in a run's directory: the jobs of its chain that began, by job/chain.sh


def claim_attempt(run_dir: Path) -> int:
    """The number of the next attempt of a run, which now belongs to this process.

    Raises:
        LabError: another process owns the newest attempt, and seems to live; or a link is there
            in place of a directory of the record.
    """
    attempts = run_dir / "attempts"
    refuse_link(attempts)
    attempts.mkdir(exist_ok=True)
    while True:
        newest = newest_claim(run_dir)
        if newest:
            refuse_if_running(run_dir, newest)
        folder = attempts / str(newest + 1)
        refuse_link(folder)
        folder.mkdir(exist_ok=True)
        # Somebody else was first, or has just withdrawn: look again.
        with suppress(FileExistsError, FileNotFoundError):
            create_lock(folder / LOCK)
            return newest + 1


def refuse_link(folder: Path) -> None:
    """Makes sure that the files of an attempt land in the run, which somebody may have sent."""
    if folder.is_symlink():
        raise LabError(
            f"{folder} is a link, and lab writes through no link. Remove it: rm {folder}"
        )


def create_lock(path: Path) -> None:
    """Creates a lock that names this process.

    Raises:
        FileExistsError: there is one.
    """
    owner = process_facts() | {"job": os.environ.get(env.JOB)}
    with open(path, "x", encoding="utf-8") as file:
        try:
            file.write(json.dumps(owner) + "\n")
            file.flush()
        except OSError:
            path.unlink()
            raise


def newest_claim(run_dir: Path) -> int:
    """The number of the newest attempt, begun or only claimed; 0 when there is none."""
    folders = [folder for folder in (run_dir / "attempts").iterdir() if folder.name.isdigit()]
    # An empty directory belongs to nobody: its maker was killed before it created the lock.
    return max((int(folder.name) for folder in folders if any(folder.iterdir())), default=0)


def refuse_if_running(run_dir: Path, n: int) -> None:
    """Makes sure that attempt `n` is over; the table above says when."""
    folder = run_dir / "attempts" / str(n)
    if (folder / "end.json").exists():
        return
    owner = owner_of(folder)
    lives = alive(owner)
    if lives is False:
        return
    if lives:
        raise LabError(
            f"{run_dir.name} is running on this machine already, as process {owner['pid']}. "
            "Wait for it, or stop it with Ctrl-C."
        )
    if is_of_this_job(owner, run_dir) or was_seen_over(run_dir, n):
        return
    silent_s = disk_time_unix_s(folder.parent) - last_sign_unix_s(folder)
    if silent_s < SILENT_S:
        host = owner.get("host", "another machine")
        minutes = min(SILENT_S, SILENT_S - silent_s) // 60 + 1
        raise LabError(
            f"{run_dir.name} is running on {host}: it gave a sign of life "
            f"{max(0, silent_s):.0f} s ago. Wait for it, or stop it there. "
            f"If {host} is down, type the same again in {minutes:.0f} minutes."
        )


def owner_of(attempt_dir: Path) -> ProcessFacts:
    """The process that owns an attempt; empty when its lock is not written yet."""
    lock = read_advisory(attempt_dir / LOCK, ProcessFacts)
    return lock or read_advisory(attempt_dir / "start.json", StartRecord) or {}


def is_of_this_job(owner: ProcessFacts, run_dir: Path) -> bool:
    """Whether the job that started this process for the run in `run_dir` started the owner too.

    So did an earlier chunk of its chain, which is over when this one starts.
    """
    job = os.environ.get(env.JOB)
    if job is None or os.environ.get(env.RUN_DIR) != str(run_dir):
        return False
    variables = owner.get("variables") or {}
    jobs_of_owner = {owner.get("job"), variables.get(env.JOB)}
    if env.CHUNK in os.environ and (run_dir / CHUNK_JOBS).exists():
        return not jobs_of_owner.isdisjoint((run_dir / CHUNK_JOBS).read_text().split())
    return job in jobs_of_owner


def was_seen_over(run_dir: Path, n: int) -> bool:
    """Whether attempt `n` was over when the job that begins the next one was sent."""
    job = run_record(run_dir).get("job") or {}
    return job.get("attempt") == n + 1


def last_sign_unix_s(attempt_dir: Path) -> float:
    """When an attempt last showed that it lives, by the clock of its disk."""
    signs = [attempt_dir / name for name in ("heartbeat", LOCK, "start.json")]
    times = [sign.stat().st_mtime for sign in signs if sign.exists()]
    return max(times, default=attempt_dir.stat().st_mtime)


def disk_time_unix_s(folder: Path) -> float:
    """The time by the clock that stamps files in `folder`: on NFS the server's."""
    with tempfile.TemporaryFile(dir=folder) as file:
        return os.fstat(file.fileno()).st_mtime


def is_superseded(run_dir: Path, n: int) -> bool:
    """Whether another process has claimed the attempt after `n`."""
    return (run_dir / "attempts" / str(n + 1) / LOCK).exists()


def withdraw_claim(run_dir: Path, n: int) -> None:
    """Gives attempt `n`, which has not begun, back as if nobody had claimed it."""
    if is_superseded(run_dir, n):
        return
    folder = run_dir / "attempts" / str(n)
    # In one step: the next process that claims the number gets a directory of its own.
    hidden = folder.with_name(f".withdrawn-{n}-{os.getpid()}")
    os.rename(folder, hidden)
    shutil.rmtree(hidden, ignore_errors=True)


@contextmanager
def in_use(run_dir: Path) -> Iterator[None]:
    """Says in the directory of a run that this process reads it, as long as the block runs."""
    lock = run_dir / f"{USED}{os.getpid()}-{os.urandom(3).hex()}"
    has_lock = False
    # On a full or read-only disk a run can be read as well.
    with suppress(OSError):
        for other in run_dir.glob(f"{USED}*"):
            if alive(read_advisory(other) or {}) is False:
                other.unlink()
        create_lock(lock)
        has_lock = True
    try:
        yield
    finally:
        if has_lock:
            with suppress(OSError):
                lock.unlink()


def is_claimed(run_dir: Path) -> bool:
    """Whether a process has the newest attempt of a run, or reads the run.

    One elsewhere counts until it was silent for too long.
    """
    if (run_dir / "attempts").is_dir():
        newest = run_dir / "attempts" / str(newest_claim(run_dir))
        is_open = newest.is_dir() and not (newest / "end.json").exists()
        if is_open and may_live(owner_of(newest), last_sign_unix_s(newest), SILENT_S):
            return True
    locks = run_dir.glob(f"{USED}*")
    return any(
        may_live(read_advisory(lock) or {}, lock.stat().st_mtime, LONGEST_USE_S) for lock in locks
    )


def may_live(owner: ProcessFacts, last_sign_unix_s: float, longest_silence_s: float) -> bool:
    """Whether a process lives, or is elsewhere and gave a sign of life lately."""
    lives = alive(owner)
    if lives is None:
        return time.time() - last_sign_unix_s < longest_silence_s
    return lives
