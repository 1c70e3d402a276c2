"""Asks the hosts how the runs are that were sent to them, and notes what they say."""

from __future__ import annotations

import shlex
import sys
from contextlib import ExitStack

from ..errors import Failed, LabError
from ..project import Project
from ..record.read.status import ENDED
from .answers import HostState, read_answer
from .connection import Connection, connect
from .hosts import host_of
from .sent import DROPPED, SENDING, SENT, Sent, all_sent, keep, of_hosts


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
