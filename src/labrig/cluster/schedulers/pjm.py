"""PJM of Fujitsu. Never run: options as users' guides of Fugaku and Wisteria give them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .command import answer_of
from .scheduler import ListedJob, Scheduler
from .site_draft import WITHOUT_GPUS, SiteDraft, unread_notes

# A line of pjstat --rsc: a name, with its state or with groups below it, which no job may name
GROUP = re.compile(r"^([a-z][\w-]*)(?:\s+\[\s*ENABLE.*)?\s*$", re.M)


class PJM(Scheduler):
    name = "pjm"
    experimental = True
    found_by = "pjsub"
    launcher = "mpiexec"
    variables = r"PJM_"

    submit_command = ("pjsub",)
    # [INFO] PJM 0000 pjsub Job 12345 submitted.  Of a step job 12345_0, 12345_1 and so on.
    answer = r"pjsub Job (\d+(?:_\d+)?) submitted"
    run_id_option = "-N {name:.40}.{run_id}"  # PJM takes 63 characters
    sent_command = ("pjstat", "-E", "--data", "--choose", "jid,jnam")
    options = ("-L elapse={time}", "-j")
    optional = {
        "account": ("-g {account}",),
        "queue": ("-L rscgrp={queue}",),
        "mail": ("-m e --mail-list {mail}",),
    }
    gpu_type_example = "-L rscgrp={gpu_type}"
    log = "-o {run_dir}/job.log"
    shell_command = ("pjsub", "--interact")
    shell_without = ("-j",)

    array = ("--bulk --sparam 0-{last}",)
    piece = ("--bulk", "--sparam", "{first}-{last}")
    array_log = "-o {run_dir}/array/%b.log"
    array_id = "{number}[{index}]"
    chain = ("--step", "--sparam", "jid={job}")  # its steps run one after the other
    first_of_chain = ("--step",)
    whole_array = ""  # no --step with --bulk
    resubmit_array = 'pjsub --bulk --sparam "$LAB_INDEX-$LAB_INDEX"'

    prefix = "#PJM "
    job_id = "${PJM_JOBID:+${PJM_JOBID}_$LAB_INDEX}"
    index = "${PJM_BULKNUM:-0}"
    host_variable = "PJM_O_NODEINF"

    list_command = ("pjstat", "-E", "--data", "--choose", "jid,st,elp")
    waiting = r"[^R]"
    cancel_command = ("pjdel", "{id}")

    def read_jobs(self, answer: str) -> Iterator[ListedJob]:
        """Lines of pjstat: ,id,state,elapsed below a head."""
        for line in answer.splitlines():
            words = [word.strip() for word in line.split(",")]
            if len(words) >= 4 and words[1][:1].isdigit():
                _, job_id, state, elapsed, *_ = words
                yield ListedJob(job_id, state, state, elapsed)

    def draft_site(self) -> SiteDraft:
        """What PJM answers; what is otherwise than expected becomes a note."""
        answer = answer_of("pjstat", "--rsc")
        names = list(dict.fromkeys(GROUP.findall(answer)))
        profile: dict[str, Any] = {
            "queues": [{"name": name, "option": "-L rscgrp={queue}"} for name in names],
            "resources": [
                WITHOUT_GPUS | {"options": ["-L node={nodes}", "--mpi proc={n_tasks}"]},
                {"gpus": "any", "max_nodes": 1, "options": ["-L gpu={gpus}"]},
            ],
            "launcher": "mpiexec",
            "launcher_options": ['-machinefile "$PJM_O_NODEINF"'],
            "requeue": {"method": "none", "lead_s": 120, "max": 0},
        }
        notes = [] if names else unread_notes("pjstat --rsc", answer)
        notes += [f"limit {line}" for line in answer_of("pjstat", "--limit").splitlines()]
        notes.append("PJM does not say how long a job may be: add max_h to each of queues")
        return SiteDraft(profile, notes)
