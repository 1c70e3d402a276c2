"""What schedulers answer, and what a job must not inherit."""

import json
import re
import string
import subprocess
from pathlib import Path

import pytest
from labrig import env
from labrig.cluster.schedulers import all_schedulers, scheduler, scheduler_names, scheduler_of
from labrig.cluster.schedulers.command import clean_environment
from labrig.cluster.schedulers.job import JobRequest, JobState
from labrig.cluster.sites.rules import OPTIONAL
from labrig.cluster.submit.script import library_template
from labrig.config.overrides import sweep_points
from labrig.errors import Failed, LabError
from labrig.record.read.find import JOB_ID

REQUEST = JobRequest(
    name="x", nodes=1, gpus=0, tasks_per_node=1, cpus_per_task=1, time_s=3600, lead_s=60
)


def test_lists_become_points_in_the_order_typed():
    assert sweep_points(["trial=wide", "seed=0,1", "optimizer.lr=1e-3,3e-4"]) == [
        ["trial=wide", "seed=0", "optimizer.lr=0.001"],
        ["trial=wide", "seed=0", "optimizer.lr=0.0003"],
        ["trial=wide", "seed=1", "optimizer.lr=0.001"],
        ["trial=wide", "seed=1", "optimizer.lr=0.0003"],
    ]
    points = sweep_points(["model.sizes=[1,2]", "seed=range(0,3)"])
    assert points[2] == ["model.sizes=[1,2]", "seed=2"]
    with pytest.raises(LabError, match=r"interval.*key=a,b,c"):
        sweep_points(["optimizer.lr=interval(0,1)"])


def test_a_job_inherits_nothing_of_the_job_it_is_sent_from(monkeypatch):
    of_the_job = (
        "SLURM_CPU_BIND",
        "SLURM_NTASKS",
        "SBATCH_PARTITION",
        "PMI_RANK",
        "LAB_RUN_DIR",
        "MASTER_PORT",
        "RANK",
        "OMP_NUM_THREADS",
        "PYTHONPATH",
    )
    of_the_user = (
        "SLURM_CONF",
        "LAB_SITE_PATH",
        "SGE_ROOT",
        "HOME",
        "PATH",
        "RANKING",
        "PYTHONNOUSERSITE",
    )
    for name in (*of_the_job, *of_the_user):
        monkeypatch.setenv(name, "x")
    clean = clean_environment()
    assert not set(of_the_job) & set(clean)
    assert set(of_the_user) <= set(clean)


PBS = {  # as qstat -t -f -F json of PBS Pro 2022 documents it
    "12.pbs1": {
        "Job_Owner": "ann@login1",
        "job_state": "R",
        "resources_used": {"walltime": "01:02:03"},
    },
    "13[2].pbs1": {
        "Job_Owner": "ann@login1",
        "job_state": "Q",
        "comment": "Not Running: too few nodes",
    },
    "14.pbs1": {"Job_Owner": "bob@login1", "job_state": "R"},
    "15.pbs1": {"Job_Owner": "ann@login1", "job_state": "F"},
}

