"""What this machine sent to hosts, one file for each submission.

The file is written before a host hears of the run. So the same command finds it after a lost
connection, and sends the same run id again, which the host answers with the job that it has.

And the form of what a host answers: it may be another than we believe.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Required, TypedDict

from ..errors import Failed, LabError
from ..machine.text_formats import and_more
from ..project import Project
from ..record.files import forms
from ..record.files.atomic import read_advisory, write_json
from ..record.files.forms import ID_OF_RUN, RunId, UnixTime, matches, problem_in
from ..record.files.schema import JobId, RunStatus
from ..record.read.find import LAST, refuse_empty
from ..record.read.rows import RUN_ID, run_directories
from ..record.read.run import run_roots
from ..record.read.status import ENDED

REMOTE = "runs/.remote"  # below the project, where git ignores it; on a host see place.py
FOLDER = f"{REMOTE}/sent"
PREPARING = "preparing"  # no host has heard of it
SENDING = "sending"  # the host has not answered yet
SENT = "sent"
DROPPED = "dropped"  # the run on another host of on=a,b started first
# The last two parts become the place here: runs/<trial>/<run id>.
RUN_DIRECTORY = matches(
    rf"/(?:(?!\.\.?/)[^/\0\n]+/)*[\w+][\w.+-]*/(?:{ID_OF_RUN})",
    "the absolute path of a run's directory",
)


@dataclass(frozen=True)
class Sent:
    """One submission to one host.

    Args:
        id: of its first run; the others have the next ids of `ids_from`.
        request: what was asked for; the same request again is a repetition until it is SENT.
        python: the words that start Python in the frozen code on the host.
        jobs: run_id, job_id, run_dir and log of each run, when the host has answered.
        rivals: ids of the submissions of the same run to other hosts.
        statuses: the last known status of each run.
    """

    id: forms.RunId
    host: str
    request: str
    state: str = PREPARING
    python: list[str] = field(default_factory=list)
    place: str = ""
    jobs: list[SentJob] = field(default_factory=list)
    rivals: list[str] = field(default_factory=list)
    statuses: dict[str, RunStatus] = field(default_factory=dict)

    @property
    def run_ids(self) -> list[str]:
        if self.state == SENDING:
            return [self.id]
        return [job["run_id"] for job in self.jobs]

    @property
    def is_open(self) -> bool:
        """Whether a run of it may still change."""
        if self.state == SENT:
            return any(self.statuses.get(run_id) not in ENDED for run_id in self.run_ids)
        return self.state == SENDING


def file_of(project: Project, submission_id: str) -> Path:
    return project.root / FOLDER / f"{submission_id}.json"


def keep(project: Project, sent: Sent, **changes: Any) -> Sent:
    """Writes a submission with some changes; returns it."""
    changed = replace(sent, **changes)
    path = file_of(project, sent.id)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, changed)
    return changed


def all_sent(project: Project) -> list[Sent]:
    """Every submission, oldest first."""
    names = sorted(os.listdir(project.root / FOLDER)) if (project.root / FOLDER).is_dir() else []
    contents = [
        read_advisory(project.root / FOLDER / name, Sent)
        for name in names
        if name.endswith(".json")
    ]
    return [_sent_of(content) for content in contents if content]


def _sent_of(content: dict[str, Any]) -> Sent:
    return Sent(**{each.name: content[each.name] for each in fields(Sent) if each.name in content})


def unanswered(project: Project, request: str, host: str) -> Sent | None:
    """The submission of this request to which the host has not answered."""
    for sent in reversed(all_sent(project)):
        is_open = sent.state in (PREPARING, SENDING)
        if is_open and (sent.request, sent.host) == (request, host):
            return sent
    return None


def find_sent(project: Project, word: str) -> tuple[Sent, str] | None:
    """The submission and run id that `word` means: an id, its beginning, @last or @last~1.

    Returns:
        None when it means a run that was made on this machine, or nothing.
    """
    refuse_empty(word)
    sent_by_run_id = {run_id: sent for sent in all_sent(project) for run_id in sent.run_ids}
    last = LAST.fullmatch(word)
    if last and not last[2]:
        n_back = int(last[1] or 0)
        here = run_ids_here(project)
        newest = sorted({*sent_by_run_id, *here}, reverse=True)[: n_back + 1]
        if len(newest) == n_back + 1 and newest[-1] in sent_by_run_id:
            return sent_by_run_id[newest[-1]], newest[-1]
        elsewhere = [run_id for run_id in newest if run_id not in here]
        if elsewhere:
            raise LabError(
                f"{word} passes over {elsewhere[0]}, which has not been fetched. "
                "Fetch it (lab runs pull), or type the id of the run"
            )
        return None
    matches = [run_id for run_id in sent_by_run_id if run_id.startswith(word)]
    if word in matches:
        matches = [word]
    if len(matches) > 1:
        ids = and_more(sorted(matches), 5)
        raise LabError(f"{word!r} means {len(matches)} runs: {ids}. Give more of the id.")
    return (sent_by_run_id[matches[0]], matches[0]) if matches else None


def find_elsewhere(project: Project, word: str) -> tuple[Sent, str] | None:
    """As `find_sent`, for a run whose record has not been fetched; None for any other."""
    sent_run = find_sent(project, word)
    return None if sent_run and sent_run[1] in run_ids_here(project) else sent_run


def run_ids_here(project: Project) -> set[str]:
    """The ids of all runs of which this machine has a record."""
    names = [Path(directory).name for directory in run_directories(*run_roots(project))]
    return set(filter(RUN_ID.fullmatch, names))


def of_hosts(sent: Sequence[Sent]) -> dict[str, list[Sent]]:
    """Submissions by their host."""
    hosts: dict[str, list[Sent]] = {}
    for one in sent:
        hosts.setdefault(one.host, []).append(one)
    return hosts


class SentJob(TypedDict, total=False):
    """One run that a host has submitted, as `lab submit --json` prints it."""

    run_id: Required[RunId]
    job_id: Required[JobId]
    run_dir: Required[Annotated[str, RUN_DIRECTORY]]
    log: str
    chain: list[JobId]


class SubmitAnswer(TypedDict, total=False):
    """What `labrig.remote.receive` prints: the jobs, or the error after which there is none."""

    jobs: list[SentJob]
    error: str
    exit_code: int


@dataclass(frozen=True)
class SubmissionState:
    """How the runs of one submission are.

    Args:
        jobs: None when it has not arrived.
        statuses: of each run, by its id.
        started_unix_s: when the first attempt of the first run began.
        first: of on=a,b: the host whose job started first; known to the first of the hosts.
    """

    jobs: list[SentJob] | None
    statuses: dict[RunId, RunStatus]
    started_unix_s: UnixTime | None
    first: str | None


@dataclass(frozen=True)
class HostState:
    """The answer of a host: its queue as text, and the state of each submission."""

    queue: str
    submissions: dict[str, SubmissionState]

    @classmethod
    def of(cls, answer: dict[str, Any]) -> HostState:
        """From an answer of this form."""
        states = {
            submission_id: SubmissionState(
                state["jobs"], state["statuses"], state["started_unix_s"], state["first"]
            )
            for submission_id, state in answer["submissions"].items()
        }
        return cls(answer["queue"], states)


def read_answer(text: str, form: Any, host: str) -> dict[str, Any]:
    """What a host answered, as an object."""
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        problem = "it is no JSON"
    else:
        problem = problem_in(answer, form)
    if problem:
        raise Failed(
            f"{host} gave an answer that lab does not understand: {problem}. "
            "Type the same again; if it stays so, look at the code there"
        )
    return answer
