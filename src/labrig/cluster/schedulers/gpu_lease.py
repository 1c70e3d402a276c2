"""GPUs of a machine without a scheduler: a job waits in line for them, and leases them until it ends.

Each GPU has a file in a directory that all users of the machine share, named by its UUID. Whoever
holds the lock (flock) on the file has the GPU. The kernel frees a lock when its process ends, killed
or not, so a lease never outlives its job. The jobs that wait have a file each, locked too, with a
number and what they want. Who holds fewer GPUs comes first, then whose last job began longest ago,
then who came first. A job passes those before it only where the first of them starts no later.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import pwd
import re
import stat
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from ... import env
from ...errors import LabError, Refused
from ...machine.gpu import Gpu, gpus
from .job import log_of

POLL_S = 2.0
PLACE = re.compile(r"[0-9]{12,}")  # a file of the line
DEFAULT_DIRECTORY = "/var/tmp/lab-gpus"  # the same for all users of the machine


@dataclass(frozen=True)
class Lease:
    """Who has a GPU, as the file of the GPU says; for people to read."""

    user: str
    pid: int
    run_id: str
    since_unix_s: float
    ends_unix_s: float | None = None  # at the latest, by the job's time limit


@dataclass(frozen=True)
class Wish:
    """What a job in line waits for.

    Args:
        need_MB: free memory that each GPU must have; None: half of its own.
        limit_s: the job's time limit.
    """

    n_gpus: int
    need_MB: int | None = None
    limit_s: float | None = None


@dataclass(frozen=True)
class Waiting:
    """A job in line: its number, whose it is, and what it wants."""

    number: int
    user: str
    wish: Wish


def lease_directory() -> Path:
    """The directory of the leases, which every user of the machine may write to."""
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
    if not path.exists():
        with NamedTemporaryFile(dir=path.parent) as new, suppress(FileExistsError):
            os.fchmod(new.fileno(), 0o666)
            os.link(new.name, path)  # for all users from its first moment, whatever the umask
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
def place_in_line(line: Path, wish: Wish) -> Iterator[int]:
    """A number in the line, as long as the block runs."""
    while True:
        number = max(numbers(line), default=0) + 1
        path = line / f"{number:012}"
        try:
            new = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
        except FileExistsError:
            continue
        os.fchmod(new, 0o644)  # those behind it must be able to look, whatever the umask
        os.write(new, json.dumps(asdict(wish)).encode())
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
    return [int(name) for name in os.listdir(line) if PLACE.fullmatch(name)]


def waiting_jobs(line: Path) -> list[Waiting]:
    """The living jobs in line, in the order in which they came."""
    jobs = [read_place(line / f"{number:012}") for number in sorted(numbers(line))]
    return [job for job in jobs if job is not None]


def read_place(path: Path) -> Waiting | None:
    """A job in line; None when its process has ended, or what it wants cannot be read yet."""
    if not is_locked(path):
        return None
    try:
        wish = Wish(**json.loads(path.read_text(encoding="utf-8")))
        return Waiting(int(path.name), user_name(path.stat().st_uid), wish)
    except (OSError, ValueError, TypeError):
        return None


def in_order(jobs: list[Waiting], leases: list[Lease], held: list[Lease]) -> list[Waiting]:
    """Jobs in the order in which they are served.

    Args:
        leases: the last lease of each GPU.
        held: those of them that have not ended.
    """
    n_held = Counter(lease.user for lease in held)
    last_unix_s: dict[str, float] = {}
    for lease in leases:
        last_unix_s[lease.user] = max(lease.since_unix_s, last_unix_s.get(lease.user, 0.0))
    return sorted(
        jobs, key=lambda job: (n_held[job.user], last_unix_s.get(job.user, 0.0), job.number)
    )


def may_start(
    number: int,
    order: list[Waiting],
    all_gpus: list[Gpu],
    held: dict[str, Lease],
    now_unix_s: float,
) -> bool:
    """Whether a job in line may lease GPUs now: it is the first, or the first starts no later for it.

    Args:
        order: of `in_order`.
        held: the leases that have not ended, by the UUID of their GPU.
    """
    first = order[0]
    if first.number == number:
        return True
    mine = next((job.wish for job in order if job.number == number), None)
    if mine is None or mine.limit_s is None:
        return False
    ends = sorted(
        held[gpu.uuid].ends_unix_s or math.inf if gpu.uuid in held else now_unix_s
        for gpu in all_gpus
        if gpu.memory_MB >= (first.wish.need_MB or 0)
    )
    if len(ends) < first.wish.n_gpus:
        return True  # this machine cannot serve it now
    start_of_first = ends[first.wish.n_gpus - 1]
    if now_unix_s + mine.limit_s <= start_of_first < math.inf:
        return True
    n_left = sum(end <= start_of_first for end in ends) - first.wish.n_gpus
    return start_of_first < math.inf and mine.n_gpus <= n_left


def wait_for_gpus(
    wish: Wish,
    run_id: str,
    *,
    ask_gpus: Callable[[], list[Gpu]] = gpus,
    sleep: Callable[[float], None] = time.sleep,
) -> list[Gpu]:
    """Leases GPUs for this process when it is its turn and they are free; waits until then.

    Args:
        run_id: whom they are for; shown by `lab top`.
    """
    directory = lease_directory()
    with place_in_line(directory / "line", wish) as number:
        while True:
            leased = try_to_lease(directory, number, wish, run_id, ask_gpus())
            if leased:
                return leased
            sleep(POLL_S)


def try_to_lease(
    directory: Path, number: int, wish: Wish, run_id: str, all_gpus: list[Gpu]
) -> list[Gpu]:
    """The GPUs that a job in line may have now; none while others come first, or too few are free."""
    deciding = lock(directory / "deciding")  # one at a time, so that two do not both fill a gap
    if deciding is None:
        return []
    try:
        last = {gpu.uuid: lease for gpu in all_gpus if (lease := last_lease(gpu))}
        held = {uuid: lease for uuid, lease in last.items() if is_locked(directory / uuid)}
        jobs = waiting_jobs(directory / "line")
        order = in_order(jobs, list(last.values()), list(held.values()))
        if not may_start(number, order, all_gpus, held, time.time()):
            return []
        return lease_gpus(directory, wish, run_id, all_gpus)
    finally:
        os.close(deciding)


def wait_for_turn(
    folder: Path, n_turns: int, *, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Takes one of the turns of a job array, which this process and its children keep.

    So the rest of a long array does not stand in line before the jobs of others.
    """
    folder.mkdir(exist_ok=True)
    while all(lock(folder / str(turn)) is None for turn in range(n_turns)):
        sleep(POLL_S)


