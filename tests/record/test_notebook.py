"""What notebooks use: tables that pandas reads, the same actions as the command `lab`, and a kernel."""

import json
import os
import subprocess
import sys
from shutil import copytree

import pytest
from labrig.project import Project
from projects import PROJECT, ROOT, call, environment_of, equip
from record_package import create
from setup_projects import UV, setup
from small_environment import small_environment
from trainings import SHORT
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
import labrig.trials.tree  # a folder of the same name, which takes the place of no function
from labrig import runs, trials, queue
import labrig.trials.diff
assert trials is labrig.trials
tables = {"runs": runs("val/loss<1"), "trials": trials(), "best": trials("val/loss"), "queue": queue()}
heavy = {"torch", "lightning", "hydra", "numpy", "h5py", "pandas"} & set(sys.modules)
assert not heavy, heavy
print(json.dumps(tables))
"""


def test_tables_are_plain_and_cheap(made):
    """Also from a directory inside of the project."""
    (made / "notebooks").mkdir()
    tables = json.loads(python(made, TABLES, at=made / "notebooks"))
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
    program = "import sys, labrig; print(sorted(m for m in sys.modules if m.startswith('labrig')))"
    assert python(made, program).strip() == "['labrig', 'labrig.trials', 'labrig.version']"
    output = python(made, "from labrig import run", rc=1)
    assert "cannot import name 'run'" in output


@pytest.mark.traceback("a notebook shows it")
def test_one_process_works_on_one_project_of_a_package_only(made, own_project):
    program = f"import os, labrig; labrig.runs(); import myproj; os.chdir({str(own_project)!r}); labrig.runs()"
    output = python(made, program, rc=1)
    assert (
        f"has imported myproj from {made}/src/myproj,\nand cannot work on {own_project}" in output
    )


@pytest.mark.slow
@pytest.mark.traceback("a notebook shows it")
def test_outside_of_projects_the_environment_says_which_it_is(made, tmp_path):
    environment = small_environment(tmp_path / "environment")

    def runs_of(*owners, rc=0):
        lines = "".join(f"{owner}\n" for owner in owners)
        (environment / "lab-projects.txt").write_text(lines)
        program = "import labrig; print(len(labrig.runs())); import myproj; print(myproj.__file__)"
        command = [environment / "bin/python", "-c", program]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == rc, done.stderr
        return done.stdout + done.stderr

    assert runs_of(made) == f"3\n{made}/src/myproj/__init__.py\n"
    assert runs_of(tmp_path / "gone", made).startswith("3\n")
    assert "no project here" in runs_of(rc=1)
    assert "no project here" in runs_of(made, PROJECT, rc=1)


@pytest.mark.traceback("a notebook shows it")
def test_logs_gives_what_a_job_printed(made, tmp_path):
    run = create(
        Project(made, "myproj"), job_of=lambda _: {"site": "slurm", "scheduler": "slurm", "id": "7"}
    )
    program = f"from labrig import logs; print(logs({run.id!r}, rank=1), end='')"
    assert "has no log yet" in python(made, program, rc=1, PATH=str(tmp_path))
    (run.dir / "job.log").write_text("job script\n0: zero\n1: one\n")
    assert python(made, program) == "job script\n1: one\n"


@pytest.mark.release
@pytest.mark.slow
def test_the_example_notebook_runs(own_project):
    """The script of examples/notebooks, cell by cell as jupytext would pair it."""
    text = (ROOT / "examples/notebooks/compare_runs.py").read_text(encoding="utf-8")
    assert "formats: ipynb,py:percent" in text
    assert text.count("\n# %%\n") == text.count("\n# %% [markdown]\n") >= 5
    call(own_project, "lab", "data", "pack", "digits")
    call(own_project, "lab", "train", "trial=baseline", *SHORT)
    output = python(own_project, text, at=trial_folder(own_project, "baseline"))
    assert "baseline" in output
    assert "val/loss" in output
    assert "151498 parameters" in output


SUBMIT = """
import time
from labrig import load, logs, queue, runs, submit
(sent,) = submit("trial=baseline", "seed=31", "site=workstation", "trainer.max_steps=5", batch=False)
ended = time.monotonic() + 240
while runs("seed=31")[0]["status"] in ("queued", "running") and time.monotonic() < ended:
    time.sleep(1)
while "cost: " not in logs(sent.run_id) and time.monotonic() < ended:
    time.sleep(1)  # its last line comes after the status
(run,) = runs("seed=31")
print(run["status"], run["run_id"] == sent.run_id)
print(logs(sent.run_id))
"""


@pytest.mark.slow
def test_a_notebook_submits_a_job_and_reads_its_log(home):
    output = python(home, SUBMIT)
    assert "finished True" in output
    assert "attempt 1" in output, "the head of its log"
    assert "cost: " in output, "the end of its log"


@pytest.mark.release
@pytest.mark.slow
def test_make_kernel_registers_the_environment(light, tmp_path):
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
        "    client.execute_interactive('from labrig import runs; print(runs())', timeout=120)\n"
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
