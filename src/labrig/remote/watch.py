"""`lab queue`: the jobs of this machine, and those that it sent to hosts."""

from __future__ import annotations

import time

from ..cluster.watch.cancel import cancel_command as cancel_here
from ..cluster.watch.cancel import runs_to_cancel
from ..cluster.watch.logs import logs_command as logs_here
from ..cluster.watch.logs import logs_options
from ..cluster.watch.queue import DEFAULT_POLL_S, print_queue, watches
from ..cluster.watch.queue import queue_command as queue_here
from ..errors import Failed
from ..machine.terminal import printable
from ..project import Project
from .ask import Hosts
from .sent import SENDING, SENT, Sent, all_sent, file_of, find_elsewhere


def queue_command(project: Project, args: list[str]) -> None:
    """Prints the jobs here, then those of each host that has runs of this machine."""
    watch = watches(args)
    if not open_submissions(project):
        queue_here(project, args)
        return
    with Hosts(project) as hosts:
        while True:
            jobs = print_queue(project)
            submissions = hosts.ask(open_submissions(project))
            print_hosts(hosts, submissions)
            is_over = not jobs and not open_submissions(project)
            if not watch or is_over:
                return
            time.sleep(DEFAULT_POLL_S)
            print()


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


# `lab logs`: of a run here, or of one that was sent to a host.


def logs_command(project: Project, args: list[str]) -> int:
    """Prints what a run's job printed, wherever it runs.

    Raises:
        LabError: no such run, no log of it, or its host does not answer.
    """
    options = logs_options(args)
    sent_run = find_elsewhere(project, options.run)
    if sent_run is None:
        return logs_here(project, args)
    sent, run_id = sent_run
    words = ["logs", run_id]
    if options.follow:
        words.append("-f")
    if options.rank is not None:
        words += ["--rank", str(options.rank)]
    with Hosts(project) as hosts:
        return hosts.show(sent, *words)


# `lab cancel`: of runs here, and of those that were sent to hosts.


def cancel_command(project: Project, args: list[str]) -> None:
    """Ends the jobs of runs.

    Raises:
        LabError: a run has no job, or its job is over.
        Failed: a host refuses.
    """
    here = []
    elsewhere = []
    for name in runs_to_cancel(args):
        sent_run = find_elsewhere(project, name)
        if sent_run:
            elsewhere.append(sent_run)
        else:
            here.append(name)
    if here:
        cancel_here(project, here)
    if not elsewhere:
        return
    with Hosts(project) as hosts:
        for sent, run_id in elsewhere:
            cancel_there(hosts, sent, run_id)


def cancel_there(hosts: Hosts, sent: Sent, run_id: str) -> None:
    """Ends the job of a run on its host; forgets one that has not arrived there.

    Raises:
        Failed: the host refuses, or does not answer.
    """
    if sent.state == SENDING:
        hosts.ask_host(sent.host, [sent])
        state = hosts.answers[sent.host].submissions.get(sent.id)
        if state is None or state.jobs is None:
            file_of(hosts.project, sent.id).unlink(missing_ok=True)
            print(f"{run_id} has not arrived on {sent.host}, and is forgotten here")
            return
    if hosts.show(sent, "cancel", run_id):
        raise Failed(f"{sent.host} did not cancel {run_id}, see above. Again: lab cancel {run_id}")
