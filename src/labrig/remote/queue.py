"""`lab queue`: the jobs of this machine, and those that it sent to hosts."""

from __future__ import annotations

import time

from ..cluster.queue import DEFAULT_POLL_S, print_queue, watches
from ..cluster.queue import queue_command as queue_here
from ..project import Project
from .ask import Hosts
from .sent import SENDING, SENT, Sent, all_sent


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
        print("\n".join(f"  {line}" for line in answer.queue.splitlines()))
    for sent in submissions:
        if sent.state == SENDING:
            print(
                f"run {sent.id} has not arrived on {sent.host}."
                f" Type the same command again, or: lab cancel {sent.id}"
            )
        elif sent.state == SENT and not sent.is_open:
            words = ", ".join(f"{run_id} is {word}" for run_id, word in sent.statuses.items())
            print(f"{words}. Its record: lab runs pull", flush=True)
