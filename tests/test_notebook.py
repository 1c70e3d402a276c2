"""What notebooks use: tables that pandas reads, the same actions as the command `lab`, and a kernel."""

import json
import os
import subprocess
import sys
from shutil import copytree

import pytest
from conftest import PROJECT, ROOT, environment_of, equip
from myproj.lab.project import Project
from record_package import create
from setup_projects import UV, fresh, light, setup  # noqa: F401
from trial_runs import add_run, trial_folder


def python(folder, program, *, at=None, rc=0, **variables):
    """What a program prints that imports the package of the project."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=at or folder,
        env=environment_of(folder, **variables),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == rc, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A project with three runs of two learning rates."""
    folder = equip(copytree(PROJECT, tmp_path_factory.mktemp("notebook") / "myproj"))
    for seed, lr in ((0, 0.1), (1, 0.1), (0, 0.2)):
        add_run(folder, "baseline", seed, loss=lr + seed, lr=lr)
    return folder


TABLES = """
import json, sys
from myproj.lab import runs, trials, queue
from myproj.lab import trials  # the folder of the same name is imported by now
import myproj.lab.trials.tree
tables = {"runs": runs("val/loss<1"), "trials": trials(), "best": trials("val/loss"), "queue": queue()}
heavy = {"torch", "lightning", "hydra", "numpy", "h5py", "pandas"} & set(sys.modules)
assert not heavy, heavy
print(json.dumps(tables))
"""


def test_tables_are_plain_and_cheap(made, tmp_path):
    """Also from a directory outside of the project, which is that of the package then."""
    tables = json.loads(python(made, TABLES, at=tmp_path))
    newest, oldest = tables["runs"]
    assert {"run_id", "status", "commit", "gpu_hours", "run_dir", "tags"} <= set(newest)
    assert (newest["optimizer.lr"], newest["val/loss"], newest["trial"]) == (0.2, 0.2, "baseline")
    assert (oldest["optimizer.lr"], oldest["seed"]) == (0.1, 0)
    (trial,) = tables["trials"]
    assert (trial["name"], trial["best"], trial["n_runs"]) == ("baseline", 0.1, 3)
    assert tables["best"][0] | {"age_s": 0} == trial | {"age_s": 0}
    assert tables["queue"] == []


@pytest.mark.traceback("a notebook shows it")
def test_importing_lab_is_cheap(made):
    program = (
        "import sys, myproj.lab; print(sorted(m for m in sys.modules if m.startswith('myproj')))"
    )
    assert python(made, program).strip() == "['myproj', 'myproj.lab']"
    output = python(made, "from myproj.lab import run", rc=1)
    assert "cannot import name 'run'" in output


@pytest.mark.traceback("a notebook shows it")
def test_another_project_is_refused(made, own_project):
    output = python(made, "from myproj.lab import runs; runs()", at=own_project, rc=1)
    assert "but you are inside project" in output


@pytest.mark.traceback("a notebook shows it")
def test_logs_gives_what_a_job_printed(made, tmp_path):
    run = create(Project(made, "myproj"), job={"site": "slurm", "scheduler": "slurm", "id": "7"})
    program = f"from myproj.lab import logs; print(logs({run.id!r}, rank=1), end='')"
    assert "has no log yet" in python(made, program, rc=1, PATH=str(tmp_path))
    (run.dir / "job.log").write_text("job script\n0: zero\n1: one\n")
    assert python(made, program) == "job script\n1: one\n"


@pytest.mark.slow
def test_the_example_notebook_runs(home):
    """The script of examples/notebooks, cell by cell as jupytext would pair it."""
    text = (ROOT / "examples/notebooks/compare_runs.py").read_text(encoding="utf-8")
    assert "formats: ipynb,py:percent" in text
    assert text.count("\n# %%\n") == text.count("\n# %% [markdown]\n") >= 5
    output = python(home, text, at=trial_folder(home, "baseline"))
    assert "baseline" in output
    assert "val/loss" in output
    assert "151498 parameters" in output


@pytest.mark.slow
def test_make_kernel_registers_the_environment(light, tmp_path):  # noqa: F811
    places = {"JUPYTER_DATA_DIR": str(tmp_path / "jupyter"), "HOME": str(tmp_path)}
    assert "choose the kernel myproj" in setup(light, UV, target="kernel", **places)
    assert "installing ipykernel" not in setup(light, UV, target="kernel", **places)
    spec = json.loads((tmp_path / "jupyter/kernels/myproj/kernel.json").read_text())
    assert spec["argv"][0] == str(light / ".venv/bin/python")
    assert str(light) in spec["display_name"]
    program = (
        "from jupyter_client.manager import start_new_kernel\n"
        "manager, client = start_new_kernel(kernel_name='myproj', startup_timeout=120)\n"
        "try:\n"
        "    client.execute_interactive('from myproj.lab import runs; print(runs())', timeout=120)\n"
        "finally:\n"
        "    manager.shutdown_kernel(now=True)\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [light / ".venv/bin/python", "-c", program],
        cwd=light,
        env=environment | places,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout == "[]\n", done.stderr
