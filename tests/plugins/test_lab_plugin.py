"""examples/lab_plugin: a package that is installed gives every project a site, a callback and a command."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from projects import ROOT, call, copy_project, equip


def install(source, target):
    """Installs a package, as `make add PACKAGE=../ourlab` would, into a directory for PYTHONPATH."""
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"),
            *("--no-build-isolation", "--target", str(target), str(source)),
        ],
        check=True,
    )
    return target


@pytest.fixture(scope="module")
def ourlab(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ourlab")
    shutil.copytree(ROOT / "examples/lab_plugin", folder / "source")
    return install(folder / "source", folder / "installed")


@pytest.fixture
def lab(ourlab, tmp_path):
    """Runs `lab` in a project beside the plug-in."""
    folder = equip(copy_project(tmp_path / "myproj"))
    path = os.pathsep.join(filter(None, [str(ourlab), os.environ.get("PYTHONPATH", "")]))

    def run(*words, **more):
        variables = {"PYTHONPATH": path, "OURLAB_LOGBOOK": str(tmp_path / "logbook.jsonl")}
        return call(folder, "lab", *words, **variables | more)

    run.folder = folder
    return run


@pytest.mark.release
@pytest.mark.slow
def test_its_site_is_one_like_the_others(lab):
    assert "ourcluster" in lab("site", "show", "ourcluster")
    script = lab(
        "submit", "--dry-run", "trial=baseline", "site=ourcluster", "job.gpus=2", "job.time=6h"
    )
    assert "#SBATCH --partition=long" in script
    assert "#SBATCH --gres=gpu:l40s:2" in script
    assert "#SBATCH --cpus-per-task=12" in script


@pytest.mark.release
@pytest.mark.slow
def test_its_callback_is_in_every_training_and_its_command_reads_what_that_wrote(lab, tmp_path):
    assert "the last trainings of our lab" in lab("--help")
    assert "the last trainings of our lab" in lab("logbook", "--help").replace("The", "the")
    lab("data", "pack", "digits")
    said = lab("train", "trial=baseline", "trainer.max_epochs=1", "trainer.devices=1")
    assert said.count("callbacks of plug-ins: logbook (ourlab 0.1.0)") == 1
    line = json.loads((tmp_path / "logbook.jsonl").read_text())
    assert line["trial"] == "baseline"
    assert line["metrics"]["val/acc"] > 0.3
    (run,) = (lab.folder / "runs/baseline").iterdir()
    start = json.loads((run / "attempts/1/start.json").read_text())
    assert start["callbacks"] == {"logbook": "ourlab 0.1.0"}
    assert "baseline" in lab("logbook")
    assert f"{line['metrics']['val/acc']:.4g}" in lab("logbook", "-n", "1")

    quiet = lab(
        "train",
        "trial=baseline",
        "trainer.max_epochs=1",
        "trainer.devices=1",
        "callbacks.logbook=null",
    )
    assert "callbacks of plug-ins" not in quiet
    assert len((tmp_path / "logbook.jsonl").read_text().splitlines()) == 1


def test_a_mistake_in_its_command_is_told_as_every_other(lab):
    with_blank = {"OURLAB_LOGBOOK": str(lab.folder / "none.jsonl")}
    assert lab("logbook", **with_blank).strip() == ""
    assert "unrecognized arguments" in lab("logbook", "--lines", "3", rc=2)
