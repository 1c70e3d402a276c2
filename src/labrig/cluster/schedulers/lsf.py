"""IBM Spectrum LSF. Never run: options and answers as its command reference gives them, version 10.1.

https://www.ibm.com/docs/en/spectrum-lsf/10.1.0?topic=lsf-command-reference
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .command import answer_of, run_scheduler_command
from .job import OUT_OF_MEMORY, OUT_OF_TIME, JobRequest
from .scheduler import EndedJob, ListedJob, Scheduler
from .site_draft import WITHOUT_GPUS, SiteDraft

FIELDS = "jobid jobindex stat run_time pend_reason exit_reason exec_host"
RUN_LIMIT = re.compile(r"^ *RUNLIMIT *\n *([\d.]+) min", re.M)  # of bqueues -l


def read_records(answer: str) -> list[dict[str, str]]:
    """The records of `bjobs -json`; none where it says in words that there is no job."""
    try:
        return json.loads(answer)["RECORDS"]
    except (ValueError, KeyError, TypeError):
        return []


def id_of(record: dict[str, str]) -> str:
    """12, or 12[3] for a run of an array."""
    index = record.get("JOBINDEX", "0")
    return record["JOBID"] if index in ("", "0") else f"{record['JOBID']}[{index}]"


def read_end(answer: str, job_id: str) -> EndedJob | None:
    """A job of `bjobs -json` that is over; LSF forgets it after an hour or so."""
    for record in read_records(answer):
        if id_of(record) == job_id and record["STAT"] in ("DONE", "EXIT"):
            # TERM_RUNLIMIT: job killed after reaching LSF run time limit
            word, _, text = record.get("EXIT_REASON", "").partition(":")
            return EndedJob([word], record.get("EXEC_HOST", ""), text.strip())
    return None


class LSF(Scheduler):
    name = "lsf"
    experimental = True
    found_by = "bsub"
    variables = r"LSB_|LSF_|LS_"
    kept_variables = ("LSF_ENVDIR", "LSF_BINDIR", "LSF_LIBDIR", "LSF_SERVERDIR")

    submit_command = ("bsub",)
    run_id_option = '-Jd "{run_id}"'
    sent_command = ("bjobs", "-a", "-json", "-o", "jobid job_description")
    reads_standard_input = True  # of a script that is an argument bsub reads no directives
    answer = r"Job <(\d+)> is submitted"  # Job <12345> is submitted to queue <normal>.
    options = (
        '-J "{name}"',
        "-n {n_cores}",  # slots, of which LSF gives a core each
        '-R "span[ptile={cores_per_node}]"',
        "-W {time_min}",
        "-r",
        "-Q 99",  # a job that ends with this code is queued again
    )
    optional = {
        "account": ("-P {account}",),
        "queue": ("-q {queue}",),
        "mem": ("-M {mem}", '-R "rusage[mem={mem}]"'),  # a limit alone reserves nothing
        "mail": ("-u {mail}", "-N"),
        "after": ('-w "done({after})"', "-ti"),
        "reservation": ("-U {reservation}",),
    }
    gpu_type_options = {'-gpu "num={gpus}': '-gpu "num={gpus}:gmodel={gpu_type}'}
    gpu_type_example = "-R select[gpu_model0=={gpu_type}]"
    log = "-o {run_dir}/job.log"
    shell_command = ("bsub", "-Is")
    shell_without = ("-J", "-r", "-Q", "-o")
    shell_end = ("bash", "-l")

    array = ('-J "{name}[1-{n}]%{throttle}"',)
    piece = ("-J", "{name}[{first}-{last}]%{throttle}")
    array_log = "-o {run_dir}/array/%I.log"
    array_id = "{number}[{index}]"
    first_index = 1
    chain = ("-w", "ended({job})")
    after = ("-w", "{jobs}", "-ti")
    after_ok = "done({job})"
    after_end = "ended({job})"
    after_joint = " && "
    requeue_methods = ("exit99", "none")

    prefix = "#BSUB "
    job_id = "${LSB_JOBID:+${LSB_JOBID}_$LAB_INDEX}"
    index = "$((${LSB_JOBINDEX:-0} > 0 ? LSB_JOBINDEX - 1 : 0))"  # 0 in a job that is no array
    host_variable = "LSB_DJOB_HOSTFILE"

    list_command = ("bjobs", "-json", "-o", FIELDS)
    waiting = r"PEND|PSUSP|WAIT|PROV"
    cancel_command = ("bkill", "{id}")
    end_questions = ((("bjobs", "-a", "-json", "-o", FIELDS, "{id}"), read_end),)
    ends = {
        "TERM_RUNLIMIT": OUT_OF_TIME,
        "TERM_MEMLIMIT": OUT_OF_MEMORY,
        "TERM_PREEMPT": "a job with a higher priority took its nodes",
        "TERM_OWNER": "cancelled with bkill",
        "TERM_ADMIN": "cancelled by the administrators",
        "TERM_FORCE_OWNER": "cancelled with bkill",
        "TERM_FORCE_ADMIN": "cancelled by the administrators",
    }

    def directives(
        self, request: JobRequest, run_dir: Path, n_runs: int, throttle: int
    ) -> list[str]:
        """As for every scheduler, but the name and the size of an array are one option."""
        lines = super().directives(request, run_dir, n_runs, throttle)
        if n_runs == 1:
            return lines
        return [line for line in lines if line != f'-J "{request.name}"']

    def read_jobs(self, answer: str) -> Iterator[ListedJob]:
        """JSON of bjobs; its run_time is "36 second(s)"."""
        for record in read_records(answer):
            yield ListedJob(
                job_id=id_of(record),
                state=record["STAT"],
                reason=record.get("PEND_REASON", "").strip(),
                elapsed=record.get("RUN_TIME", "").partition(" ")[0],
            )

    def read_sent(self, answer: str) -> Iterator[tuple[str, str]]:
        for record in read_records(answer):
            yield record["JOBID"], record.get("JOB_DESCRIPTION", "")

    def draft_site(self) -> SiteDraft:
        """What LSF says of its queues; it does not say what a node has."""
        queues = []
        for block in re.split(r"^QUEUE: ", run_scheduler_command("bqueues", "-l"), flags=re.M)[1:]:
            limit = RUN_LIMIT.search(block)
            queue: dict[str, Any] = {"name": block.split()[0], "option": "-q {queue}"}
            if limit:
                queue["max_h"] = float(limit[1]) / 60
            queues.append(queue)
        profile: dict[str, Any] = {
            "queues": queues,
            "resources": [WITHOUT_GPUS, {"gpus": "any", "options": ['-gpu "num={gpus}"']}],
            "requeue": {"method": "exit99", "lead_s": 120, "max": 50},
        }
        hosts = answer_of("bhosts", "-gpu", "-w").splitlines()[:10]
        return SiteDraft(profile, [f"bhosts -gpu: {line}" for line in hosts])
