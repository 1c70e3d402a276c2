"""What a host answers, with the form that it must have: the host may be another than we believe."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, Required, TypedDict

from ..errors import Failed
from ..record.files.forms import ID_OF_RUN, RunId, UnixTime, matches, problem_in
from ..record.files.schema import JobId, RunStatus

# The last two parts become the place here: runs/<trial>/<run id>.
RUN_DIRECTORY = matches(
    rf"/(?:(?!\.\.?/)[^/\0\n]+/)*[\w+][\w.+-]*/(?:{ID_OF_RUN})",
    "the absolute path of a run's directory",
)


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
