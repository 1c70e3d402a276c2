"""A job is warned as long before its time limit as the saves that were measured need."""

import json

import pytest
from labrig import env
from labrig.cluster.sites.site import Site
from labrig.cluster.submit.plan import measured_save_s, site_with_lead, warn_of_short_lead
from labrig.training.checkpoints.checkpoint import SaveTime


def site_of(tmp_path, lead_s):
    return Site("slurm", tmp_path, "", {"requeue": {"lead_s": lead_s, "max": 50}})


def make_attempt(runs, n, **start):
    attempt = runs / f"wide+lowlr/2026112{n}-190001-abcdef/attempts/1"
    attempt.mkdir(parents=True)
    (attempt / "start.json").write_text(json.dumps(start))


def test_the_longest_save_of_the_newest_runs_counts(tmp_path):
    assert measured_save_s(tmp_path, "wide/lowlr") == 0
    for n, save_s in enumerate((500.0, 20.0, 40.0, 30.0), start=1):
        make_attempt(tmp_path, n, save_s=save_s)
    for n in (5, 6):
        make_attempt(tmp_path, n)
    assert measured_save_s(tmp_path, "wide/lowlr") == 40.0, "the first one is too old"


def test_the_lead_grows_with_the_save_and_a_typed_one_stays(tmp_path, capsys):
    site = site_of(tmp_path, 120)
    assert site_with_lead(site, [], 40.0) is site
    assert capsys.readouterr().err == ""
    longer = site_with_lead(site, ["trial=wide"], 70.0)
    assert longer["requeue"] == {"lead_s": 210, "max": 50}
    assert "is warned 210 s before its time limit instead of 120 s" in capsys.readouterr().err
    assert site_with_lead(site, ["site.requeue.lead_s=120"], 70.0) is site
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("save_s", "is_warned"), [(14.0, False), (16.0, True)])
def test_more_than_half_of_the_lead_is_a_warning(capsys, save_s, is_warned):
    warn_of_short_lead(30, save_s)
    assert ("more than half of the 30 s" in capsys.readouterr().err) == is_warned


class Trainer:
    is_global_zero = True


def test_a_job_notes_its_longest_save_and_warns_once(tmp_path, monkeypatch, capsys):
    (tmp_path / "attempts/2").mkdir(parents=True)
    (tmp_path / "run.json").write_text(json.dumps({"job": {"lead_s": 30}}))
    for name, value in ((env.RUN_DIR, tmp_path), (env.ATTEMPT, 2), (env.JOB, 7)):
        monkeypatch.setenv(name, str(value))
    save_time = SaveTime()
    noted = []
    for seconds in (3.0, 3.1, 20.0, 4.0, 25.0):
        save_time.note(Trainer, seconds)
        noted.append(json.loads((tmp_path / "attempts/2/start.json").read_text())["save_s"])
    assert noted == [3.0, 3.0, 20.0, 20.0, 25.0]
    said = capsys.readouterr().err
    assert said.count("more than half of the 30 s") == 1
    assert "site.requeue.lead_s=60" in said


def test_outside_of_a_run_nothing_is_noted(monkeypatch):
    monkeypatch.delenv(env.RUN_DIR, raising=False)
    save_time = SaveTime()
    save_time.note(Trainer, 3.0)
    assert save_time.noted_s == 0
