"""`lab runs pull`: fetches the records of runs that were sent to hosts."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import IO

from ..command_parser import CommandParser
from ..errors import Failed, LabError
from ..machine.disk import explain_disk_error
from ..machine.text_formats import printable
from ..project import Project
from ..record.files.forms import RelativePath, problem_in
from ..record.read.run import run_record
from ..record.read.status import ENDED
from .connection import CANNOT_CONNECT, MARK, Connection, LostConnection
from .sent import SENDING, SENT, Sent, SentJob, all_sent, find_sent
from .watch import Hosts

CHECKPOINTS = "checkpoints"
MAX_PADDING_BYTES = 1 << 20  # after the end of a tar archive


def pull_command(project: Project, args: list[str]) -> None:
    """Fetches the runs that have ended, and says of the others how they are."""
    parser = CommandParser(
        prog="lab runs pull",
        description="Fetches the records of runs that were sent with on=HOST and have ended.",
    )
    parser.add_argument("run", nargs="*", help="an id or its beginning, @last (all of them)")
    parser.add_argument(
        "--checkpoints", action="store_true", help="also the checkpoints, which may be large"
    )
    options = parser.parse_args(args)
    wanted = [named_run(project, word) for word in options.run]
    ids = {run_id for _, run_id in wanted}
    submissions = [sent for sent, _ in wanted] or all_sent(project)
    submissions = [sent for sent in submissions if sent.state in (SENT, SENDING)]
    with Hosts(project) as hosts:
        n_fetched = 0
        for sent in hosts.ask([sent for sent in submissions if is_wanted(project, sent, options)]):
            for job in sent.jobs:
                if not ids or job["run_id"] in ids:
                    n_fetched += pull_run(project, hosts, sent, job, options.checkpoints)
    print(f"{n_fetched} fetched. See them: lab runs list")


def named_run(project: Project, word: str) -> tuple[Sent, str]:
    """The run that `word` means."""
    sent_run = find_sent(project, word)
    if sent_run is None:
        raise LabError(f"no run {word!r} was sent from here with on=HOST. Yours: lab runs list")
    return sent_run


def is_wanted(project: Project, sent: Sent, options: argparse.Namespace) -> bool:
    """Whether something of a submission may be missing here."""
    return sent.is_open or any(is_missing(project, job, options.checkpoints) for job in sent.jobs)


def is_missing(project: Project, job: SentJob, checkpoints: bool) -> bool:
    target = target_of(project, job)
    return not target.exists() or (checkpoints and not (target / CHECKPOINTS).exists())


def target_of(project: Project, job: SentJob) -> Path:
    """Where a run of a host lies here: below this machine's root, under the same trial."""
    run_dir_there = Path(job["run_dir"])
    return project.paths.runs / run_dir_there.parent.name / job["run_id"]


def pull_run(project: Project, hosts: Hosts, sent: Sent, job: SentJob, checkpoints: bool) -> bool:
    """Fetches one run, if it has ended and is not here; whether something came."""
    run_id = job["run_id"]
    status = sent.statuses.get(run_id, "unknown")
    if status not in ENDED:
        print(f"{run_id} is {status} on {sent.host}, and stays there until it has ended")
        return False
    if not is_missing(project, job, checkpoints):
        return False
    target = target_of(project, job)
    connection = hosts.connection(sent.host)
    if not target.exists():
        print(f"{run_id} from {sent.host}, {status}", flush=True)
        fetch(connection, job["run_dir"], target, f"--exclude=./{CHECKPOINTS}", run_id=run_id)
    if checkpoints and not (target / CHECKPOINTS).exists():
        fetch(connection, f"{job['run_dir']}/{CHECKPOINTS}", target / CHECKPOINTS)
    return True


