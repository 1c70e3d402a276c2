"""Jobs on other machines: in `lab queue`, their logs, and their end. cluster/watch asks for them by name."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..errors import Failed
from ..machine.terminal import printable
from ..project import Project
from .ask import Hosts
from .sent import SENDING, SENT, Sent, all_sent, file_of, find_elsewhere


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
