"""Slurm. Seen: 22.05 with two nodes; options as in https://slurm.schedmd.com/sbatch.html."""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...errors import Failed
from .command import answer_of, run_scheduler_command
from .job import NODE_FAILED, OUT_OF_MEMORY, OUT_OF_TIME, JobRequest, Limit, Limits, lowest
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
    # a comment of the user's own replaces it; the path of the job script has the id too: %o
    run_id_option = "--comment={run_id}"
    sent_command = ("squeue", "--me", "--noheader", "--states=all", "--format=%F|%k|%o")
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
    gpu_type_options = {
        f"--{flag}={{gpus}}": f"--{flag}={{gpu_type}}:{{gpus}}"
        for flag in ("gpus-per-node", "gpus-per-task", "gpus")
    } | {"--gres=gpu:{gpus}": "--gres=gpu:{gpu_type}:{gpus}"}
    gpu_type_example = "--constraint={gpu_type}"
    log = "--output={run_dir}/job.log"
    shell_command = ("srun", "--job-name=lab-shell")
    shell_without = ("--signal", "--requeue", "--open-mode", "--job-name")
    shell_end = ("--pty", "bash", "-l")

    array = ("--array=0-{last}%{throttle}",)
    piece = ("--array={first}-{last}%{throttle}",)
    array_log = "--output={run_dir}/array/%a.log"
    array_id = "{number}_{index}"
    chain = ("--dependency=afterany:{job}",)
    after = ("--dependency={jobs}", "--kill-on-invalid-dep=yes")
    after_ok = "afterok:{job}"
    after_end = "afterany:{job}"
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
        "job requeued in held state": "requeued and held; scontrol release it",
        "PartitionDown": "its partition starts no jobs now; wait, or cancel it and set another job.queue",
        "PartitionInactive": "its partition takes no jobs; cancel it and set another job.queue",
        "QOSMaxWallDurationPerJobLimit": "asks for more time than the QoS allows; it will never start",
        "AssocMaxWallDurationPerJobLimit": "asks for more time than the account allows; it will never start",
        "QOSMax*PerJob*": "asks for more than the QoS allows one job; it will never start. Ask for less",
        "AssocMax*PerJob*": "asks for more than the account allows one job; it will never start. Ask for less",
        "QOSGrp*": "the QoS uses as much as all of its users together may; starts when others end",
        "QOSMax*": "you use as much as the QoS allows a user; starts when one of your jobs ends",
        "QOSMin*": "asks for less than the QoS wants of a job; it will never start. Ask for more",
        "AssocGrp*": "the account uses as much as it may; starts when its jobs end, or ask for more hours",
        "AssocMax*": "you use as much as the account allows a user; starts when one of your jobs ends",
        "MaxJobsPerAccount": "the account runs as many jobs as it may; starts when one of them ends",
        "JobHeldAdmin": "held by the administrators; ask them",
        "JobLaunchFailure": "could not be launched; the site's fault, ask its help desk",
        "launch failed requeued held": "its node could not launch it, so it is held; ask the site's help desk",
    }
    standing = {
        "SUSPENDED": "suspended: its time stands still; scontrol resume it, or ask the site",
        "STOPPED": "stopped: it holds its nodes; scontrol show job tells more, or ask the site",
        "COMPLETING": "it is ending",
    }
    start_command = ("squeue", "--start", "--noheader", "--format=%S", "--jobs={id}")
    cancel_command = ("scancel", "{id}")
    stacks_command = ("scancel", "--signal={signal}", "{id}")
    end_questions = (
        (("scontrol", "show", "job", "{id}"), read_scontrol),
        # which needs accounting
        (
            ("sacct", "--noheader", "--parsable2", "--format=State,NodeList", "--jobs={id}"),
            read_sacct,
        ),
    )
    ends = {
        "TIMEOUT": OUT_OF_TIME,
        "OUT_OF_MEMORY": OUT_OF_MEMORY,
        "NODE_FAIL": NODE_FAILED,
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

    def limits(self, request: JobRequest) -> Limits:
        """MaxArraySize; MaxSubmitJobs of the user's association and of the job's QoS."""
        try:
            config = run_scheduler_command("scontrol", "show", "config", timeout_s=10)
        except Failed:
            return Limits()
        settings = dict(re.findall(r"^(\w+) *= *(.*?) *$", config, re.M))
        array = None
        if settings.get("MaxArraySize", "").isdigit():
            array = Limit(int(settings["MaxArraySize"]), "MaxArraySize of Slurm")
        enforced = re.split(r"\W+", settings.get("AccountingStorageEnforce", ""))
        if not {"limits", "safe", "all"} & set(enforced):
            return Limits(array)
        return Limits(array, max_submit_jobs([*request.options, *request.submit_options]))

    def n_jobs(self, counted: str) -> int:
        options = [counted] if counted else []
        answer = run_scheduler_command(*self.list_command, *options)
        return len(list(self.read_jobs(answer)))

    def cpus_per_gpu(self, queue: str, gpu_type: str | None) -> tuple[int, str] | None:
        """The least of the nodes with such GPUs, of the partition, or else of the cluster."""
        partitions = [each for each in read_partitions() if each.gpus]
        of_queue = [
            each for each in partitions if (each.name == queue if queue else each.is_default)
        ]
        if queue and not of_queue:
            return None
        shares = [
            (each.cpus // n_gpus, each.name, each.cpus, n_gpus)
            for each in of_queue or partitions
            for kind, n_gpus in each.gpus
            if n_gpus and gpu_type in (None, kind)
        ]
        if not shares:
            return None
        cores, name, cpus, n_gpus = min(shares)
        return max(1, cores), f"as a node of {name} has {cpus} cores and {n_gpus} GPUs (sinfo)"

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


def max_submit_jobs(options: list[str]) -> Limit | None:
    """The lowest MaxSubmitJobs that counts for a job with these options; None where none is set."""
    chosen = dict(option.split("=", 1) for option in options if "=" in option)
    try:
        associations = rows_of(
            *("user", getpass.getuser(), "withassoc"),
            "format=DefaultAccount,Account,Partition,MaxSubmitJobs,DefaultQOS",
        )
        qos_limits = {
            name: number for name, number in rows_of("qos", "format=Name,MaxSubmitJobsPerUser")
        }
    except Failed:
        return None
    limits = []
    for default_account, account, partition, number, default_qos in associations:
        if account != chosen.get("--account", default_account):
            continue
        if partition not in ("", chosen.get("--partition", "")):
            continue
        qos = chosen.get("--qos", default_qos or "normal")
        limits += [
            submit_limit(
                number, f"MaxSubmitJobs of your account {account}", f"--account={account}"
            ),
            submit_limit(
                qos_limits.get(qos, ""), f"MaxSubmitJobsPerUser of QoS {qos}", f"--qos={qos}"
            ),
        ]
    return lowest(*limits)


def submit_limit(number: str, said_by: str, counted: str) -> Limit | None:
    return Limit(int(number), said_by, counted) if number.isdigit() else None


def rows_of(*question: str) -> list[list[str]]:
    """The rows of `sacctmgr show`; each has as many columns as the last word of the question names.

    Raises:
        Failed: there is no accounting.
    """
    answer = run_scheduler_command("sacctmgr", "-nP", "show", *question, timeout_s=10)
    rows = [line.split("|") for line in answer.splitlines()]
    return [row for row in rows if len(row) == question[-1].count(",") + 1]


def account_notes() -> list[str]:
    """The user's accounts with their QoS; or why Slurm does not say."""
    user = f"user={os.environ.get('USER', '')}"
    answer = answer_of("sacctmgr", "-nP", "show", "assoc", user, "format=account,qos")
    return [f"account|QoS {line}" for line in answer.splitlines()]