def fetch(
    connection: Connection, source: str, target: Path, *options: str, run_id: str | None = None
) -> None:
    """Copies a directory of the host to `target`, which appears when all of it is here.

    Args:
        run_id: of the run that it must hold; None for a part of one.

    Raises:
        LostConnection: the connection broke.
        Failed: tar failed on one of the two sides, or the host sent something else.
    """
    staging = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    tar = shlex.join(["tar", "-C", f"{source}/", *options, "-cf", "-", "--", "."])
    send = f"echo {shlex.quote(BEGINS)} && exec {tar}"
    try:
        receive(connection, send, source, staging)
        if run_id and run_record(staging).get("run_id") != run_id:
            raise Failed(
                f"{source} of {connection.host.name} does not hold the record of {run_id}. "
                f"Look there: ssh {connection.host.address} ls {source}"
            )
        os.rename(staging, target)
    except LostConnection as error:
        raise LostConnection(
            f"{error}; what was fetched before stays. Again: lab runs pull"
        ) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def receive(connection: Connection, send: str, source: str, staging: Path) -> None:
    """Runs a script that prints a tar stream, and unpacks it into `staging`.

    Raises:
        LostConnection: the connection broke.
        Failed: tar failed on one of the two sides, or the host sent something else.
    """
    host = connection.host.name
    problem = None
    begins = False
    with subprocess.Popen(connection.command(send), stdout=subprocess.PIPE) as sender:
        stream = sender.stdout
        assert stream is not None  # it is a pipe
        try:
            begins = find_beginning(stream)
            if not begins:
                problem = f"{host} sent no tar archive of {source}; see above"
            else:
                for path in unpack_stream(stream, staging):
                    print(f"lab: left out, no file: {printable(path)}", file=sys.stderr)
                stream.read(MAX_PADDING_BYTES)
        except tarfile.TarError as error:
            problem = f"{host} sent a damaged tar archive of {source}: {error}"
        except OSError as error:
            problem = explain_disk_error(error, staging)
            problem = problem or f"{source} of {host} could not be written: {error.strerror}"
        stream.close()
    # A connection that broke explains a stream that was cut, and a command that failed an empty one.
    if sender.returncode == CANNOT_CONNECT or (sender.returncode and not begins):
        connection.check(sender.returncode)
    if problem:
        raise Failed(f"{problem}. Then again: lab runs pull")
    if sender.returncode:
        connection.check(sender.returncode)


# A directory that a host sends as tar, unpacked so that nothing lands outside of its place.

BEGINS = f"{MARK}tar"  # the line before the first byte; a host may print others at each login
MAX_LINES = 1000  # before it
MAX_LINE_BYTES = 10_000


def find_beginning(stream: IO[bytes]) -> bool:
    """Reads up to the line BEGINS; whether it came."""
    for _ in range(MAX_LINES):
        line = stream.readline(MAX_LINE_BYTES)
        if not line:
            return False
        if line.rstrip() == BEGINS.encode():
            return True
    return False


def unpack_stream(stream: IO[bytes], folder: Path) -> list[str]:
    """Writes the files of a tar stream into `folder`, an empty directory.

    Returns:
        The paths that it leaves out: links, which could lead anywhere, and devices.

    Raises:
        OSError: the disk is full.
    """
    left_out = []
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            name = member.name.removeprefix("./")
            if name in ("", "."):
                continue
            place = place_of(folder, name)
            place.parent.mkdir(parents=True, exist_ok=True)
            if member.isdir():
                place.mkdir(exist_ok=True)
            elif member.isreg():
                write_member(archive, member, place)
            elif member.islnk():  # two names of one file, such as last.ckpt and best.ckpt
                os.link(place_of(folder, member.linkname.removeprefix("./")), place)
            else:
                left_out.append(name)
    return left_out


def place_of(folder: Path, name: str) -> Path:
    """The place of a path of the stream."""
    problem = problem_in(name, RelativePath)
    if problem:
        raise Failed(f"the host sent a path: {problem}. Do not trust it")
    return folder / name


def write_member(archive: tarfile.TarFile, member: tarfile.TarInfo, place: Path) -> None:
    """Writes one file, with its time and whether it may be executed."""
    content = archive.extractfile(member)
    assert content is not None  # it is a regular file
    with open(place, "xb") as file:
        shutil.copyfileobj(content, file)
        if member.mode & 0o100:
            os.fchmod(file.fileno(), 0o755)
    os.utime(place, (member.mtime, member.mtime))