LSF = [  # as bjobs -json of 10.1 documents it
    {"JOBID": "77", "JOBINDEX": "1", "STAT": "RUN", "RUN_TIME": "36 second(s)", "PEND_REASON": ""},
    {"JOBID": "77", "JOBINDEX": "2", "STAT": "PEND", "RUN_TIME": "0 second(s)",
     "PEND_REASON": " Job dependency condition not satisfied"},
    {"JOBID": "78", "JOBINDEX": "0", "STAT": "PSUSP"},
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "sent", "ids", "listed", "states"),
    [
        (
            "slurm", "40;cluster\n", ["40_0", "40_1"],
            "40_0|RUNNING|None|1-00:00:10|2026-11-20T18:00:00\n40_1|PENDING|Dependency|0:00|2026-11-20T19:00:00\n"
            "41|PENDING|Resources|0:00|2026-11-20T19:00:00\n",
            {"40_0": JobState("running", "", 86410), "40_1": JobState("queued", "waiting for the job it depends on"),
             "41": JobState("queued", "next in line; waiting for nodes to become free (start: 2026-11-20 19:00)")},
        ),
        (
            "pbs", "13[].pbs1\n", ["13[0]", "13[1]"], json.dumps({"Jobs": PBS}),
            {"12": JobState("running", "", 3723), "13[2]": JobState("queued", "Not Running: too few nodes")},
        ),
        (
            "lsf", "Job <77> is submitted to default queue <normal>.\n", ["77[1]", "77[2]"],
            json.dumps({"RECORDS": LSF}),
            {"77[1]": JobState("running", "", 36),
             "77[2]": JobState("queued", "Job dependency condition not satisfied"),
             "78": JobState("queued", "")},
        ),
        (
            "pjm", "[INFO] PJM 0000 pjsub Job 77 submitted.\n", ["77[0]", "77[1]"],
            "H,JOB_ID,ST,ELAPSE\n,77[0],RUN,0000:10:00\n,77[1],QUE,0000:00:00\n",
            {"77[0]": JobState("running", "", 600), "77[1]": JobState("queued", "QUE")},
        ),
    ],
    ids=["slurm", "pbs", "lsf", "pjm"],
)  # fmt: skip
def test_what_schedulers_answer_is_understood(name, sent, ids, listed, states, monkeypatch):
    def answer_with(text):
        monkeypatch.setattr(scheduler, "run_scheduler_command", lambda *command, **_: text)

    monkeypatch.setenv("LOGNAME", "ann")
    script = Path("/runs/job.sh")
    answer_with(sent)
    assert scheduler_of(name).send(REQUEST, script, 2) == ids
    answer_with(listed)
    assert scheduler_of(name).jobs() == states
    answer_with("")
    with pytest.raises(Failed, match="queued nothing"):
        scheduler_of(name).send(REQUEST, script, 1)


# What a site prints around the scheduler's own line: a wrapper, a job_submit plug-in, a message of the day.
BEFORE = "Your job asks for 2 nodes.\n2 hours are left\n8 GPUs; 3 queues\n"
AFTER = "2 nodes are charged\n30. November: no service\n"
ANSWERS = {
    "slurm": ("4711;cluster\n", "4711"),
    "pbs": ("13[].pbs1\n", "13"),
    "gridengine": ("99.1-3:1\n", "99"),
    "pjm": ("[INFO] PJM 0000 pjsub Job 77 submitted.\n", "77"),
    "lsf": ("Job <501> is submitted to queue <normal>.\n", "501"),
}
SENDING = [one for one in all_schedulers() if type(one).send is scheduler.Scheduler.send]


@pytest.mark.parametrize("one", SENDING, ids=lambda one: one.name)
def test_the_number_of_a_job_is_found_among_what_a_site_prints(one, monkeypatch, tmp_path):
    """A scheduler that is added gets a line in ANSWERS, from its manual."""
    script = tmp_path / "job.sh"
    script.write_text("")
    line, job_id = ANSWERS[one.name]
    for answer in (line, BEFORE + line, BEFORE + line + AFTER):
        monkeypatch.setattr(scheduler, "run_scheduler_command", lambda *_, said=answer, **__: said)
        assert one.send(REQUEST, script, 1) == [job_id]
    monkeypatch.setattr(scheduler, "run_scheduler_command", lambda *command, **_: "2 nodes\n")
    with pytest.raises(Failed, match="queued nothing; it answered: 2 nodes"):
        one.send(REQUEST, script, 1)


def test_a_shell_has_the_resources_of_a_job():
    request = JobRequest(
        **vars(REQUEST) | {"options": ["--gres=gpu:1", "--requeue", "--comment=a b", "-l h_rt=60"]}
    )
    command = scheduler_of("slurm").shell_words(request)
    assert command == [
        "srun", "--job-name=lab-shell", "--gres=gpu:1", "--comment=a b", "-l", "h_rt=60", "--pty", "bash", "-l",
    ]  # fmt: skip
    assert scheduler_of("local").shell_words(request) == ["bash", "-l"]


