"""`lab submit on=HOST`: freezes the code here, and has the host submit it.

What was begun is noted first (sent.py). So the same command after a lost connection names the same
run id, and the host answers with the job that it has.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import sys
from dataclasses import asdict, dataclass
from typing import Any

from ..cluster.submit.command import MAX_PRINTED, json_of, parse_arguments
from ..cluster.submit.plan import points_of
from ..config.compose import Composition
from ..config.compose_points import compose_points
from ..config.overrides import sweep_points
from ..errors import Failed, LabError, NotComparable, Refused
from ..project import Project
from ..record.write.create import new_run_id
from .connection import Connection, Host, connect, host_of
from .place import LocalData, Race, SentCode, freeze, local_data, prepare
from .receive import SentRequest, submitted_of
from .sent import (
    REMOTE,
    SENDING,
    SENT,
    Sent,
    SubmitAnswer,
    all_sent,
    file_of,
    keep,
    read_answer,
    unanswered,
)

ERRORS: dict[int, type[LabError]] = {
    error.exit_code: error for error in (LabError, Failed, NotComparable, Refused)
}


@dataclass(frozen=True)
class Submission:
    """What is sent to each host.

    Args:
        args: what was typed after `lab submit`, without on=.
    """

    args: list[str]
    points: list[Composition]
    frozen: SentCode
    data: dict[str, LocalData]


def submit_to_hosts(
    project: Project, names: list[str], settings: list[str], command: list[str] | None
) -> None:
    """Sends one submission to each host of `names`; with several, the first that starts continues."""
    hosts = [host_of(name) for name in dict.fromkeys(names)]
    submission = compose_submission(project, settings, command, len(hosts))
    sent = pending(project, submission, hosts) or new_submissions(project, submission, hosts)
    lost = [host.name for host in hosts if not send_to(project, submission, host, sent, hosts)]
    if lost:
        raise Failed(
            f"it is not known whether {' and '.join(lost)} has the job.\n"
            "Type the same command again: it finds the job that was sent, and sends no second one."
        )
    print_sent(sent, parse_arguments(settings).json)


def compose_submission(
    project: Project, settings: list[str], command: list[str] | None, n_hosts: int
) -> Submission:
    """Checks what was typed, and freezes the code."""
    chosen = parse_arguments(settings)
    if chosen.if_changed:
        raise LabError(
            "--if-changed compares with the runs here, and on= sends a run elsewhere. Leave one out"
        )
    # The profile of the site may be on the host only.
    overrides = [word for word in chosen.overrides if not word.startswith("site=")]
    typed = sweep_points(overrides)
    points = points_of(project, overrides, command) if command else compose_points(project, typed)
    if n_hosts > 1 and (len(points) > 1 or chosen.each):
        raise LabError("on= with several hosts sends one run. For a list, name one host.")
    frozen = freeze(project, points, chosen.allow)
    data = {} if command else local_data(points)
    args = settings if command is None else [*settings, "--", *command]
    return Submission(args, points, frozen, data)


def request_key(submission: Submission, hosts: list[Host]) -> str:
    """The same for the same command with the same code."""
    facts = [submission.args, submission.frozen.code["tree"], [host.name for host in hosts]]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def pending(project: Project, submission: Submission, hosts: list[Host]) -> dict[str, Sent] | None:
    """The submissions of the same command, when a host has not answered yet."""
    key = request_key(submission, hosts)
    for host in hosts:
        waiting = unanswered(project, key, host.name)
        if waiting:
            print(f"lab: sending run {waiting.id} again", file=sys.stderr)
            ids = (waiting.id, *waiting.rivals)
            return {sent.host: sent for sent in all_sent(project) if sent.id in ids}
    return None


def new_submissions(project: Project, submission: Submission, hosts: list[Host]) -> dict[str, Sent]:
    """Notes what is about to be sent, before any host hears of it."""
    key = request_key(submission, hosts)
    ids = {host.name: new_run_id() for host in hosts}
    sent = {}
    for host in hosts:
        rivals = [run_id for name, run_id in ids.items() if name != host.name]
        new = Sent(ids[host.name], host.name, key, rivals=rivals)
        sent[host.name] = keep(project, new)
    return sent


def send_to(
    project: Project,
    submission: Submission,
    host: Host,
    sent: dict[str, Sent],
    hosts: list[Host],
) -> bool:
    """Sends to one host, unless it has answered; whether it has answered now.

    `sent` gets what the host said.
    """
    if sent[host.name].state == SENT:
        return True
    try:
        with connect(host) as connection:
            place, python = prepare(connection, project, submission.frozen)
            python = [*python, "labrig"]
            mine = keep(project, sent[host.name], state=SENDING, place=place, python=python)
            sent[host.name] = mine
            answer = hand_over(connection, mine, request_to(host, hosts, submission, sent))
    except LabError as error:
        if sent[host.name].state == SENDING:
            print(f"lab: {error}", file=sys.stderr)
            return False
        forget(project, sent, host)
        raise type(error)(
            f"{error}\nNothing was sent to {host.name}. Correct this, and type the same command again."
        ) from error
    if "error" in answer:
        forget(project, sent, host)
        error_class = ERRORS.get(answer.get("exit_code", 2), LabError)
        raise error_class(f"{host.name}: {answer['error']}")
    sent[host.name] = keep(project, mine, state=SENT, jobs=answer["jobs"])
    if not answer["jobs"]:
        file_of(project, mine.id).unlink()
    return True


def forget(project: Project, sent: dict[str, Sent], host: Host) -> None:
    """Removes the notes of a command after which `host` has no job.

    They stay when another host has one, or may have: the same command then sends what is missing.
    """
    others = [one for name, one in sent.items() if name != host.name]
    if not any(one.state in (SENDING, SENT) for one in others):
        for one in sent.values():
            file_of(project, one.id).unlink(missing_ok=True)


def request_to(
    host: Host, hosts: list[Host], submission: Submission, sent: dict[str, Sent]
) -> SentRequest:
    """What a host is asked for."""
    return SentRequest(
        run_id=sent[host.name].id,
        args=with_site(submission.args, host),
        codes=submission.frozen.codes,
        data=submission.data,
        address=host.address,
        race=race_of(host, hosts, sent) if len(hosts) > 1 else None,
    )


def with_site(args: list[str], host: Host) -> list[str]:
    """The words with the host's site, unless one was typed."""
    if not host.site or any(word.startswith("site=") for word in args):
        return args
    return [f"site={host.site}", *args]


