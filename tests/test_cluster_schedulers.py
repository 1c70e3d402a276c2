"""What schedulers answer, and what a job must not inherit."""

import json
from pathlib import Path

import pytest
from myproj.lab.cluster import scheduler
from myproj.lab.cluster.job_state import JobState
from myproj.lab.cluster.job_variables import clean_environment
from myproj.lab.cluster.local import scheduler_of
from myproj.lab.cluster.request import Request
from myproj.lab.config.overrides import sweep_points
from myproj.lab.errors import Failed, LabError

REQUEST = Request(
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
            "pjm", "[INFO] PJM 0000 pjsub Job 77 submitted.\n", ["77[0]", "77[1]"],
            "H,JOB_ID,ST,ELAPSE\n,77[0],RUN,0000:10:00\n,77[1],QUE,0000:00:00\n",
            {"77[0]": JobState("running", "", 600), "77[1]": JobState("queued", "QUE")},
        ),
    ],
    ids=["slurm", "pbs", "pjm"],
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


def test_a_shell_has_the_resources_of_a_job():
    request = Request(
        **vars(REQUEST) | {"options": ["--gres=gpu:1", "--requeue", "--comment=a b", "-l h_rt=60"]}
    )
    command = scheduler_of("slurm").shell_command(request)
    assert command == [
        "srun", "--job-name=lab-shell", "--gres=gpu:1", "--comment=a b", "-l", "h_rt=60", "--pty", "bash", "-l",
    ]  # fmt: skip
    assert scheduler_of("local").shell_command(request) == ["bash", "-l"]
