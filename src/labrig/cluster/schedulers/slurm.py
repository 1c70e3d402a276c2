"""Slurm. Seen: 22.05 with two nodes; options as in https://slurm.schedmd.com/sbatch.html."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..scheduler_command import output_of, run_scheduler_command
from .scheduler import EndedJob, ListedJob, Scheduler
from .site_draft import WITHOUT_GPUS, SiteDraft, queue_entry

STILL_THERE = ("PENDING", "RUNNING", "COMPLETING", "REQUEUED", "SUSPENDED")
GPU_TYPE = re.compile(r"gpu:(?:([a-z]\w*):)?(\d+)")  # of sinfo's GRES: gpu:v100:4(S:0-1)
SETTINGS = re.compile(
    r"^(?:SLURM_VERSION|PreemptMode|SelectType|TaskPlugin|AccountingStorageEnforce) .*$", re.M
)


def read_scontrol(text: str, job_id: str) -> EndedJob | None:
    """One job of `scontrol show job`; None when it is not over."""
    match = re.search(r"JobState=(\S+) Reason=(.*?) Dependency=", text)
    if not match or match[1] in STILL_THERE:
        return None
    nodes = re.search(r"^ +NodeList=(\S+)", text, re.MULTILINE)
    reason = match[2].replace(" ", "_")
    return EndedJob([match[1], reason], "" if not nodes or nodes[1] == "(null)" else nodes[1])


def read_sacct(text: str, job_id: str) -> EndedJob | None:
    """State|nodes of a job in the first line, of its steps in the next."""
    rows = [line.split("|") for line in text.splitlines() if "|" in line]
    if not rows:
        return None
    states = [row[0].partition(" ")[0] for row in rows]  # CANCELLED by 1000
    of_steps = ["OUT_OF_MEMORY"] if "OUT_OF_MEMORY" in states else []
    return EndedJob([states[0], *of_steps], rows[0][1])


class Slurm(Scheduler):
    name = "slurm"
    found_by = "sbatch"
    launcher = "srun"
    variables = r"SLURM_|SBATCH_|SRUN_|SALLOC_"
    kept_variables = ("SLURM_CONF",)

    submit_command = ("sbatch", "--parsable")
    options = (
        "--job-name={name}",
        "--nodes={nodes}",
        "--ntasks-per-node={tasks_per_node}",
        "--cpus-per-task={cpus_per_task}",
        "--time={time}",
        "--signal=B:USR2@{lead_s}",
        "--requeue",
        "--open-mode=append",
    )
    optional = {
        "account": ("--account={account}",),
        "queue": ("--partition={queue}",),
        "mem": ("--mem={mem}",),
        "qos": ("--qos={qos}",),
        "constraint": ("--constraint={constraint}",),
        "exclude": ("--exclude={exclude}",),
        "mail": ("--mail-user={mail}", "--mail-type=END,FAIL"),
        "after": ("--dependency=afterok:{after}", "--kill-on-invalid-dep=yes"),
        "reservation": ("--reservation={reservation}",),
    }
    log = "--output={run_dir}/job.log"
    shell_command = ("srun", "--job-name=lab-shell")
    shell_without = ("--signal", "--requeue", "--open-mode", "--job-name")
    shell_end = ("--pty", "bash", "-l")

    array = ("--array=0-{last}%{throttle}",)
    array_log = "--output={run_dir}/array/%a.log"
    array_id = "{number}_{index}"
    chain = ("--dependency=afterany:{job}",)
    requeue_methods = ("scontrol", "none")

    template = "slurm.sh"
    prefix = "#SBATCH "
    job_id = "$SLURM_JOB_ID"
    index = "${SLURM_ARRAY_TASK_ID:-0}"

    list_command = ("squeue", "--me", "--noheader", "--array", "--format=%i|%T|%r|%M|%S")
    waiting = r"PENDING|REQUEUE|SPECIAL_EXIT"
    reasons = {
        "Priority": "jobs with a higher priority are ahead",
        "Resources": "next in line; waiting for nodes to become free",
        "Dependency": "waiting for the job it depends on",
        "DependencyNeverSatisfied": "the job it depends on failed, so it will never start; lab cancel it",
        "BeginTime": "requeued; Slurm waits about two minutes before it starts again",
        "JobArrayTaskLimit": "the array's throttle; starts when one of its runs ends",
        "QOSMaxJobsPerUserLimit": "you run as many jobs as the QoS allows",
        "QOSMaxSubmitJobPerUserLimit": "you have queued as many jobs as the QoS allows",
        "AssocGrpGRES": "the account uses as many GPUs as it may",
        "AssocGrpBillingMinutes": "the account's hours are used up",
        "PartitionTimeLimit": "asks for more time than the partition gives; it will never start",
        "PartitionNodeLimit": "asks for more nodes than the partition has; it will never start",
        "ReqNodeNotAvail": "the nodes are reserved or down",
        "JobHeldUser": "held by you; scontrol release it",
        "JobHeldAdmin": "held by the administrators; ask them",
        "JobLaunchFailure": "could not be launched; the site's fault, ask its help desk",
        "launch failed requeued held": "its node could not launch it, so it is held; ask the site's help desk",
    }
    start_command = ("squeue", "--start", "--noheader", "--format=%S", "--jobs={id}")
    cancel_command = ("scancel", "{id}")
    end_questions = (
        (("scontrol", "show", "job", "{id}"), read_scontrol),
        # which needs accounting
        (
            ("sacct", "--noheader", "--parsable2", "--format=State,NodeList", "--jobs={id}"),
            read_sacct,
        ),
    )
    ends = {
        "TIMEOUT": "killed at its time limit (job.time), before it had saved",
        "OUT_OF_MEMORY": "out of memory; ask for more with job.mem, or load less at a time",
        "NODE_FAIL": "its node failed ({nodes}); what was saved can be resumed",
        "BOOT_FAIL": "its node did not start ({nodes}); submit it again",
        "DEADLINE": "its deadline passed",
        "PREEMPTED": "a job with a higher priority took its nodes",
        "CANCELLED": "cancelled with scancel, or by the administrators",
        "JobLaunchFailure": "its node could not launch it ({nodes}); the site's fault, ask its help desk",
    }
    number_command = ("squeue", "--noheader", "--format=%A", "--jobs={id}")
    in_job_command = (
        "srun",
        "--jobid={number}",
        "--overlap",
        "--mem=0",
        "--nodes={nodes}",
        "--ntasks={nodes}",
        "--ntasks-per-node=1",
        "--cpus-per-task=1",
    )

    def read_jobs(self, answer: str) -> Iterator[ListedJob]:
        """Lines of squeue: id|state|reason|elapsed|start."""
        for line in answer.splitlines():
            job_id, state, reason, elapsed, start = line.split("|")
            is_estimate = reason in ("Resources", "Priority") and start != "N/A"
            start_minute = start[:16].replace("T", " ") if is_estimate else ""
            yield ListedJob(job_id, state, reason, elapsed, start_minute)

    def draft_site(self) -> SiteDraft:
        partitions = read_partitions()
        profile: dict[str, Any] = {"queues": queues_of(partitions)}
        profile |= gpus_of(partitions)
        profile["resources"] = [
            WITHOUT_GPUS,
            {"gpus": "any", "options": ["--gres=gpu:{gpus}"]},
        ]
        profile["requeue"] = {"method": "scontrol", "lead_s": 120, "max": 50}
        settings = SETTINGS.findall(run_scheduler_command("scontrol", "show", "config"))
        return SiteDraft(profile, [*settings, *account_notes()])


@dataclass(frozen=True)
class Partition:
    """A line of sinfo. `time_limit`: in Slurm's words, such as 1-00:00:00, 30:00 or infinite."""

    name: str
    is_default: bool
    time_limit: str
    gpus: list[tuple[str, int]]  # type and number on one node
    cpus: int  # of one node, at least


