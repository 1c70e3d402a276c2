"""Limits of array size and of submitted jobs: asked first, arrays split, what cannot be sent refused unrecorded.

A stand-in for Slurm answers as files say.
"""

import os
import re
from types import SimpleNamespace

import pytest
from job_scripts import ANN, request_of
from labrig.cluster.schedulers import scheduler_of
from labrig.cluster.schedulers.job import Limit
from labrig.cluster.sites.site import load_site
from labrig.cluster.submit import send
from labrig.cluster.submit.arrays import JobArray, arrays_of, divide
from labrig.errors import Failed, LabError
from labrig.project import read_yaml
from labrig.record.read.run import Run
from test_unanswered import make_run

CONFIG = """Configuration data as of 2026-11-20T19:00:01
AccountingStorageEnforce = associations,limits,qos
MaxArraySize            = 11
MaxJobCount             = 10000
"""
# as sacctmgr 22.05 answers with slurmdbd; a line that is none of its rows is left out
ASSOCIATIONS = "a notice\nlab|other||50|long\nlab|lab||3|\nlab|root|||\n"
QOS = "normal|\nlong|20\n"


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """slurm(name, text, rc): what a command of Slurm prints from now on."""
    tools = tmp_path / "tools"
    tools.mkdir()
    monkeypatch.setenv("PATH", str(tools), prepend=os.pathsep)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    def slurm(name, text="", rc=0):
        (tools / f"{name}.answer").write_text(text)
        (tools / name).write_text(f'#!/bin/sh\ncat "{tools}/{name}.answer"\nexit {rc}\n')
        (tools / name).chmod(0o755)

    slurm("scontrol", CONFIG)
    slurm("squeue")
    slurm("sacctmgr", rc=1)
    (tools / "sacctmgr").write_text(
        f'#!/bin/sh\ncase "$*" in *" qos "*) printf "{QOS}" ;; *) printf "{ASSOCIATIONS}" ;; esac\n'
    )
    return slurm


def plan_of(n_runs, throttle=8, site=None, **job):
    site = site or load_site(ANN, "slurm")
    points = [
        SimpleNamespace(overrides=["trial=wide", f"seed={seed}"], trial="wide")
        for seed in range(n_runs)
    ]
    return SimpleNamespace(
        site=site,
        request=request_of(site, n_runs=n_runs, **job),
        points=points,
        throttle=throttle,
        trains=True,
        guard="",
        after=None,
        attempt=None,
        changed=(),
    )


def site_with(**values):
    site = load_site(ANN, "slurm")
    return load_site(ANN, "slurm", read_yaml(site.path) | values)


def test_an_array_is_split_into_several_that_fit_and_share_the_throttle(slurm):
    assert arrays_of(plan_of(12, account="other")) == [JobArray(6, 4, 0, 20), JobArray(6, 4, 0, 20)]
    limit = Limit(11, "MaxArraySize of Slurm")
    assert divide(11, limit, 8) == [JobArray(11, 8)]
    assert divide(34, limit, 5) == [JobArray(9, 2), JobArray(9, 1), JobArray(8, 1), JobArray(8, 1)]
    with pytest.raises(LabError, match=r"MaxArraySize of Slurm.*\n.*job\.throttle=4"):
        divide(34, limit, 3)


def test_what_does_not_fit_now_waits_here(slurm):
    slurm("squeue", "70_1|PENDING|Priority|0:00|N/A\n")
    (array,) = arrays_of(plan_of(4))
    assert (array.n_runs, array.n_waiting, array.max_jobs) == (4, 2, 3)
    assert [array.n_waiting for array in arrays_of(plan_of(12))] == [4, 6]
    assert arrays_of(plan_of(2)) == [JobArray(2, 8, 0, 3)]
    slurm("squeue", "slurm_load_jobs error: Unable to contact slurm controller", rc=1)
    with pytest.raises(Failed, match=r"at most 3.*Nothing was submitted"):
        arrays_of(plan_of(2))


