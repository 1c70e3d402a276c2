"""Who has run a job at a site: what `lab site verify` writes, and where it is shown."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from job_scripts import ANN, job_request, job_script
from labrig.cluster.sites import verify as site_verify
from labrig.cluster.sites.show import print_sites
from labrig.cluster.sites.site import (
    Verification,
    describe_trust,
    hash_of_profile,
    is_experimental,
    load_site,
    write_verification,
)
from labrig.cluster.sites.verify import RankReport, check_reports, compare_internet, earlier_check
from labrig.errors import Failed
from labrig.project import Project
from recorded_answers import SQUEUE, lab, make_run  # noqa: F401


@pytest.fixture(autouse=True)
def config_home(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("LAB_SITE_PATH", raising=False)
    return tmp_path


def verify(name, **other):
    site = load_site(ANN, name)
    values = {
        "by": "ann",
        "day": "2026-11-22",
        "level": "1 node, 8 GPUs",
        "run": "20261122-100000-abcdef",
        "job": "7",
        "profile": hash_of_profile(site),
    }
    write_verification(site, Verification(**values | other))


def test_who_verified_a_site_stands_in_the_job_script_and_in_the_list(config_home, capsys):
    assert "experimental (pbs was never run)" in job_script("abci3")
    verify("abci3")
    verify("lanta", level="1 node, CPU")
    line = "# Site abci3: verified by ann on 2026-11-22: 1 node, 8 GPUs\n"
    assert line in job_script("abci3")
    assert not is_experimental(load_site(ANN, "abci3"))
    assert is_experimental(load_site(ANN, "miyabi_g"))
    print_sites(ANN)
    listed = capsys.readouterr().out
    assert "abci3            verified by ann" in listed
    assert "miyabi_g         experimental" in listed
    assert "jean_zay_v100    not verified" in listed
    written = (config_home / "lab/verified.yaml").read_text()
    assert "lanta:" in written


def test_another_text_of_the_profile_is_not_what_was_verified():
    verify("lanta", profile="that of the last release")
    assert "with an earlier text of the profile; again: lab site verify" in describe_trust(
        load_site(ANN, "lanta")
    )


def report(rank, host, n_gpus, has_internet=False):
    return RankReport(rank, 4, host, 16, ["A100"] * n_gpus, has_internet)


def test_a_job_that_got_less_than_it_asked_for_verifies_nothing():
    plan = SimpleNamespace(request=job_request("lanta", gpus=2, nodes=2))
    run = SimpleNamespace(dir=Path("/runs/1"))
    reports = [report(0, "n1", 4), report(1, "n1", 4), report(2, "n2", 4), report(3, "n2", 4)]
    assert check_reports(run, plan, reports) == "2 nodes, 2 GPUs each"
    with pytest.raises(Failed, match="4 ranks on 2 nodes with 1 GPU, not"):
        check_reports(run, plan, [*reports[:3], report(3, "n2", 1)])
    with pytest.raises(Failed, match="3 ranks on 2 nodes"):
        check_reports(run, plan, reports[:3])
    cpu = SimpleNamespace(request=job_request("lanta", gpus=0))
    assert check_reports(run, cpu, [report(0, "n1", 0)]) == "1 node, CPU"


def test_a_profile_that_is_wrong_about_the_internet_is_corrected(capsys):
    site = load_site(ANN, "perlmutter")
    compare_internet(site, [report(0, "n1", 1, True), report(1, "n2", 1)])
    assert not capsys.readouterr().out
    compare_internet(site, [report(0, "n1", 1, True)])
    said = capsys.readouterr().out
    assert "reached https://pypi.org" in said
    assert "Write there: internet: {jobs: true, …}" in said


def test_a_check_that_still_runs_is_taken_up(lab, monkeypatch):  # noqa: F811
    project = Project(lab.folder, "myproj")
    site = load_site(project, "slurm")
    plan = SimpleNamespace(site=site, request=SimpleNamespace(nodes=2, gpus=4))
    monkeypatch.setattr(site_verify, "job_state_of", lambda: lambda record: "running")
    make_run(lab, 1, {"id": "11"}, starts=True)
    assert earlier_check(project, plan) is None
    make_run(lab, 2, {"id": "11"}, starts=True, why=site_verify.WHY)
    assert earlier_check(project, plan).id == "20261120-190002-abcdef"
    make_run(lab, 3, {"id": "12"}, ends="finished", why=site_verify.WHY)
    assert earlier_check(project, plan).id == "20261120-190003-abcdef"
    verify("slurm", run="20261120-190003-abcdef")
    assert earlier_check(project, plan) is None