def lease_gpus(directory: Path, wish: Wish, run_id: str, all_gpus: list[Gpu]) -> list[Gpu]:
    """Free GPUs, with the most free memory first, now leased; none when too few are free."""
    files: dict[int, int] = {}
    leased: list[Gpu] = []
    for gpu in sorted(all_gpus, key=lambda gpu: -gpu.free_MB):
        if len(leased) == wish.n_gpus:
            break
        needed_MB = gpu.memory_MB // 2 if wish.need_MB is None else wish.need_MB
        if gpu.free_MB < needed_MB or gpu.is_in_use:  # a smaller one behind it may be idle
            continue
        file = lock(directory / gpu.uuid)
        if file is not None:
            files[gpu.index] = file
            leased.append(gpu)
    if len(leased) < wish.n_gpus:
        for file in files.values():
            os.close(file)
        return []
    now_unix_s = round(time.time(), 3)
    ends_unix_s = None if wish.limit_s is None else now_unix_s + wish.limit_s
    lease = Lease(user_name(os.getuid()), os.getpid(), run_id, now_unix_s, ends_unix_s)
    for file in files.values():
        write_lease(file, lease)
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
    return last_lease(gpu) if is_locked(path_of(gpu)) else None


def path_of(gpu: Gpu) -> Path:
    return Path(os.environ.get(env.GPU_LEASES, DEFAULT_DIRECTORY)) / gpu.uuid


def last_lease(gpu: Gpu) -> Lease | None:
    """Who has or had a GPU; None when nobody ever leased it."""
    path = path_of(gpu)
    try:
        facts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8", errors="replace"))
        return Lease(**facts)
    except (OSError, ValueError, TypeError):  # just being written, or by another version
        return None


def main(words: list[str]) -> None:
    """Waits for GPUs, then becomes the job script, which sees only them.

    Args:
        words: number of GPUs, free MB that each needs ("" for half of its own), the time limit in
            seconds, how many runs of an array may hold GPUs or stand in line at once ("" for a
            single job), job script.
    """
    n_gpus, need_MB, limit_s, turns, script = words
    log = log_of(Path(script), int(os.environ[env.INDEX]))
    with open(log, "a", encoding="utf-8") as file:
        os.dup2(file.fileno(), sys.stderr.fileno())  # nobody else hears of an error here
    try:
        if turns:
            wait_for_turn(Path(script).parent / "turns", int(turns))
        wish = Wish(int(n_gpus), int(need_MB) if need_MB else None, float(limit_s))
        leased = wait_for_gpus(wish, log.parent.name)
    except LabError as error:
        sys.exit(f"lab: {error}")
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(str(gpu.index) for gpu in leased)
    os.execvp("bash", ["bash", script])


if __name__ == "__main__":
    main(sys.argv[1:])