def read_partitions() -> list[Partition]:
    """The partitions that are up, the default one first; one entry for each kind of node."""
    partitions = []
    answer = run_scheduler_command("sinfo", "--noheader", "--format=%P|%a|%l|%G|%c")
    for line in answer.splitlines():
        name, state, time_limit, gres, cpus = line.split("|")
        if state != "up":
            continue
        partitions.append(
            Partition(
                name=name.rstrip("*"),
                is_default="*" in name,
                time_limit=time_limit,
                gpus=[(kind or "gpu", int(n)) for kind, n in GPU_TYPE.findall(gres)],
                cpus=int(cpus.rstrip("+")),
            )
        )
    return sorted(partitions, key=lambda partition: not partition.is_default)


def queues_of(partitions: list[Partition]) -> list[dict[str, Any]]:
    """The section `queues` of a profile."""
    queues: dict[str, dict[str, Any]] = {}
    for partition in partitions:
        entry = queue_entry(partition.name, "--partition={queue}", partition.time_limit)
        queue = queues.setdefault(partition.name, entry)
        if not partition.gpus:
            queue["max_gpus"] = 0
    return list(queues.values())


def gpus_of(partitions: list[Partition]) -> dict[str, Any]:
    """The sections `gpu` and `job` of a profile; nothing where no node has a GPU."""
    names = set()
    per_node = []
    cpus_per_gpu = []
    for partition in partitions:
        for kind, n_gpus in partition.gpus:
            names.add(kind)
            per_node.append(n_gpus)
            cpus_per_gpu.append(partition.cpus // n_gpus)
    if not names:
        return {}
    return {
        "gpu": {"name": "/".join(sorted(names)), "per_node": max(per_node)},
        "job": {"gpus": 1, "cpus_per_gpu": min(cpus_per_gpu)},
    }


def account_notes() -> list[str]:
    """The user's accounts with their QoS; or why Slurm does not say."""
    user = f"user={os.environ.get('USER', '')}"
    answer = output_of("sacctmgr", "-nP", "show", "assoc", user, "format=account,qos")
    return [f"account|QoS {line}" for line in answer.splitlines()]
