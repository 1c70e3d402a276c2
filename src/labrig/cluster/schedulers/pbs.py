"""PBS Pro and OpenPBS. Never run: options as its guides give them, answers as they document them."""

from __future__ import annotations

import getpass
import json
from collections.abc import Iterator
from typing import Any

from .command import answer_of
from .scheduler import ListedJob, Scheduler
from .site_draft import WITHOUT_GPUS, SiteDraft, queue_entry, unread_notes

QUEUES = ("qstat", "-Q", "-f", "-F", "json")
NODES = ("pbsnodes", "-a", "-F", "json")


class PBS(Scheduler):
    name = "pbs"
    experimental = True
    found_by = "pbsnodes"  # its qsub has the name of Grid Engine's
    variables = r"PBS_"
    kept_variables = ("PBS_CONF_FILE", "PBS_EXEC", "PBS_HOME", "PBS_SERVER")

    submit_command = ("qsub",)
    sent_command = ("qstat", "-f", "-F", "json")  # the path of the log has the id of the run
    options = ("-S /bin/bash", "-N {name:.15}", "-l walltime={time}", "-j oe", "-k oed", "-r y")
    optional = {
        "account": ("-P {account}",),
        "queue": ("-q {queue}",),
        "mail": ("-M {mail}", "-m ae"),
        "after": ("-W depend=afterok:{after}",),
        "reservation": ("-q {reservation}",),
    }
    reservation_is_queue = True
    gpu_type_example = "-l gpu_model={gpu_type}"
    log = "-o {run_dir}/job.log"
    shell_command = ("qsub", "-I")
    shell_without = ("-S", "-j", "-k", "-r", "-N")

    array = ("-J 0-{last}%{throttle}",)
    piece = ("-J", "{first}-{last}%{throttle}")
    piece_of_one = ("-J", "{first}-{next}:2")  # PBS refuses arrays of one
    array_log = "-o {run_dir}/array/^array_index^.log"
    array_id = "{number}[{index}]"
    chain = ("-W", "depend=afterany:{job}")
    whole_array = "{number}[]"
    after = ("-W", "depend={jobs}")
    after_ok = "afterok:{job}"
    after_end = "afterany:{job}"
    waits_for_arrays = True
    # this index alone
    resubmit_array = 'qsub -J "$LAB_INDEX-$((LAB_INDEX + 1)):2"'

    prefix = "#PBS "
    job_id = """$(echo "${PBS_JOBID%%.*}" | tr -d ']' | tr '[' _)"""
    index = "${PBS_ARRAY_INDEX:-0}"
    host_variable = "PBS_NODEFILE"

    list_command = ("qstat", "-t", "-f", "-F", "json")
    waiting = r"[^REBS]"
    cancel_command = ("qdel", "{id}")

    def read_jobs(self, answer: str) -> Iterator[ListedJob]:
        """JSON of qstat, with the jobs of all users, and with those that ended (F, X)."""
        for job_id, job in json.loads(answer or "{}").get("Jobs", {}).items():
            owner = job.get("Job_Owner", "").partition("@")[0]
            if owner != getpass.getuser() or job["job_state"] in "FX":
                continue
            yield ListedJob(
                job_id=job_id.partition(".")[0],
                state=job["job_state"],
                reason=job.get("comment", ""),
                elapsed=job.get("resources_used", {}).get("walltime", ""),
            )

    def read_sent(self, answer: str) -> Iterator[tuple[str, str]]:
        for job_id, job in json.loads(answer or "{}").get("Jobs", {}).items():
            yield job_id, job.get("Output_Path", "")

    def draft_site(self) -> SiteDraft:
        """What PBS answers; what is no JSON becomes a note."""
        notes: list[str] = []
        queues = queues_of(ask(QUEUES, "Queue", notes))
        nodes = [
            node.get("resources_available", {}) for node in ask(NODES, "nodes", notes).values()
        ]
        n_gpus = max((int(node.get("ngpus", 0)) for node in nodes), default=0)
        select = "-l select={nodes}:mpiprocs={tasks_per_node}"
        profile: dict[str, Any] = {
            "queues": queues,
            "resources": [WITHOUT_GPUS | {"options": [select]}],
            "requeue": {"method": "none", "lead_s": 120, "max": 0},
        }
        if n_gpus:
            with_gpus = [node for node in nodes if int(node.get("ngpus", 0)) == n_gpus]
            cpus = min(int(node.get("ncpus", 1)) for node in with_gpus)
            profile["gpu"] = {"per_node": n_gpus}
            profile["job"] = {"gpus": 1, "cpus_per_gpu": max(1, cpus // n_gpus)}
            chunk = "-l select={nodes}:ngpus={gpus}:mpiprocs={tasks_per_node}"
            profile["resources"].append({"gpus": "any", "options": [chunk]})
        return SiteDraft(profile, notes)


def ask(command: tuple[str, ...], section: str, notes: list[str]) -> dict[str, Any]:
    """A section of what a command answers in JSON; an answer of another kind is added to `notes`."""
    answer = answer_of(*command)
    try:
        return json.loads(answer)[section]
    except (ValueError, KeyError, TypeError):
        notes += unread_notes(" ".join(command), answer)
        return {}


def queues_of(queues: dict[str, Any]) -> list[dict[str, Any]]:
    """The section `queues`: those that are open, and that a job may name."""
    entries = []
    for name, queue in queues.items():
        is_closed = "False" in (queue.get("enabled"), queue.get("started"))
        if is_closed or queue.get("from_route_only") == "True":
            continue
        limits = queue.get("resources_max", {})
        entry = queue_entry(name, "-q {queue}", str(limits.get("walltime", "")))
        if "nodect" in limits:
            entry["max_nodes"] = int(limits["nodect"])
        if "ngpus" in limits:
            entry["max_gpus"] = int(limits["ngpus"])
        entries.append(entry)
    return entries
