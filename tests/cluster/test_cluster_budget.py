"""A budget of GPU-hours holds, with and without a forecast, and over a month."""

from types import SimpleNamespace

import pytest
from labrig.cluster.job.command_attempt import gpu_seconds
from labrig.cluster.schedulers.job import JobRequest
from labrig.cluster.submit import budget
from labrig.cluster.submit.budget import check_budget
from labrig.errors import Refused
from labrig.record.files.process import user
from labrig.record.read.run import Run
from labrig.record.write.begin import begin_attempt
from omegaconf import OmegaConf
from record_package import create, make_project, train

HOUR_S = 3600


@pytest.fixture
def project(tmp_path):
    return make_project(tmp_path / "project")


def plan_of(project, n_points=1, *, gpus=8, nodes=1, hours=40, **limits):
    """A plan as `lab submit` makes it, without its job script."""
    limits = {"gpu_hours": None, "gpu_hours_per_month": None} | limits
    config = OmegaConf.create({"budget": limits})
    request = JobRequest("job", nodes, gpus, gpus, 1, hours * HOUR_S, 120)
    points = [SimpleNamespace(config=config, settings={})] * n_points
    return SimpleNamespace(project=project, points=points, request=request, trains=False)


def forecasts(monkeypatch, *gpu_hours):
    each = [None if hours is None else SimpleNamespace(gpu_hours=hours) for hours in gpu_hours]
    monkeypatch.setattr(budget, "provided", lambda name: lambda *arguments: each)


def test_without_a_forecast_the_request_counts(project):
    basis = r"1 x 1 x 8 x 40 h: runs x nodes x GPUs x job.time"
    with pytest.raises(Refused, match=rf"320 GPU-hours \({basis}\); budget.gpu_hours is 1\."):
        check_budget(plan_of(project, gpu_hours=1), tree=None)
    check_budget(plan_of(project, gpu_hours=1), tree=None, yes=True)
    check_budget(plan_of(project, gpu_hours=320), tree=None)
    check_budget(plan_of(project, gpu_hours=None), tree=None)
    check_budget(plan_of(project, gpus=0, gpu_hours=1), tree=None)
    with pytest.raises(Refused, match="960 GPU-hours"):
        check_budget(plan_of(project, 3, gpu_hours=900), tree=None)


def test_a_forecast_is_for_the_gpus_of_the_job(project, monkeypatch):
    given = []
    monkeypatch.setattr(
        budget, "provided", lambda name: lambda *words: given.append(words) or [None]
    )
    plan = plan_of(project, gpus=4, nodes=2)
    plan.trains = True
    check_budget(plan, tree=None)
    assert given[0][-1] == 8  # also where the site has chosen them


def test_a_forecast_counts_where_there_is_one(project, monkeypatch):
    plan = plan_of(project, 2, hours=1, gpu_hours=9)
    plan.trains = True
    forecasts(monkeypatch, 3.0, 5.0)
    check_budget(plan, tree=None)
    forecasts(monkeypatch, 3.0, None)  # 8 GPUs for an hour
    with pytest.raises(Refused, match="11 GPU-hours"):
        check_budget(plan, tree=None)


@pytest.mark.slow
def test_any_command_counts_with_all_gpus_of_its_job(project):
    run = create(project)
    attempt = begin_attempt(run, project)
    attempt.began_s -= 100
    assert gpu_seconds(run.dir, attempt, ["python", "other.py"]) == 0  # not a job
    Run.open(run.dir).update(job={"site": "x", "id": "1", "nodes": 2, "gpus": 4})
    used = gpu_seconds(run.dir, attempt, ["python", "other.py"])
    assert used == pytest.approx(800, rel=0.1)
    # their runs count themselves
    assert gpu_seconds(run.dir, attempt, ["lab", "train", "trial=baseline"]) == 0
    assert gpu_seconds(run.dir, attempt, ["python3", "-m", "labrig", "sweep", "worker"]) == 0


@pytest.mark.slow
def test_a_month_counts_what_ran_and_what_may_still_run(project, monkeypatch):
    month = {"gpu_hours_per_month": 50}
    plan = plan_of(project, hours=5, **month)
    check_budget(plan, tree=None)  # 40
    run = train(project)
    summary = (run.dir / "summary.json").read_text()
    used = summary.replace('"gpu_seconds": 0.0', f'"gpu_seconds": {6 * HOUR_S}')
    assert used != summary
    (run.dir / "summary.json").write_text(used)
    check_budget(plan, tree=None)  # 46
    waiting = create(project)
    job = {"site": "x", "id": "1", "nodes": 1, "gpus": 8, "time_s": HOUR_S}
    Run.open(waiting.dir).update(job=job)
    monkeypatch.setattr(budget, "job_state_of", lambda: lambda record: "queued")
    with pytest.raises(Refused, match=r"40 GPU-hours.*of your 50 of this month.*36 are left"):
        check_budget(plan, tree=None)
    check_budget(plan, tree=None, yes=True)
    monkeypatch.setattr(budget, "user", lambda: f"not {user()}")
    check_budget(plan, tree=None)
