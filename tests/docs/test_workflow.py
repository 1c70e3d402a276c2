"""examples/workflow: Snakemake runs the commands of its Snakefile, on this machine; and only what is missing."""

import json
import re
import shutil

import pytest
import yaml
from projects import ROOT, call, copy_project, equip
from trainings import last

EXAMPLE = ROOT / "examples/workflow"
SNAKEFILE = "src/myproj/trials/workflow/Snakefile"


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    folder = equip(copy_project(tmp_path_factory.mktemp("workflow") / "myproj"))
    shutil.copytree(EXAMPLE, folder / "src/myproj/trials/workflow")
    call(folder, "lab", "data", "pack", "digits")
    return folder


def snakemake(folder, *words):
    words = ("-s", SNAKEFILE, "--cores", "2", "--config", "epochs=1", "--nocolor", *words)
    return call(folder, "snakemake", *words, LAB_THREADS="1", XDG_CACHE_HOME=str(folder / ".cache"))


def run_of(folder, step):
    run_id = (folder / f"steps/{step}.run").read_text().strip()
    (directory,) = folder.glob(f"runs/*/{run_id}")
    return json.loads((directory / "run.json").read_text())


@pytest.mark.release
def test_the_workflow_makes_runs_that_say_what_they_came_from(own):
    snakemake(own)
    for seed in (0, 1):
        source = run_of(own, f"train-{seed}")
        step = run_of(own, f"temperature-{seed}")
        assert (source["seed"], step["trial"]) == (seed, "workflow")
        assert step["data_from"]["run"] == source["run_id"]
        assert step["data_from"]["file"] == "predictions/last-digits-val.h5"
        assert len(step["data_from"]["sha256"]) == 64
    longer = run_of(own, "longer")
    assert longer["init_from"]["run"] == run_of(own, "train-0")["run_id"]
    tree = call(own, "lab", "trials", "tree")
    assert f"data of {run_of(own, 'train-1')['run_id']} (baseline)" in tree or (
        f"data of {run_of(own, 'train-0')['run_id']} (baseline)" in tree
    )
    newest = last(own)["run_id"]
    assert "Nothing to be done" in snakemake(own)
    kept = (own / "steps/longer.run").read_text()
    (own / "steps/longer.run").unlink()  # Snakemake does not know any more, but the record does
    snakemake(own)
    assert (own / "steps/longer.run").read_text() == kept
    assert last(own)["run_id"] == newest


def test_the_profile_names_keys_of_the_executor():
    profile = yaml.safe_load((EXAMPLE / "slurm/config.yaml").read_text())
    assert profile["executor"] == "slurm"
    text = (EXAMPLE / "Snakefile").read_text()
    rules = set(re.findall(r"^rule (\w+):", text, re.M))
    assert rules == {"all", "train", "predict", "temperature", "longer"}
    assert set(profile["set-resources"]) <= rules
