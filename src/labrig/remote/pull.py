"""`lab runs pull`: fetches the records of runs that were sent to hosts."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
from pathlib import Path

from ..errors import Failed, LabError
from ..project import Project
from ..record.status import ENDED
from .ask import Hosts
from .connection import Connection, LostConnection
from .sent import SENDING, SENT, Sent, all_sent, find_sent

CHECKPOINTS = "checkpoints"


def pull_command(project: Project, args: list[str]) -> None:
    """Fetches the runs that have ended, and says of the others how they are.

    Raises:
        LabError: a run that was named was not sent from here.
        Failed: a host does not answer, or a copy failed; what was fetched stays.
    """
    parser = argparse.ArgumentParser(
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
    """The run that `word` means.

    Raises:
        LabError: it was not sent from here.
    """
    sent_run = find_sent(project, word)
    if sent_run is None:
        raise LabError(f"no run {word!r} was sent from here with on=HOST. Yours: lab runs list")
    return sent_run


def is_wanted(project: Project, sent: Sent, options: argparse.Namespace) -> bool:
    """Whether something of a submission may be missing here."""
    return sent.is_open or any(is_missing(project, job, options.checkpoints) for job in sent.jobs)


def is_missing(project: Project, job: dict, checkpoints: bool) -> bool:
    target = target_of(project, job)
    return not target.exists() or (checkpoints and not (target / CHECKPOINTS).exists())


def target_of(project: Project, job: dict) -> Path:
    """Where a run of a host lies here: below this machine's root, under the same trial."""
    run_dir_there = Path(job["run_dir"])
    return project.paths.runs / run_dir_there.parent.name / run_dir_there.name


def pull_run(project: Project, hosts: Hosts, sent: Sent, job: dict, checkpoints: bool) -> bool:
    """Fetches one run, if it has ended and is not here; whether something came.

    Raises:
        Failed: the copy broke off; nothing half stays.
    """
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
        fetch(connection, job["run_dir"], target, f"--exclude=./{CHECKPOINTS}")
    if checkpoints and not (target / CHECKPOINTS).exists():
        fetch(connection, f"{job['run_dir']}/{CHECKPOINTS}", target / CHECKPOINTS)
    return True


def fetch(connection: Connection, source: str, target: Path, *options: str) -> None:
    """Copies a directory of the host to `target`, which appears when all of it is here.

    Raises:
        LostConnection: the connection broke.
        Failed: tar failed on one of the two sides.
    """
    staging = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    send = shlex.join(["tar", "-C", f"{source}/", *options, "-cf", "-", "."])
    try:
        with subprocess.Popen(connection.command(send), stdout=subprocess.PIPE) as sender:
            unpack = ["tar", "-C", str(staging), "-xf", "-"]
            code = subprocess.run(unpack, stdin=sender.stdout).returncode
            if sender.stdout:
                sender.stdout.close()
        if sender.returncode:
            connection.check(sender.returncode)
        if code:
            raise Failed(
                f"{source} of {connection.host.name} could not be written to "
                f"{staging}. Is the disk full? Then again: lab runs pull"
            )
        os.rename(staging, target)
    except LostConnection as error:
        raise LostConnection(
            f"{error}; what was fetched before stays. Again: lab runs pull"
        ) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