QSTAT = """<job_info><queue_info><job_list><JB_job_number>7</JB_job_number><state>{}</state>
</job_list></queue_info></job_info>"""
JOBS = {  # scheduler, its answer -> state, words of the reason
    ("slurm", "7|SUSPENDED|None|0:27|N/A"): ("running", "suspended"),
    ("slurm", "7|COMPLETING|None|0:27|N/A"): ("running", "it is ending"),
    ("slurm", "7|RUNNING|None|0:27|N/A"): ("running", ""),
    ("slurm", "7|PENDING|PartitionDown|0:00|N/A"): ("queued", "starts no jobs now"),
    ("slurm", "7|PENDING|PartitionInactive|0:00|N/A"): ("queued", "takes no jobs"),
    ("slurm", "7|PENDING|job requeued in held state|0:00|N/A"): ("queued", "scontrol release"),
    ("slurm", "7|PENDING|QOSMaxGRESPerUser|0:00|N/A"): ("queued", "the QoS allows a user"),
    ("slurm", "7|PENDING|QOSMaxCpuPerJobLimit|0:00|N/A"): ("queued", "never start"),
    ("slurm", "7|PENDING|QOSGrpCpuLimit|0:00|N/A"): ("queued", "all of its users"),
    ("slurm", "7|PENDING|AssocGrpCPUMinutesLimit|0:00|N/A"): ("queued", "the account uses"),
    ("slurm", "7|PENDING|AssocMaxJobsLimit|0:00|N/A"): ("queued", "the account allows a user"),
    ("slurm", "7|PENDING|MaxJobsPerAccount|0:00|N/A"): ("queued", "the account runs"),
    ("gridengine", QSTAT.format("hqw")): ("queued", "held"),
    ("gridengine", QSTAT.format("qw")): ("queued", "waiting"),
    ("gridengine", QSTAT.format("s")): ("running", "suspended"),
    ("gridengine", QSTAT.format("r")): ("running", ""),
}


@pytest.mark.parametrize(("name", "answer"), JOBS)
def test_every_word_of_a_job_that_stands_still_says_what_to_do(monkeypatch, name, answer):
    monkeypatch.setattr(scheduler, "run_scheduler_command", lambda *words, **_: answer)
    state, words = JOBS[name, answer]
    (job,) = scheduler_of(name).jobs().values()
    assert job.state == state
    assert words in job.reason
    assert words or not job.reason


def test_an_array_is_cancelled_by_its_number_and_single_runs_of_it_by_theirs():
    slurm = scheduler_of("slurm")
    left = {"40_0", "40_1", "41", "42_0", "42_1"}
    assert slurm.with_whole_arrays(["40_0", "40_1", "41", "42_1"], left) == ["40", "41", "42_1"]
    assert slurm.with_whole_arrays(["40_0"], set()) == ["40_0"], "nobody knows of the others"
    assert scheduler_of("pbs").with_whole_arrays(["4[0]", "4[1]"], {"4[0]", "4[1]"}) == ["4[]"]


# ---- what every class must do, also that of a plug-in

NAMES = [
    *vars(REQUEST),
    "time",
    "time_min",
    "name",
    "n_tasks",
    "n_cores",
    "cores_per_node",
    "queue",
    "account",
    *OPTIONAL,
]
OF_AN_ARRAY = ["name", "run_dir", "n", "last", "throttle"]
every = pytest.mark.parametrize("one", all_schedulers(), ids=scheduler_names())


def names_of(texts):
    return {name for text in texts for _, name, _, _ in string.Formatter().parse(text) if name}


