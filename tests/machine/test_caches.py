"""Caches of all tools lie below paths.caches: for a command here, for a job, and for what a user has set already."""

import os

import pytest
from commands import json_line
from job_scripts import job_script
from labrig.cluster.schedulers.command import clean_environment, command_environment
from labrig.machine import caches
from projects import call

SHOW = """
import json, os
from labrig.config.compose import compose
from labrig.machine.caches import CACHES
from labrig.project import Project
compose(Project.find(), ["trial=baseline", *{settings}])
print(json.dumps({{name: os.environ.get(name) for name in CACHES}}))
"""


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch):
    for name in (caches.ROOT, *caches.CACHES):
        monkeypatch.delenv(name, raising=False)


def composed(project, *settings, **variables):
    """The variables of the caches in a process that has composed these settings."""
    variables["PRE_COMMIT_HOME"] = ""  # which the tests set
    output = call(project, "python", "-c", SHOW.format(settings=list(settings)), **variables)
    return json_line(output)


def test_every_cache_lies_in_its_own_directory_below_the_configured_one(project):
    found = composed(project, "paths.caches=/disk/caches")
    assert len(set(found.values())) == len(found)
    assert all(place.startswith("/disk/caches/") for place in found.values())
    assert found["HF_HOME"] == "/disk/caches/huggingface"


@pytest.mark.release
@pytest.mark.slow
def test_a_site_leads_them_where_its_variable_is_set(project):
    assert (
        composed(project, "site=jean_zay_h100", WORK="/disk/ann")["PIP_CACHE_DIR"]
        == "/disk/ann/caches/pip"
    )
    assert not any(composed(project, "site=jean_zay_h100").values()), "WORK is not set"
    assert not any(composed(project).values()), "a workstation has no other disk"


def test_a_place_that_the_user_has_set_wins_and_one_of_ours_is_replaced(monkeypatch):
    monkeypatch.setenv("HF_HOME", "/lab/models")
    first = caches.cache_variables("/a")
    assert "HF_HOME" not in first
    assert first["TORCH_HOME"] == "/a/torch"
    for name, value in first.items():
        monkeypatch.setenv(name, value)
    second = caches.cache_variables("/b")
    assert second["TORCH_HOME"] == "/b/torch"
    assert "HF_HOME" not in second
    assert caches.own_cache_variables() == {"HF_HOME": "/lab/models"}


def test_a_job_has_the_places_of_its_site_and_those_that_the_user_has_set(monkeypatch):
    assert "LAB_CACHES" not in job_script("workstation")
    monkeypatch.setenv("HF_HOME", "/lab/my models")
    text = job_script("wisteria_a")
    assert "  export LAB_CACHES=/home/ann/myproj/.caches #" in text
    assert "  export HF_HOME='/lab/my models' #" in text


def test_what_a_job_starts_has_them_too(monkeypatch, tmp_path):
    monkeypatch.setenv(caches.ROOT, "/disk/caches")
    assert command_environment(tmp_path)["NUMBA_CACHE_DIR"] == "/disk/caches/numba"
    assert clean_environment()[caches.ROOT] == "/disk/caches"
    assert "NUMBA_CACHE_DIR" not in os.environ