def test_what_cannot_wait_is_refused_with_the_number_and_what_to_type(slurm):
    slurm("squeue", "70_1|PENDING|Priority|0:00|N/A\n")
    plan = plan_of(12)
    plan.guard = "it came from another machine"
    with pytest.raises(LabError) as caught:
        arrays_of(plan)
    assert "you may have 3 jobs (MaxSubmitJobs of your account lab)" in str(caught.value)
    assert "1 are queued or running. Nothing was submitted" in str(caught.value)
    assert "room for 2 runs now: seed=0,1\n" in str(caught.value)
    slurm("squeue", "".join(f"70_{i}|PENDING|Priority|0:00|N/A\n" for i in range(4)))
    with pytest.raises(LabError, match="There is no place now"):
        arrays_of(plan)


@pytest.mark.parametrize(
    ("job", "jobs", "counted"),
    [
        ({}, 3, "--account=lab"),
        ({"account": "other"}, 20, "--qos=long"),
        ({"account": "other", "qos": "normal"}, 50, "--account=other"),
    ],
)
def test_the_limit_of_the_account_and_of_the_qos_that_the_job_names_counts(
    slurm, job, jobs, counted
):
    slurm("squeue", "70_1|PENDING|Priority|0:00|N/A\n")
    limits = scheduler_of("slurm").limits(plan_of(2, **job).request)
    assert scheduler_of("slurm").n_jobs(limits.jobs.counted) == 1
    assert limits.jobs.counted == counted
    assert (limits.array.number, limits.jobs.number) == (11, jobs)


def test_limits_that_slurm_does_not_enforce_or_tell_come_from_the_profile(slurm):
    slurm("scontrol", CONFIG.replace("associations,limits,qos", "associations"))
    assert arrays_of(plan_of(22)) == [JobArray(11, 4), JobArray(11, 4)]
    slurm("scontrol", "Unable to contact slurm controller", rc=1)
    assert arrays_of(plan_of(2000)) == [JobArray(2000, 8)]
    assert arrays_of(plan_of(20, site=site_with(max_array=10))) == [
        JobArray(10, 4),
        JobArray(10, 4),
    ]
    assert arrays_of(plan_of(20, site=site_with(max_jobs=10))) == [JobArray(20, 8, 10, 10)]
    assert arrays_of(plan_of(1, site=site_with(max_jobs=1))) == [JobArray(1, 8)]
    workstation = load_site(ANN, "workstation")
    assert arrays_of(plan_of(20, site=workstation, gpus=0)) == [JobArray(20, 8)]


@pytest.fixture
def sent(tmp_path, monkeypatch):
    """sent(sizes, fails): the runs of arrays of these sizes, of which one is refused, after they were sent."""

    def send_arrays(sizes, fails=None):
        runs = [
            make_run(tmp_path, f"20261120-1900{i:02}-abcdef", scheduler="slurm", sending=True)
            for i in range(sum(sizes))
        ]
        plan = send.Plan(
            *(
                None,
                SimpleNamespace(name="slurm"),
                None,
                [None] * len(runs),
                [],
                9,
                None,
                None,
                True,
            )
        )
        parts = []

        def send_runs(part, of_part, archive, array, _):
            assert array.n_runs == len(of_part)
            assert len(part.points) == len(of_part)
            if len(parts) == fails:
                raise LabError("Slurm wants less. No job was queued")
            parts.append((part.throttle, [run.id for run in of_part]))
            return [run.id for run in of_part]

        monkeypatch.setattr(send, "send_runs", send_runs)
        arrays = [JobArray(size, 9 - size) for size in sizes]
        return SimpleNamespace(
            send=lambda: send.send_arrays(plan, runs, None, arrays, 7.0), runs=runs, parts=parts
        )

    return send_arrays


def test_each_array_is_sent_with_its_own_runs_and_throttle(sent):
    of = sent([3, 2])
    assert of.send() == [run.id for run in of.runs]
    assert [throttle for throttle, _ in of.parts] == [6, 7]
    assert [len(ids) for _, ids in of.parts] == [3, 2]


def test_runs_of_arrays_after_a_refused_one_are_called_refused(sent):
    of = sent([2, 2, 1], fails=1)
    with pytest.raises(LabError, match=re.escape("The first 2 runs were sent before: lab queue")):
        of.send()
    assert "refused" in Run.open(of.runs[4].dir).record["job"]
    assert "refused" not in Run.open(of.runs[0].dir).record["job"]
