"""Environment variables: which values a record holds, and what is told when they differ later."""

import json

import pytest
from labrig import env
from labrig.errors import Refused
from labrig.record.compare.diff import environment_of
from labrig.record.freeze.environment import variable_changes
from labrig.record.read.run import Run
from labrig.record.reproduce.command import print_other_variables
from labrig.record.write.begin import begin_attempt
from record_package import create, make_project


@pytest.fixture
def project(tmp_path):
    return make_project(tmp_path / "myproj")


@pytest.mark.slow
def test_variables_are_recorded_by_pattern_without_secrets(project, monkeypatch):
    (project.root / ".env").write_text("MY_HIDDEN=from-dotenv\n")
    values = {
        "MY_P": "0.3",
        "MY_API_KEY": "12345678",
        "MY_HIDDEN": "from-dotenv",
        "OTHER": "1",
        "ONE": "2",
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    run = create(project, env_vars=("MY_*", "ONE"))
    attempt = begin_attempt(run, project)
    start = json.loads((attempt.dir / "start.json").read_text())
    for variables in (run.record["env"]["variables"], start["variables"]):
        assert {"MY_P": "0.3", "ONE": "2"}.items() <= variables.items()
        assert not {"MY_API_KEY", "MY_HIDDEN", "OTHER"} & variables.keys()
    assert start["other_variables"].keys() >= {"MY_API_KEY", "MY_HIDDEN", "OTHER"}
    assert start["other_variables"]["MY_API_KEY"] is start["other_variables"]["MY_HIDDEN"] is None
    for secret in ("12345678", "from-dotenv"):
        assert secret not in (attempt.dir / "start.json").read_text()
    assert "MY_P" not in create(project).record["env"]["variables"]


@pytest.mark.slow
def test_the_seed_of_hashes_is_recorded(project, monkeypatch):
    monkeypatch.setenv("PYTHONHASHSEED", "3")
    assert create(project).record["env"]["variables"]["PYTHONHASHSEED"] == "3"


@pytest.mark.slow
def test_the_id_of_a_job_is_recorded_and_no_difference(project, monkeypatch):
    """By each scheduler, so a run that is sent again differs in nothing."""
    runs = []
    for job_id in ("71", "72"):
        for name in env.JOB_IDS:
            monkeypatch.setenv(name, job_id)
        runs.append(create(project))
        recorded = runs[-1].record["env"]["variables"]
        assert [recorded[name] for name in env.JOB_IDS] == [job_id] * len(env.JOB_IDS)
    first, second = (environment_of(run) for run in runs)
    assert first["variables"] == second["variables"]


@pytest.fixture
def ended(project, monkeypatch):
    """A run with one attempt, of a process with a few variables."""
    for name in ("MY_P", "MY_Q", "MY_R", "ATEN_CPU_CAPABILITY"):
        monkeypatch.delenv(name, raising=False)
    values = {"MY_P": "0.3", "MY_Q": "1", "OMP_NUM_THREADS": "2", "A_TOKEN": "x", "MAKEFLAGS": ""}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    run = create(project, env_vars=("MY_Q",))
    begin_attempt(run, project).end("interrupted", {})
    return Run.open(run.dir)


def test_equal_variables_are_no_difference_nor_are_those_of_a_terminal(ended, project, monkeypatch):
    of_job = ("PYTHONFAULTHANDLER", "PYTHONNOUSERSITE")  # job.sh sets them
    for name in ("SSH_CLIENT", "SLURM_JOB_ID", "PWD", "TMPDIR", "A_TOKEN", *of_job):
        monkeypatch.setenv(name, "another")
    start = begin_attempt(ended, project).facts
    assert (start["variables_changed"], start["environment_differences"]) == ([], [])


def test_resume_names_the_variables_that_differ(ended, project, monkeypatch, capsys):
    """N-b-resumeenv2."""
    monkeypatch.setenv("MY_P", "0.7")
    monkeypatch.setenv("MY_R", "1")
    monkeypatch.setenv("MY_Q", "2")
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    start = begin_attempt(ended, project).facts
    assert start["environment_differences"] == [
        "variable ATEN_CPU_CAPABILITY: absent -> default",
        "variable MY_Q: 1 -> 2",
        "variable OMP_NUM_THREADS: 2 -> 4",
        "variable MY_P: another value",
        "variable MY_R: absent -> 1",
    ]
    told = capsys.readouterr().err
    assert all(name in told for name in start["variables_changed"])
    assert "0.7" not in told  # its value is not recorded, and not shown


def test_only_what_changes_numbers_is_refused(ended, project, monkeypatch):
    monkeypatch.setenv("MY_P", "0.7")
    begin_attempt(ended, project, "refuse").end("interrupted", {})
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "SSE41")
    with pytest.raises(Refused, match="ONEDNN_MAX_CPU_ISA: absent -> SSE41"):
        begin_attempt(ended, project, "refuse")


def test_a_secret_is_never_shown_as_a_change(ended, project, monkeypatch):
    start = ended.last_start
    monkeypatch.setenv("OMP_NUM_THREADS", token := "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8")
    changes = variable_changes(start, project.root)
    assert token not in "".join(changes.lines)
    assert "OMP_NUM_THREADS" in changes.numbers


def test_reproduce_names_what_it_does_not_set_again(ended, project, monkeypatch, capsys):
    monkeypatch.setenv("MY_P", "0.7")
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    print_other_variables(ended, project)
    out = capsys.readouterr().out
    assert "MY_P" in out
    assert "OMP_NUM_THREADS" not in out  # set as it was then


def test_the_continuation_is_not_exact_with_other_variables(ended, project, monkeypatch):
    changed_settings = pytest.importorskip("labrig.training.exact.continuation").changed_settings
    monkeypatch.setenv("MY_P", "0.7")
    begin_attempt(ended, project)
    assert changed_settings(ended.dir, 2) == ["other values of the variables MY_P"]
