# ruff: noqa: F811 (fixtures are imported by name)
"""examples/workflow on Slurm: Snakemake's own executor sends each step as a job. Needs root; of `make test-release`."""

import json
import shutil

import pytest
from projects import ROOT, call
from slurm_jobs import cluster, lab, needs_root, slurm  # noqa: F401

pytestmark = [*needs_root, pytest.mark.release]

WORKFLOW = "src/myproj/trials/workflow"
# What the profile leaves to the site: an account, a partition, and how to ask where there is no accounting.
OF_THIS_SLURM = ["--slurm-no-account", "--slurm-status-command", "squeue"]
SOON = ["--slurm-init-seconds-before-status-checks", "5"]
RESOURCES = ["slurm_partition=debug", "runtime=20", "mem_mb=2000", "cpus_per_task=1"]
NO_GPU = ["--set-resources", "train:gpu=0"]  # of the profile: those of this Slurm are none


def test_each_step_is_a_job_and_the_record_says_what_came_from_what(lab):
    shutil.copytree(ROOT / "examples/workflow", lab.folder / WORKFLOW)
    printed = call(
        lab.folder,
        "snakemake",
        *("-s", f"{WORKFLOW}/Snakefile", "--workflow-profile", f"{WORKFLOW}/slurm"),
        *(*OF_THIS_SLURM, *SOON, "--default-resources", *RESOURCES, *NO_GPU),
        *("--config", "epochs=1", "--nocolor", "--", "steps/temperature-0.run"),
        XDG_CACHE_HOME=str(lab.folder / ".cache"),
    )
    run_ids = [
        (lab.folder / f"steps/{step}-0.run").read_text().strip()
        for step in ("train", "temperature")
    ]
    (record_file,) = lab.folder.glob(f"runs/workflow/{run_ids[1]}/run.json")
    assert json.loads(record_file.read_text())["data_from"]["run"] == run_ids[0]
    hosts = [json.loads(lab("runs", "show", run_id, "--json"))["host"] for run_id in run_ids]
    assert set(hosts) <= {"c1", "c2"}, printed
    jobs = slurm("squeue", "--states=COMPLETED", "--noheader", "--format=%k").splitlines()
    assert {f"rule_{step}_wildcards_0" for step in ("train", "predict", "temperature")} <= {*jobs}
