"""On the host: submits what another machine has sent, once for each run id.

Started over ssh as `python -m labrig.remote.receive`, with the request on its stdin.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ..cluster.submit.command import dry_run, parse_arguments, plan_of_arguments, split_command
from ..cluster.submit.plan import Plan
from ..cluster.submit.script import script_path
from ..cluster.submit.send import Submitted, job_record
from ..cluster.submit.submit import SubmitOptions, submit_frozen
from ..errors import LabError
from ..project import Project, this_project
from ..record.files.atomic import read_advisory, write_json
from ..record.files.forms import RunId
from ..record.files.process import pid_started
from ..record.files.schema import Code
from ..record.freeze.bundle import STORE, link_bundles, store_bundles
from ..record.read.rows import run_directories
from ..record.read.run import Run, run_roots
from ..record.write.claim import owner_of
from .connection import MARK
from .place import LocalData, Race, check_data, guard
from .sent import REMOTE, SentJob, SubmitAnswer, read_answer


@dataclass(frozen=True)
class SentRequest:
    """What a machine sends.

    Args:
        run_id: of the first run.
        args: what was typed after `lab submit`, without on=.
        codes: the `code` section of the record for each trial.
        data: what the machine has of the data, by `data.path`.
        address: this host, as `ssh` calls it there.
        race: of a run that is sent to several hosts.
    """

    run_id: RunId
    args: list[str]
    codes: dict[str, Code]
    data: dict[str, LocalData]
    address: str
    race: Race | None

    @classmethod
    def from_json(cls, text: str) -> SentRequest:
        values = read_answer(text, SentRequest, "the machine that submits")
        values["data"] = {name: LocalData(**entry) for name, entry in values["data"].items()}
        values["race"] = Race(**values["race"]) if values["race"] else None
        return cls(**values)


def main() -> int:
    """Prints one line with the jobs, or with the error after which no job is queued."""
    typed = sys.stdin.read()
    # From here on the connection may break: what was begun is finished.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        request = SentRequest.from_json(typed)
        answer: dict[str, Any] = {"jobs": list(map(asdict, receive(this_project(), request)))}
    except LabError as error:
        answer = {"error": str(error), "exit_code": error.exit_code}
    with suppress(BrokenPipeError):
        print(MARK + json.dumps(answer), flush=True)
    return 0


def receive(project: Project, request: SentRequest) -> list[Submitted]:
    """Submits a request, or finds the jobs of the same request that came before.

    Raises:
        LabError: as `lab submit`; nothing was sent.
    """
    folder = project.root / REMOTE / "received"
    folder.mkdir(parents=True, exist_ok=True)
    with one_at_a_time(folder / "lock"):
        answer_file = folder / f"{request.run_id}.json"
        before: SubmitAnswer = read_advisory(answer_file, SubmitAnswer) or {}
        if "jobs" in before:
            return [submitted_of(job) for job in before["jobs"]]
        with output_in(folder / f"{request.run_id}.log"):
            submitted = send(project, request, folder)
        if submitted is None:
            return []
        write_json(answer_file, {"jobs": submitted})
        return submitted


def submitted_of(job: SentJob) -> Submitted:
    """A run that was submitted, as `lab submit` knows it here."""
    return Submitted(
        job["run_id"], job["job_id"], job["run_dir"], job.get("log", ""), job.get("chain", [])
    )


@contextmanager
def one_at_a_time(path: Path) -> Iterator[None]:
    """Waits until no other process is in such a block."""
    with open(path, "w") as file:
        with suppress(OSError):  # a disk without locks: two commands at once are rare
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def output_in(log: Path) -> Iterator[None]:
    """What this process and its children print goes to a file first, and then to where it went.

    A print to a broken connection would end the process between two steps.
    """
    with open(log, "w+b") as file:
        places = [os.dup(1), os.dup(2)]
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
        try:
            yield
        finally:
            with suppress(OSError):
                sys.stdout.flush()
                sys.stderr.flush()
            for stream, place in zip((1, 2), places, strict=True):
                os.dup2(place, stream)
                os.close(place)
            file.seek(0)
            with suppress(OSError):
                os.write(2, file.read())


def send(project: Project, request: SentRequest, folder: Path) -> list[Submitted] | None:
    """Submits a request; None for one that only asked to see the job script."""
    started = started_before(project, request.run_id)
    sending = folder / f"{request.run_id}.sending"
    nonce = secrets.token_hex(8)
    if not started:
        # From now on a job of a first try, of which nobody knows, ends when it starts.
        sending.write_text(nonce, encoding="ascii")
    settings, command = split_command(request.args)
    chosen = parse_arguments(settings)
    plan = plan_of_arguments(project, chosen, command)
    if plan is None:
        return []
    if started:
        return [note_job(plan, started)]
    if plan.trains:
        check_data(project, plan.points, request.data, request.address)
    if chosen.dry_run:
        print(dry_run(plan))
        return None
    if request.race:
        make_race_folder(request.run_id, request.race)
    plan = replace(plan, guard=guard(sending, nonce, request.race))
    options = SubmitOptions(
        why=chosen.why, batch=not chosen.no_batch, allow=chosen.allow, yes=chosen.yes
    )
    code = next(iter(request.codes.values()))
    with tempfile.TemporaryDirectory(prefix="lab-received-") as bundles:
        link_bundles(code, folder.parent / "bundles", Path(bundles))
        store_bundles(code, Path(bundles), plan.runs / STORE)
        return submit_frozen(plan, options, request.codes, Path(bundles), request.run_id)


def make_race_folder(run_id: str, race: Race) -> None:
    """On the host that judges: the directory of the link. Its name exists on no other disk."""
    folder = Path(race.link).parent
    if folder.name == f"{run_id}.race":
        folder.mkdir(exist_ok=True)


def started_before(project: Project, run_id: str) -> Path | None:
    """The directory of a run that has begun, though nobody wrote down the id of its job."""
    directories = {Path(name).name: Path(name) for name in run_directories(*run_roots(project))}
    directory = directories.get(run_id)
    return directory if directory and owner_of(directory / "attempts" / "1").get("job") else None


def note_job(plan: Plan, run_dir: Path) -> Submitted:
    """Writes the id of a job that has begun into its record."""
    lock: Any = owner_of(run_dir / "attempts" / "1")
    job_id = str(lock["job"])
    if plan.site.scheduler == "local":
        job_id = f"{job_id}-{pid_started(int(job_id))}"
    begun_unix_s = (run_dir / "run.json").stat().st_mtime
    Run.open(run_dir).update(job=job_record(plan, job_id, script_path([run_dir]), begun_unix_s))
    return Submitted(run_dir.name, job_id, str(run_dir), str(run_dir / "job.log"))


if __name__ == "__main__":
    sys.exit(main())