def race_of(host: Host, hosts: list[Host], sent: dict[str, Sent]) -> Race:
    """Where the jobs of several hosts decide which is first: on the disk of the first host."""
    judge = hosts[0]
    first = sent[judge.name]
    folder = f"{first.place}/{REMOTE}/received/{first.id}.race"
    return Race(host.name, judge.address, f"{folder}/first")


def hand_over(connection: Connection, sent: Sent, request: SentRequest) -> dict[str, Any]:
    """Has the host submit; returns its answer: the jobs, or the error after which it has none.

    Raises:
        Failed: it gave no answer, so nobody knows whether there is a job.
    """
    words = [*sent.python[:-1], f"{sent.python[-1]}.remote.receive"]
    script = f"cd {shlex.quote(sent.place)} && {shlex.join(words)}"
    lines = connection.answers(script, stdin=json.dumps(asdict(request)).encode())
    if not lines:
        raise Failed(f"{connection.host.name} gave no answer. Type the same command again")
    answer = read_answer(lines[-1], SubmitAnswer, connection.host.name)
    if "jobs" not in answer and "error" not in answer:
        raise Failed(f"{connection.host.name} gave no answer. Type the same command again")
    return answer


def print_sent(sent: dict[str, Sent], as_json: bool) -> None:
    """Prints job, run and host of each run."""
    jobs = [(name, job) for name, one in sent.items() for job in one.jobs]
    if as_json:
        print(json_of([submitted_of(job) for _, job in jobs]))
        return
    for name, job in jobs[:MAX_PRINTED]:
        print(f"job {job['job_id']}  run {job['run_id']}  on {name}")
    if len(jobs) > MAX_PRINTED:
        print(f"and {len(jobs) - MAX_PRINTED} more")
    if len(sent) > 1:
        print("the one that starts first continues; lab queue cancels the other")
    if jobs:
        print("from here: lab queue    lab logs @last -f    lab runs pull")
