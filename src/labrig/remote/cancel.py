"""`lab cancel`: of runs here, and of those that were sent to hosts."""

from __future__ import annotations

from ..cluster.cancel import cancel_command as cancel_here
from ..cluster.cancel import runs_to_cancel
from ..errors import Failed
from ..project import Project
from .ask import Hosts
from .sent import SENDING, Sent, file_of, find_elsewhere


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
        if hosts.answers[sent.host].submissions[sent.id].jobs is None:
            file_of(hosts.project, sent.id).unlink(missing_ok=True)
            print(f"{run_id} has not arrived on {sent.host}, and is forgotten here")
            return
    if hosts.show(sent, "cancel", run_id):
        raise Failed(f"{sent.host} did not cancel {run_id}, see above. Again: lab cancel {run_id}")
