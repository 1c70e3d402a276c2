"""GPUs of a machine without a scheduler: a job waits in line for them, and leases them until it ends.

Each GPU has a file in a directory that all users of the machine share, named by its UUID. Whoever
holds the lock (flock) on the file has the GPU. The kernel frees a lock when its process ends, killed
or not, so a lease never outlives its job. The jobs that wait have a file each, locked too, and a
number: who came first is served first.
"""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .. import env
from ..errors import LabError, Refused
from ..machine.gpu import Gpu, gpus
from .job_array import run_id_of

POLL_S = 2.0
DEFAULT_DIRECTORY = "/var/tmp/lab-gpus"  # the same for all users of the machine


@dataclass(frozen=True)
class Lease:
    """Who has a GPU, as the file of the GPU says; for people to read."""

    user: str
    pid: int
    run_id: str
    since_unix_s: float


def lease_directory() -> Path:
    """The directory of the leases, which every user of the machine may write to.

    Raises:
        Refused: a file, a link, or a directory that not everybody may write to, is in its place.
    """
    directory = Path(os.environ.get(env.GPU_LEASES, DEFAULT_DIRECTORY))
    for folder in (directory, directory / "line"):
        with suppress(FileExistsError):
            folder.mkdir()
            folder.chmod(0o1777)  # as /tmp: everybody writes, nobody deletes another's file
        mode = folder.lstat().st_mode
        if not stat.S_ISDIR(mode) or not os.access(folder, os.W_OK):
            raise Refused(
                f"{folder} must be a directory that every user may write to (mode 1777). "
                f"Ask its owner to delete it, or set {env.GPU_LEASES} to another one for all users"
            )
    return directory


def lock(path: Path) -> int | None:
    """The open file, locked for this process; None while another process has it.

    A program that this process becomes by `exec`, and its children, keep the lock.
    """
    # Two steps: the kernel refuses O_CREAT for a file of another user in such a directory.
    with suppress(FileExistsError):
        new = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
        os.fchmod(new, 0o666)
        os.close(new)
    file = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    os.set_inheritable(file, True)
    return file


def is_locked(path: Path) -> bool:
    """Whether a living process holds the lock of a file."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        # Shared, so that two processes that look at once do not see each other
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


@contextmanager
def place_in_line(line: Path) -> Iterator[int]:
    """A number in the line, as long as the block runs."""
    while True:
        number = max(numbers(line), default=0) + 1
        path = line / f"{number:012}"
        try:
            new = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
        except FileExistsError:
            continue
        os.fchmod(new, 0o644)  # those behind it must be able to look, whatever the umask
        os.close(new)
        file = lock(path)
        if file is not None:
            break
    try:
        yield number
    finally:
        path.unlink(missing_ok=True)
        os.close(file)


def numbers(line: Path) -> list[int]:
    return [int(name) for name in os.listdir(line) if name.isdigit()]


def n_before(line: Path, number: int) -> int:
    """How many living processes wait before this one."""
    earlier = [other for other in numbers(line) if other < number]
    return sum(is_locked(line / f"{other:012}") for other in earlier)


def wait_for_gpus(
    n: int,
    run_id: str,
    need_MB: int | None = None,
    *,
    ask_gpus: Callable[[], list[Gpu]] = gpus,
    sleep: Callable[[float], None] = time.sleep,
) -> list[Gpu]:
    """Leases n GPUs for this process, first come, first served; waits until they are free.

    Args:
        run_id: whom they are for; shown by `lab top`.
        need_MB: free memory that each of them must have, because programs without a lease use
            GPUs too; None: half of its own.
    """
    directory = lease_directory()
    with place_in_line(directory / "line") as number:
        while True:
            if n_before(directory / "line", number) == 0:
                leased = lease_gpus(directory, n, run_id, need_MB, ask_gpus())
                if leased:
                    return leased
            sleep(POLL_S)


def wait_for_turn(
    folder: Path, n_turns: int, *, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Takes one of the turns of a job array, which this process and its children keep.

    So the rest of a long array does not stand in line before the jobs of others.
    """
    folder.mkdir(exist_ok=True)
    while all(lock(folder / str(turn)) is None for turn in range(n_turns)):
        sleep(POLL_S)


def lease_gpus(
    directory: Path, n: int, run_id: str, need_MB: int | None, all_gpus: list[Gpu]
) -> list[Gpu]:
    """n free GPUs, with the most free memory first, now leased; none when fewer are free."""
    files: dict[int, int] = {}
    leased: list[Gpu] = []
    for gpu in sorted(all_gpus, key=lambda gpu: -gpu.free_MB):
        needed_MB = gpu.memory_MB // 2 if need_MB is None else need_MB
        if len(leased) == n or gpu.free_MB < needed_MB:
            break
        file = lock(directory / gpu.uuid)
        if file is not None:
            files[gpu.index] = file
            leased.append(gpu)
    if len(leased) < n:
        for file in files.values():
            os.close(file)
        return []
    for file in files.values():
        write_lease(file, Lease(user_name(os.getuid()), os.getpid(), run_id, round(time.time(), 3)))
    return leased


def user_name(uid: int) -> str:
    """The name of a user, whatever the variables say; the number where there is no name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def write_lease(file: int, lease: Lease) -> None:
    os.ftruncate(file, 0)
    os.pwrite(file, json.dumps(asdict(lease)).encode(), 0)


def read_lease(gpu: Gpu) -> Lease | None:
    """Who has a GPU; None when nobody has leased it."""
    path = Path(os.environ.get(env.GPU_LEASES, DEFAULT_DIRECTORY)) / gpu.uuid
    if not is_locked(path):
        return None
    try:
        facts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8", errors="replace"))
        return Lease(**facts)
    except (OSError, ValueError, TypeError):  # just being written, or by another version
        return None


def main(words: list[str]) -> None:
    """Waits for GPUs, then becomes the job script, which sees only them.

    Args:
        words: number of GPUs, free MB that each needs ("" for half of its own), how many runs of
            an array may hold GPUs or stand in line at once ("" for a single job), job script.
    """
    n_gpus, need_MB, turns, script = words
    try:
        if turns:
            wait_for_turn(Path(script).parent / "turns", int(turns))
        run_id = run_id_of(Path(script), int(os.environ[env.INDEX]))
        leased = wait_for_gpus(int(n_gpus), run_id, int(need_MB) if need_MB else None)
    except LabError as error:
        sys.exit(f"lab: {error}")
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(str(gpu.index) for gpu in leased)
    os.execvp("bash", ["bash", script])


if __name__ == "__main__":
    main(sys.argv[1:])
