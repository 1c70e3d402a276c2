"""Jobs on other machines: asked of their hosts, in `lab queue`, their logs, and their end."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from ..errors import Failed, LabError
from ..machine.text_formats import printable
from ..project import Project
from ..record.read.status import ENDED
from .connection import Connection, connect, host_of
from .sent import (
    DROPPED,
    SENDING,
    SENT,
    HostState,
    Sent,
    all_sent,
    file_of,
    find_elsewhere,
    keep,
    of_hosts,
    read_answer,
)


@contextmanager
def jobs_elsewhere(project: Project) -> Iterator[Callable[[], bool]]:
    """Gives a function that prints the jobs on each host, and says whether one is open still."""
    with Hosts(project) as hosts:

        def print_jobs() -> bool:
            submissions = open_submissions(project)
            if submissions:
                print_hosts(hosts, hosts.ask(submissions))
            return bool(open_submissions(project))

        yield print_jobs


def open_submissions(project: Project) -> list[Sent]:
    return [sent for sent in all_sent(project) if sent.is_open]


def print_hosts(hosts: Hosts, submissions: list[Sent]) -> None:
    """Prints the queue of each host, what has ended there, and what may not have arrived."""
    for name, answer in hosts.answers.items():
        print(f"on {name}:")
        print("\n".join(f"  {printable(line)}" for line in answer.queue.splitlines()))
    for sent in submissions:
        if sent.state == SENDING:
            print(
                f"run {sent.id} has not arrived on {sent.host}."
                f" Type the same command again, or: lab cancel {sent.id}"
            )
        elif sent.state == SENT and not sent.is_open:
            words = ", ".join(f"{run_id} is {word}" for run_id, word in sent.statuses.items())
            print(f"{words}. Its record: lab runs pull", flush=True)


def logs_elsewhere(project: Project, options: argparse.Namespace) -> int | None:
    """Prints what the job of a run on a host printed; None when the run is of this machine."""
    sent_run = find_elsewhere(project, options.run)
    if sent_run is None:
        return None
    sent, run_id = sent_run
    words = ["logs", run_id]
    if options.follow:
        words.append("-f")
    if options.rank is not None:
        words += ["--rank", str(options.rank)]
    if options.stacks:
        words.append("--stacks")
    with Hosts(project) as hosts:
        return hosts.show(sent, *words)


@contextmanager
def cancel_elsewhere(project: Project, names: list[str]) -> Iterator[list[str]]:
    """Gives the runs that are of this machine; at its end it ends the jobs of the others."""
    sent_runs = {name: find_elsewhere(project, name) for name in names}
    yield [name for name, sent_run in sent_runs.items() if sent_run is None]
    with Hosts(project) as hosts:
        for sent_run in filter(None, sent_runs.values()):
            cancel_there(hosts, *sent_run)


def cancel_there(hosts: Hosts, sent: Sent, run_id: str) -> None:
    """Ends the job of a run on its host; forgets one that has not arrived there."""
    if sent.state == SENDING:
        hosts.ask_host(sent.host, [sent])
        state = hosts.answers[sent.host].submissions.get(sent.id)
        if state is None or state.jobs is None:
            file_of(hosts.project, sent.id).unlink(missing_ok=True)
            print(f"{run_id} has not arrived on {sent.host}, and is forgotten here")
            return
    if hosts.show(sent, "cancel", run_id):
        raise Failed(f"{sent.host} did not cancel {run_id}, see above. Again: lab cancel {run_id}")


class Hosts:
    """The hosts that were asked, their answers, and the connections to them; `with` closes them."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.answers: dict[str, HostState] = {}
        self.connections: dict[str, Connection] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Hosts:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def connection(self, name: str) -> Connection:
        """The connection to a host.

        Raises:
            LabError: hosts.yaml has no such host, or it does not answer.
        """
        if name not in self.connections:
            self.connections[name] = self._stack.enter_context(connect(host_of(name)))
        return self.connections[name]

    def ask(self, submissions: list[Sent]) -> list[Sent]:
        """The submissions as they are now; those of a host that does not answer stay as they were.

        Of a run that was sent to several hosts, it cancels what is queued or runs behind the first.
        """
        for name, of_host in of_hosts(submissions).items():
            try:
                self.ask_host(name, of_host)
            except LabError as error:
                print(f"lab: {error}", file=sys.stderr)
        ids = [sent.id for sent in submissions]
        self.settle_races([sent for sent in all_sent(self.project) if sent.id in ids])
        return [sent for sent in all_sent(self.project) if sent.id in ids]

    def ask_host(self, name: str, submissions: list[Sent]) -> None:
        """Asks one host, and notes its jobs and their statuses.

        Raises:
            Failed: it gives no answer.
        """
        ids = [sent.id for sent in submissions]
        # The newest code knows the most; what a lost connection left may lack its answer.
        words = [*submissions[-1].python[:-1], f"{submissions[-1].python[-1]}.remote.states", *ids]
        script = f"cd {shlex.quote(submissions[-1].place)} && {shlex.join(words)}"
        connection = self.connection(name)
        lines = connection.answers(script)
        if not lines:
            address = connection.host.address
            raise Failed(f"{name} gave no answer. Find out why with: ssh {address} true")
        answer = HostState.of(read_answer(lines[-1], HostState, name))
        self.answers[name] = answer
        for sent in submissions:
            state = answer.submissions.get(sent.id)
            if state and state.jobs is not None:
                now = SENT if sent.state == SENDING else sent.state
                keep(self.project, sent, state=now, jobs=state.jobs, statuses=state.statuses)

    def settle_races(self, submissions: list[Sent]) -> None:
        """Cancels the jobs behind the one that started first."""
        for sent in submissions:
            group = [one for one in submissions if one.id in (sent.id, *sent.rivals)]
            first = self.first_of(group) if sent.rivals and sent.state == SENT else None
            if not first or first == sent.host:
                continue
            is_over = all(status in ENDED for status in sent.statuses.values())
            if is_over or self.show(sent, "cancel", *sent.run_ids) == 0:
                keep(self.project, sent, state=DROPPED)
                winner = next(one.id for one in group if one.host == first)
                print(f"run {winner} started first on {first}, so {sent.id} is over")

    def first_of(self, group: list[Sent]) -> str | None:
        """The host whose job started first: as the jobs decided, else the earlier start."""
        states = [
            (sent, self.answers[sent.host].submissions[sent.id])
            for sent in group
            if sent.host in self.answers and sent.id in self.answers[sent.host].submissions
        ]
        hosts = [sent.host for sent in group]
        for _, state in states:
            if state.first in hosts:
                return state.first
        started = [
            (state.started_unix_s, sent.host) for sent, state in states if state.started_unix_s
        ]
        return min(started)[1] if started else None

    def show(self, sent: Sent, *words: str) -> int:
        """Runs a command of `lab` on the host, with its output here; returns its exit code."""
        line = shlex.join([*sent.python, *words])
        return self.connection(sent.host).show(f"cd {shlex.quote(sent.place)} && {line}")