@every
def test_the_words_of_a_scheduler_have_names_that_are_filled_in(one):
    options = [*one.options, *(option for options in one.optional.values() for option in options)]
    assert names_of(options) <= set(NAMES)
    assert names_of([one.log, one.array_log, *one.array]) <= set(OF_AN_ARRAY)
    assert names_of(one.chain) <= {"job"}
    assert names_of([one.whole_array, one.array_id]) <= {"number", "index"}
    assert names_of([*one.list_command, *one.sent_command]) <= {"user"}
    assert names_of([one.run_id_option]) <= {"name", "run_id"}
    assert names_of([*one.cancel_command, *one.start_command, *one.number_command]) <= {"id"}
    assert names_of(one.in_job_command) <= {"number", "nodes"}
    for command, read in one.end_questions:
        assert names_of(command) <= {"id", "number"}
        assert read("", "1") is None
    assert names_of(one.ends.values()) <= {"nodes"}
    assert set(one.optional) <= {"account", "queue", *OPTIONAL}


@every
def test_a_job_script_is_one_that_bash_reads(one, tmp_path):
    script = re.sub(r"@@\{(\w+)\}", "1", library_template(one.name))
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    request = JobRequest(**vars(REQUEST) | {"options": ['-J "x"']})
    assert one.directives(request, tmp_path, 1, 1)[0] == '-J "x"'
    if one.array:
        text = " ".join(one.directives(request, tmp_path, 3, 2))
        assert re.search(r"0-2|1-3", text)
        assert str(tmp_path) in text


@every
def test_the_job_and_the_index_are_known_in_a_job(one):
    variables = {
        "SLURM_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "2", "PBS_JOBID": "7[2].pbs", "PBS_ARRAY_INDEX": "2",
        "JOB_ID": "7", "SGE_TASK_ID": "3", "LSB_JOBID": "7", "LSB_JOBINDEX": "3", "PJM_JOBID": "7",
        "PJM_BULKNUM": "2",
    }  # fmt: skip
    program = f"LAB_INDEX={one.index}; JOB={one.job_id}; echo $LAB_INDEX $JOB"
    done = subprocess.run(
        ["bash", "-c", program], env=variables, capture_output=True, text=True, check=True
    )
    index, job = done.stdout.split()
    if one.name == "local":
        assert index == "0"
        assert job.isdigit()
    else:
        assert index == "2"
        assert re.match(r"7(_2)?$", job)
        own = {name for name in variables if re.match(one.variables, name)}
        assert own & set(env.JOB_IDS)


@pytest.mark.parametrize(
    "one", [one for one in all_schedulers() if one.array], ids=lambda one: one.name
)
def test_ids_of_an_array_are_told_apart(one, monkeypatch, tmp_path):
    script = tmp_path / "job.sh"
    script.write_text("")
    answer = ANSWERS[one.name][0]
    monkeypatch.setattr(scheduler, "run_scheduler_command", lambda *command, **_: answer)
    ids = one.send(REQUEST, script, 3)
    assert len(set(ids)) == 3
    assert all(JOB_ID.fullmatch(job_id) for job_id in ids)
    assert set(one.requeue_methods) <= {"scontrol", "exit99", "resubmit", "none"}


def test_an_unknown_scheduler_is_refused_with_the_known_ones():
    with pytest.raises(LabError, match=r"no scheduler slrm.*slurm.*There are: slurm, pbs"):
        scheduler_of("slrm")


def test_a_job_of_lsf_reads_its_script_from_standard_input(monkeypatch, tmp_path):
    """bsub reads directives there only; see its command reference, "Embedding bsub options"."""
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/bash\n#BSUB -W 1\n")
    program = tmp_path / "bsub"
    program.write_text(
        f'#!/bin/bash\ncat >{tmp_path}/read\necho "Job <5> is submitted to queue <q>."\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert scheduler_of("lsf").send(REQUEST, script, 1) == ["5"]
    assert (tmp_path / "read").read_text() == script.read_text()
