"""The attempt of a command: its directory is filled before it begins, and listed when it ends.

A program finds its modules and settings next to it, and what it writes beside them stays. It is a
copy and not the frozen tree itself, which every node has in memory and deletes with the job; and not
links into that tree, through which a program would change it. When the command has ended, only what
it wrote is left: the code is in the record.
"""

from __future__ import annotations

import filecmp
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ... import env
from ...errors import Failed
from ...machine.disk import explain_disk_error
from ...project import LABEL, Project
from ...record.files.atomic import sha256
from ...record.files.schema import OutputFile, Outputs
from ...record.freeze.frozen import frozen_directory
from ...record.freeze.frozen_files import FILE_LIST
from ...record.read.attempt_files import MAX_LISTED, WORK
from ...record.read.run import Run, run_record
from ...record.write.attempt import Attempt
from ...record.write.begin import prepare_attempt, withdraw_attempt
from ..schedulers.command import command_environment

AWAIT_S = 600


# Schedulers send these to every process of a job, and most programs end by them at once.
NOT_FOR_COMMANDS = (signal.SIGUSR1, signal.SIGUSR2)


DATA = "data"  # of the project: large, and often not frozen
BYTECODE = "__pycache__"
NOT_COPIED = {env.FROZEN_LIBRARY, LABEL, FILE_LIST, BYTECODE}
HASHED_BYTES = 1_000_000_000  # that are read at the end, the smallest files first: some seconds


@dataclass(frozen=True)
class WorkDirectory:
    """Where a command runs.

    Args:
        frozen: the frozen code of this node.
        top: its copy in the directory of the run.
        project: the project in that copy, which may lie deeper in its repository.
    """

    frozen: Path
    top: Path
    project: Path

    @classmethod
    def of(cls, run_dir: Path, project: Project) -> WorkDirectory | None:
        """That of a run; None where no frozen code runs, and the command stays where it is."""
        frozen = frozen_directory()
        if frozen is None or project.frozen is None:
            return None
        inside = project.frozen.resolve().relative_to(frozen)
        return cls(frozen, run_dir / WORK, run_dir / WORK / inside)


def fill(work: WorkDirectory, project: Project) -> None:
    """Copies what of the frozen code is not there; a file that an earlier attempt changed stays.

    Raises:
        OSError: the disk is full.
    """
    for source in frozen_paths(work.frozen):
        target = work.top / source.relative_to(work.frozen)
        if os.path.lexists(target):
            continue
        if source.is_symlink():
            target.symlink_to(os.readlink(source))
        elif source.is_dir():
            target.mkdir(parents=True)
        else:
            shutil.copy2(source, target)
    link_data(project.root / DATA, work.project / DATA)


def frozen_paths(frozen: Path) -> Iterator[Path]:
    """The frozen directories, files and links, each directory before what lies in it."""
    for folder, names, files in os.walk(frozen):
        names[:] = [name for name in names if name not in NOT_COPIED]
        yield Path(folder)
        links = [name for name in names if os.path.islink(os.path.join(folder, name))]
        for name in [*links, *files]:
            if name not in NOT_COPIED:
                yield Path(folder, name)


def link_data(source: Path, target: Path) -> None:
    """Links what git ignores in `data`, where other files of it are frozen."""
    if target.is_symlink() or not target.is_dir() or not source.is_dir():
        return
    for entry in source.iterdir():
        inner = target / entry.name
        if not os.path.lexists(inner):
            inner.symlink_to(entry)
        elif entry.is_dir():
            link_data(entry, inner)


def own_files(work: WorkDirectory) -> list[Path]:
    """The regular files that the command wrote or changed, sorted; no link is followed."""
    written = []
    for folder, names, files in os.walk(work.top):
        names[:] = [name for name in names if name != BYTECODE]
        for name in files:
            path = Path(folder, name)
            if path.is_file() and not path.is_symlink() and not is_copy(path, work):
                written.append(path)
    return sorted(written)


def is_copy(path: Path, work: WorkDirectory) -> bool:
    """Whether a file or link is still as `fill` made it."""
    source = work.frozen / path.relative_to(work.top)
    if path.is_symlink():
        return source.is_symlink() and os.readlink(source) == os.readlink(path)
    if source.is_symlink() or not source.is_file():
        return False
    try:
        return filecmp.cmp(source, path, shallow=False)
    except OSError:  # it cannot be read, or is gone
        return False


def list_outputs(work: WorkDirectory, may_read: bool) -> Outputs:
    """What the command wrote, for the record.

    Args:
        may_read: whether there is time to hash it.
    """
    sizes = {}
    for path in own_files(work):
        with suppress(OSError):  # a process that the command left behind removed it
            sizes[path] = path.stat().st_size
    hashes = {}
    left_bytes = HASHED_BYTES if may_read else 0
    for path in sorted(sizes, key=lambda path: sizes[path]):
        left_bytes -= sizes[path]
        if left_bytes >= 0:
            with suppress(OSError):  # it cannot be read
                hashes[path] = sha256(path)
    files: dict[str, OutputFile] = {
        str(path.relative_to(work.top.parent)): {"bytes": size, "sha256": hashes.get(path)}
        for path, size in list(sizes.items())[:MAX_LISTED]
    }
    return {"n": len(sizes), "bytes": sum(sizes.values()), "files": files}


