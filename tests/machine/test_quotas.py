"""Quotas: what the tools print is read, and `lab doctor` tells before one is hit. So it does of stray packages."""

import pytest
from commands import write_command
from labrig.cluster.doctor import checks as doctor_checks
from labrig.cluster.doctor import checks as doctor_disks
from labrig.cluster.doctor import checks as quota
from labrig.cluster.doctor.checks import quota_finding, read_quotas
from labrig.project import Project

QUOTA = """\
Disk quotas for user ann (uid 1000):
     Filesystem   space   quota   limit   grace   files   quota   limit   grace
server:/export/home/of/a/long/name
                  2450M*  2000M   3000M   6days    148k       0    150k
      /dev/sda1      1M      0K      0K               5       0       0
"""
LFS = """\
Disk quotas for usr ann (uid 1000):
      Filesystem    used   quota   limit   grace   files   quota   limit   grace
    /lustre/work    4.2T      0k      5T       -   97000       0  500000       -
uid 1000 is using default file quota setting
"""


def test_quota_prints_space_and_files_also_over_two_lines():
    space, files = read_quotas(QUOTA)
    assert (space.place, space.used, space.limit) == (
        "server:/export/home/of/a/long/name",
        "2450M",
        "2000M",
    )
    assert space.share == pytest.approx(1.225)
    assert (files.what, files.used, files.limit) == ("files", "148k", "150k")


def test_lfs_quota_prints_them_with_a_dash_for_no_grace():
    space, files = read_quotas(LFS)
    assert (space.used, space.limit, files.used, files.limit) == ("4.2T", "5T", "97000", "500000")
    assert space.share == pytest.approx(0.84)


@pytest.mark.parametrize(
    "text", ["", "quota: error", "Disk quotas for user ann: none\n", "Filesystem\n/disk\n"]
)
def test_other_texts_hold_no_quota(text):
    assert read_quotas(text) == []


def test_a_finding_comes_before_the_limit():
    space, files = read_quotas(LFS)
    assert quota_finding(space).level == "note"
    assert "4.2T of 5T, 84%" in quota_finding(space).text
    assert quota_finding(files).level == "ok"
    full = read_quotas(QUOTA)[1]
    assert quota_finding(full).level == "wrong"
    assert "148k of 150k files, 99%" in quota_finding(full).text


def test_on_lustre_the_user_the_group_and_the_project_are_asked_for(monkeypatch, tmp_path):
    calls = []

    def answer(*command):
        calls.append(command[1:4])
        return "  1042 P /work\n" if command[1] == "project" else LFS

    monkeypatch.setattr(quota, "_answer_of", answer)
    monkeypatch.setattr(quota, "filesystem_type", lambda path: "lustre")
    monkeypatch.setattr(quota.shutil, "which", lambda name: f"/bin/{name}")
    assert len(quota.quotas_of(tmp_path)) == 2, "equal rows are shown once"
    assert [words[2] for words in calls if words[0] == "quota"] == ["-u", "-g", "-p"]


def test_the_doctor_asks_the_command_of_the_site(project, monkeypatch, tmp_path):
    text = "WORK  4.1 TB of 5 TB (82.0 %)\nSTORE 1 TB of 50 TB (2%)\nSCRATCH 99% used\n"
    write_command(
        tmp_path / "bin",
        "our_quota",
        f"#!/bin/sh\necho asked: $*\nprintf '{text.replace('%', '%%')}'\n",
    )
    monkeypatch.setenv("PATH", f"{tmp_path}/bin", prepend=":")
    (tmp_path / "ours.yaml").write_text(
        "scheduler: local\nlauncher: shell\nquota: [our_quota --all, gone]\n"
    )
    monkeypatch.setenv("LAB_SITE_PATH", str(tmp_path))
    monkeypatch.setattr(doctor_disks, "site_of_host", lambda project: "ours")
    findings = doctor_disks.quotas_of_site(Project(project, "myproj"))
    assert [(finding.level, finding.text) for finding in findings] == [
        ("ok", "our_quota: asked: --all"),
        ("note", "our_quota: WORK 4.1 TB of 5 TB (82.0 %)"),
        ("ok", "our_quota: STORE 1 TB of 50 TB (2%)"),
        ("wrong", "our_quota: SCRATCH 99% used"),
    ]


def test_stray_packages_and_an_environment_on_a_network_disk_are_reported(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor_checks, "filesystem_type", lambda path: "lustre")
    monkeypatch.setattr(doctor_checks, "has_many_files", lambda path: True)
    monkeypatch.setattr(doctor_checks.python_site, "getusersitepackages", lambda: str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    _, stray, files = doctor_checks.python(None)
    assert stray.level == "wrong"
    assert f"packages in {tmp_path} mix" in stray.text
    assert "more than 100,000 files" in files.text
    assert "lab image build site.python=packed" in files.advice


@pytest.mark.parametrize(("n_files", "are_many"), [(10, False), (11, True)])
def test_a_directory_of_many_small_files_is_noticed_and_sent_to_be_packed(
    monkeypatch, tmp_path, project, n_files, are_many
):
    monkeypatch.setattr(doctor_disks, "MANY_FILES", 10)
    for i in range(n_files):
        (tmp_path / f"class{i % 3}").mkdir(exist_ok=True)
        (tmp_path / f"class{i % 3}" / f"{i}.png").touch()
    monkeypatch.setattr(doctor_disks, "places", lambda project: [("paths.data[0]", tmp_path)])
    found = [finding for finding in doctor_disks.disks(Project(project, "myproj"))]
    told = [finding.advice for finding in found if "more than 10 files" in finding.text]
    assert told == (["pack them into one: lab data pack"] if are_many else [])
