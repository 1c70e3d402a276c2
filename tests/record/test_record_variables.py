"""Environment variables: which values a record holds, and which names it knows only."""

import json
import os

import pytest
from labrig import env
from labrig.record.compare.diff import environment_of
from labrig.record.freeze.own_files import variables_watched
from labrig.record.write.begin import begin_attempt
from record_package import create, make_project

READER = """
import os
from os import environ
from pathlib import Path

def read():
    environ["MY_P"]
    os.getenv("MY_Q", "1")
    "MY_R" in os.environ
    os.environ.get("PYTHONHASHSEED")
    try:
        os.environ["MY_ABSENT"]
    except KeyError:
        pass

def copy():
    dict(os.environ)
    os.environ.copy()
    list(os.environ.items())

def pass_to_library():
    Path("~").expanduser()
"""


@pytest.fixture
def project(tmp_path):
    return make_project(tmp_path / "myproj")


@pytest.fixture
def reader(tmp_path, monkeypatch):
    """A module of own code."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "lab_test_reader.py").write_text(READER)
    import lab_test_reader

    yield lab_test_reader
    del os.sys.modules["lab_test_reader"]


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
    assert "MY_P" not in create(project).record["env"]["variables"]


@pytest.mark.slow
def test_the_seed_of_hashes_is_recorded(project, monkeypatch):
    monkeypatch.setenv("PYTHONHASHSEED", "3")
    assert create(project).record["env"]["variables"]["PYTHONHASHSEED"] == "3"


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


def test_names_that_own_code_reads_are_collected(reader, monkeypatch):
    monkeypatch.setenv("MY_P", "0.3")
    usual = type(os.environ)
    with variables_watched() as read:
        reader.read()
        reader.copy()
        reader.pass_to_library()
    assert read.names == {"MY_P", "MY_Q", "MY_R", "MY_ABSENT", "PYTHONHASHSEED"}
    assert type(os.environ) is usual
    with variables_watched() as read:
        pass
    assert read.names == set()


def test_changes_of_variables_work_while_they_are_watched(monkeypatch):
    monkeypatch.delenv("MY_P", raising=False)
    with variables_watched():
        os.environ["MY_P"] = "1"
        assert os.environ.pop("MY_P") == "1"
        assert os.environ.setdefault("MY_P", "2") == "2"
        del os.environ["MY_P"]
        with pytest.raises(KeyError):
            os.environ["MY_P"]