def remove_copies(work: WorkDirectory, project: Project) -> None:
    """Removes what `fill` made and the command left as it was, and bytecode; links are not followed."""
    for folder, names, files in os.walk(work.top, topdown=False):
        for name in [*names, *files]:
            path = Path(folder, name)
            if name == BYTECODE and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            elif path.is_symlink() or path.is_file():
                remove_copy(path, work, project)
        source = work.frozen / Path(folder).relative_to(work.top)
        if source.is_dir():
            with suppress(OSError):  # it is not empty
                os.rmdir(folder)


def remove_copy(path: Path, work: WorkDirectory, project: Project) -> None:
    """Removes one file or link, if `fill` made it."""
    is_link_to_data = (
        path.is_symlink()
        and path.is_relative_to(work.project / DATA)
        and os.readlink(path) == str(project.root / path.relative_to(work.project))
    )
    if is_link_to_data or is_copy(path, work):
        with suppress(OSError):
            path.unlink()


def start_command(command: list[str], run_dir: Path, cwd: Path | None = None) -> subprocess.Popen:
    """A process of `command` that ignores SIGUSR1 and SIGUSR2. The rank tells it to stop, by SIGTERM.

    Args:
        cwd: where it starts; None: in the current directory.

    Raises:
        OSError: it cannot be started.
    """
    environment = command_environment(run_dir)
    return subprocess.Popen(command, env=environment, cwd=cwd, preexec_fn=ignore_signals)


def ignore_signals() -> None:
    """In the new process, before the command: what is ignored stays so."""
    for signum in NOT_FOR_COMMANDS:
        signal.signal(signum, signal.SIG_IGN)


def gpu_seconds(run_dir: Path, attempt: Attempt, command: list[str]) -> float:
    """All GPUs of the job, for as long as the attempt has run; 0 for a `lab` command.

    The runs that a `lab` command makes, such as the points of a sweep, count themselves.
    """
    if Path(command[0]).name == "lab" or "labrig" in command:
        return 0.0
    record = run_record(run_dir)  # now: when it began, it was just being sent
    job = record.get("job") or {}
    return round(attempt.seconds() * job.get("nodes", 0) * job.get("gpus", 0), 3)


def join_command(project: Project, run: Run) -> Path | None:
    """Where another rank than the first starts the command, once the first has begun the attempt."""
    start = run.dir / "attempts" / os.environ[env.NEXT_ATTEMPT] / "start.json"
    end_s = time.monotonic() + AWAIT_S
    while not start.exists():
        if time.monotonic() > end_s:
            raise Failed(
                f"the first rank has not begun its attempt within {AWAIT_S} s. "
                f"Its log: lab logs {run.id}"
            )
        time.sleep(0.1)
    work = WorkDirectory.of(run.dir, project)
    return work.project if work else None


@dataclass(frozen=True)
class CommandAttempt:
    """An attempt that runs a command; the first rank records it.

    Args:
        work: where the command runs; None: in the current directory.
        is_shared: whether other ranks run in `work` too, and may still read its files at the end.
    """

    project: Project
    command: list[str]
    attempt: Attempt
    work: WorkDirectory | None
    is_shared: bool = False

    @classmethod
    def begin(
        cls, project: Project, run: Run, command: list[str], *, is_shared: bool = False
    ) -> CommandAttempt:
        """Begins the next attempt of `run`."""
        attempt = prepare_attempt(run, project)
        work = WorkDirectory.of(run.dir, project)
        try:
            if work:
                fill(work, project)
            attempt.start(command=command)
        except OSError as error:
            withdraw_attempt(attempt)
            reason = explain_disk_error(error, run.dir) or error
            raise Failed(
                f"the command cannot begin in {run.dir}: {reason}. Then lab submit again"
            ) from error
        return cls(project, command, attempt, work, is_shared)

    @property
    def cwd(self) -> Path | None:
        """Where the command starts."""
        return self.work.project if self.work else None

    def end(self, status: str, **measured: Any) -> None:
        """Records how it ended and what the command wrote, and removes the copy of the code."""
        if self.work:
            # Whoever was stopped has little time left.
            measured["outputs"] = list_outputs(self.work, may_read=status != "interrupted")
        used_s = gpu_seconds(self.attempt.run_dir, self.attempt, self.command)
        self.attempt.end(status, gpu_seconds=used_s, **measured)
        if self.work and not self.is_shared:
            remove_copies(self.work, self.project)
