"""Trials that are not there, or became something else, are named."""

from types import SimpleNamespace

import pytest
from labrig.errors import Failed, LabError
from labrig.project import Project
from labrig.trials import diff, drop
from labrig.trials import drop as restore
from labrig.trials.diff import require_trials
from labrig.trials.drop import drop_trial, restore_trial
from labrig.trials.new import rename_trial
from repositories import write


@pytest.fixture
def trials(repo):
    """A project in a repository, with one trial."""
    write(repo, {"src/myproj/trials/baseline/config.yaml": "{}\n"})
    return Project(repo, "myproj")


def test_trials_that_are_not_there(trials, monkeypatch):
    with pytest.raises(LabError, match=r"no trial 'baselin'; did you mean: baseline. Trials: "):
        require_trials(trials, "baselin")
    monkeypatch.setattr(diff, "read_readme", lambda _: SimpleNamespace(parent="base"))
    with pytest.raises(LabError, match=r"the parent of 'baseline' is 'base', which is gone. Bring"):
        diff.parent_of(trials, "baseline")
    with pytest.raises(LabError, match=r"no trial 'deep'. Trials: baseline"):
        rename_trial(trials, "deep", "deeper")
    with pytest.raises(LabError, match=r"trial 'baseline' is there: .*Nothing to restore"):
        restore_trial(trials, "baseline")
    with pytest.raises(LabError, match=r"no trial 'deep' was dropped. Dropped: none"):
        restore_trial(trials, "deep")


def gone(name, **facts):
    return {name: SimpleNamespace(**{"name": name, "new_name": None, "commit": "f" * 40} | facts)}


def test_trials_that_became_something_else(trials, monkeypatch):
    monkeypatch.setattr(drop, "read_gone", lambda _: gone("deep"))
    with pytest.raises(LabError, match=r"trial 'deep' is gone already; TRIALS.md says more"):
        drop_trial(trials, "deep", "No better.")
    monkeypatch.setattr(restore, "read_gone", lambda _: gone("deep"))
    with pytest.raises(Failed, match=r"last in commit ffff(?s:.)*get it first: git fetch --all"):
        restore_trial(trials, "deep")
    monkeypatch.setattr(restore, "read_gone", lambda _: gone("deep", new_name="x"))
    with pytest.raises(LabError, match=r"trial 'deep' was renamed; it is 'x' now"):
        restore_trial(trials, "deep")
