"""Grid Engine. Seen: Son of Grid Engine 8.1.9; Univa's and Altair's read the same options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from .command import answer_of, run_scheduler_command
from .job import JobRequest
from .scheduler import EndedJob, ListedJob, Scheduler
from .site_draft import WITHOUT_GPUS, SiteDraft, queue_entry

GPU_RESOURCE = re.compile(r"^(\S*gpu\S*)\s", re.M | re.I)  # of qconf -sc: its first column


def read_qacct(text: str, job_id: str) -> EndedJob | None:
    """The entry of a job, or of one task of an array, in Grid Engine's accounting."""
    task = job_id.partition(".")[2] or "undefined"
    for block in re.split(r"^=+$", text, flags=re.MULTILINE):
        facts = dict(re.findall(r"^(\w+) +(.*?) *$", block, re.MULTILINE))
        if facts.get("taskid") == task:
            code, _, meaning = facts.get("failed", "0").partition(":")
            return EndedJob([code.strip()], facts.get("hostname", ""), meaning.strip())
    return None


class GridEngine(Scheduler):
    name = "gridengine"
    found_by = "qconf"
    variables = r"PE_|SGE_TASK|JOB_ID|JOB_NAME|RESTARTED|NSLOTS"

    submit_command = ("qsub", "-terse")
    run_id_option = "-N {name}.{run_id}"
    sent_command = ("qstat", "-u", "{user}", "-xml")
    options = (
        "-S /bin/bash",
        "-cwd",
        "-j y",
        "-r y",
        "-notify",  # USR2 before a kill
        "-l h_rt={time}",
    )
    optional = {
        "account": ("-P {account}",),
        "queue": ("-q {queue}",),
        "mail": ("-M {mail}", "-m ea"),
        "after": ("-hold_jid {after}",),
        "reservation": ("-ar {reservation}",),
    }
    gpu_type_example = "-l gpu_type={gpu_type}"
    log = "-o {run_dir}/job.log"
    shell_command = ("qrsh",)
    shell_without = ("-S", "-cwd", "-j", "-r", "-N", "-notify")

    array = ("-t 1-{n}", "-tc {throttle}")
    piece = ("-t", "{first}-{last}", "-tc", "{throttle}")
    array_log = "-o {run_dir}/array/$TASK_ID.log"
    array_id = "{number}.{index}"
    first_index = 1
    chain = ("-hold_jid", "{job}")
    after = ("-hold_jid", "{jobs}")
    waits_for_arrays = True
    requeue_methods = ("exit99", "resubmit", "none")
    resubmit_array = 'qsub -t "$((LAB_INDEX + 1))"'

    prefix = "#$ "
    job_id = "${JOB_ID:+${JOB_ID}_$LAB_INDEX}"
    index = "$((${SGE_TASK_ID/undefined/1} - 1))"
    host_variable = "PE_HOSTFILE"

    list_command = ("qstat", "-u", "{user}", "-g", "d", "-xml")
    waiting = r".*[wq]"
    reasons = {
        "in error": "in error; qstat -j tells why, qmod -cj clears it",
        "held": "held: by qhold, which qrls takes back, or until another job ends",
    }
    standing = {r"d?[hR]*[sST]": "suspended: qmod -usj resumes it, or ask the site"}
    cancel_command = ("qdel", "{id}")
    end_questions = ((("qacct", "-j", "{number}"), read_qacct),)
    ends = {  # by the number of `failed`; for the others Grid Engine's own words are shown
        "8": "the site's prolog failed ({nodes}); ask its help desk",
        "26": "its log could not be opened on {nodes}; do nodes see that disk?",
        "37": "killed at its limit of time (job.time) or memory (job.mem)",
        "100": "killed from outside, by qdel or for more memory than it asked for (job.mem)",
    }

    def directives(
        self, request: JobRequest, run_dir: Path, n_runs: int, throttle: int
    ) -> list[str]:
        """As for every scheduler, but with a name that Grid Engine takes."""
        named = replace(request, name=valid_name(request.name))
        return super().directives(named, run_dir, n_runs, throttle)

    def read_jobs(self, answer: str) -> Iterator[ListedJob]:
        """XML of qstat; it says neither why a job waits nor how long it has run."""
        for job in ElementTree.fromstring(answer).iter("job_list"):
            number = job.findtext("JB_job_number", "")
            task = job.findtext("tasks", "")
            state = job.findtext("state", "")
            yield ListedJob(
                job_id=f"{number}.{task}" if task else number,
                state=state,
                reason=reason_of_state(state),
                elapsed="",
            )

    def read_sent(self, answer: str) -> Iterator[tuple[str, str]]:
        for job in ElementTree.fromstring(answer).iter("job_list"):
            yield job.findtext("JB_job_number", ""), job.findtext("JB_name", "")

    def draft_site(self) -> SiteDraft:
        names = run_scheduler_command("qconf", "-sql").split()
        profile: dict[str, Any] = {
            "queues": [queue_of(name) for name in names],
            "resources": [WITHOUT_GPUS],
            "requeue": {"method": "exit99", "lead_s": 120, "max": 50},
        }
        gpu_resources = GPU_RESOURCE.findall(answer_of("qconf", "-sc"))
        notes = [f"resource {name}: qconf -sc" for name in gpu_resources]
        if gpu_resources:
            profile["resources"].append(
                {"gpus": "any", "options": [f"-l {gpu_resources[0]}={{gpus}}"]}
            )
        environments = answer_of("qconf", "-spl").split()
        notes += [f"parallel environment {name}" for name in environments]
        notes.append(
            "Several nodes, or several cores, need a parallel environment or a resource type of the"
            ' site: add it to resources, as options: ["-pe NAME {n_tasks}"]'
        )
        return SiteDraft(profile, notes)


def reason_of_state(state: str) -> str:
    """Why a job waits, as far as the letters of its state say it."""
    if "E" in state:
        return "in error"
    return "held" if "h" in state else "waiting"


def valid_name(name: str) -> str:
    """The name of a job without what Grid Engine refuses: a digit in front, and some signs."""
    name = re.sub(r"[\s/:@\\*?,]", "_", name)
    return f"job-{name}" if name[:1].isdigit() else name


def queue_of(name: str) -> dict[str, Any]:
    """An entry of `queues`, from the definition of the queue."""
    definition = run_scheduler_command("qconf", "-sq", name)
    hard_limit = re.search(r"^h_rt\s+(\S+)", definition, re.M)
    return queue_entry(name, "-q {queue}", hard_limit[1] if hard_limit else "")
