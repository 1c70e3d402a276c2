"""A list of many points costs little for each: what is the same in all is made once."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from labrig.cluster.submit import submit
from labrig.cluster.submit.arrays import JobArray
from labrig.cluster.submit.budget import check_budget
from labrig.cluster.submit.plan import plan_submission
from labrig.record.write.create import RunRequest, ids_from
from projects import project_in
from test_limits import plan_of

N_POINTS = 20


@pytest.fixture
def plan(tmp_path, monkeypatch):
    """That of a list which differs in the seed, with a global batch."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    words = ["trial=baseline", f"seed=range({N_POINTS})", "site=slurm", "job.gpus=0"]
    batches = ["data.batch_size=32", "batch.global=64"]
    return plan_submission(project_in(tmp_path / "myproj"), [*words, *batches])


def test_a_point_is_checked_and_recorded_without_an_object_of_omegaconf(plan):
    check_budget(plan, tree="f" * 40)
    requests = [RunRequest.of(point, argv=[]) for point in plan.points]
    assert [request.seed for request in requests] == list(range(N_POINTS))
    assert sum("config" in vars(point) for point in plan.points) == 1  # that of the job


def test_the_ids_of_a_long_list_differ_and_are_the_same_again():
    ids = ids_from("20261120-190000-abcdef", 20_000)  # of which twelve hashes are there twice
    assert len(set(ids)) == 20_000
    assert ids[:5] == ids_from("20261120-190000-abcdef", 5)
    assert ids_from("20261120-190000-abcdef", 1) == ["20261120-190000-abcdef"]


def test_a_record_says_how_its_run_is_sent_before_that_is_tried(monkeypatch):
    jobs = []

    def record_run(plan, point, code, options, job_of, **_):
        run_dir = Path(f"/runs/wide/{len(jobs) + 1}")
        jobs.append(job_of(run_dir))
        return SimpleNamespace(dir=run_dir)

    monkeypatch.setattr(submit, "record_run", record_run)
    monkeypatch.setattr(submit, "installed_packages", lambda *_: [])
    of = plan_of(6)
    rules = SimpleNamespace(record=SimpleNamespace(package_files=False))
    points = [SimpleNamespace(trial="wide", config=rules)] * 6
    project = SimpleNamespace(root=Path("/project"))
    plan = SimpleNamespace(
        **vars(of) | {"points": points, "project": project, "inputs": None, "script": "job.sh"}
    )
    arrays = [JobArray(3, 8), JobArray(3, 8, n_waiting=1)]
    submit.record_runs(plan, {"wide": {}}, submit.SubmitOptions(), arrays, 7.0)
    assert all(job["sending"] for job in jobs)
    # one that waits is not sent
    scripts = [job.get("script") for job in jobs]
    first, second = "/runs/wide/1/job.sh", "/runs/wide/4/job.sh"
    assert scripts == [first, first, first, second, second, None]
    assert [job.get("index") for job in jobs] == [0, 1, 2, 0, 1, None]
    assert {job.get("submitted_unix_s") for job in jobs} == {None, 7.0}
