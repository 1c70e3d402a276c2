"""job.gpu_type in each dialect, and the cores and memory that belong to a GPU: chosen, said, never one core unsaid."""

import os
import re

import pytest
from job_scripts import ANN, job_request, job_settings, request_of
from labrig.cluster.sites.choices import cores_of_partition
from labrig.cluster.sites.rules import build_request
from labrig.cluster.sites.site import load_site
from labrig.errors import LabError
from labrig.project import read_yaml, say_once

# as sinfo --format=%P|%a|%l|%G|%c prints it
SINFO = """cpu*|up|infinite|(null)|64
gpu|up|1-00:00:00|gpu:a100:8(S:0-1)|96
gpu|up|1-00:00:00|gpu:v100:4|40
mixed|up|2:00:00|gpu:h100:4|128+
"""


@pytest.fixture(autouse=True)
def sinfo(tmp_path, monkeypatch):
    """sinfo(text, rc): what Slurm says of its partitions from now on."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    def write(text=SINFO, rc=0):
        (tmp_path / "answer").write_text(text)
        (tmp_path / "sinfo").write_text(f'#!/bin/sh\ncat "{tmp_path}/answer"\nexit {rc}\n')
        (tmp_path / "sinfo").chmod(0o755)

    write()
    return write


def site_with(name, **values):
    return load_site(ANN, name, read_yaml(load_site(ANN, name).path) | values)


LSF_GPUS = {"gpus": "any", "options": ['-gpu "num={gpus}:mode=exclusive_process"']}


@pytest.mark.parametrize(
    ("site", "job", "option"),
    [
        (("slurm", {}), {"gpus": 2, "gpu_type": "a100"}, "--gres=gpu:a100:2"),
        (("slurm", {}), {"gpu_type": "h100_3g.40gb"}, "--gres=gpu:h100_3g.40gb:1"),
        (("slurm", {}), {"gpu_type": 4090}, "--gres=gpu:4090:1"),
        (
            ("lanta", {"gpu": {"per_node": 4}}),
            {"gpus": 4, "gpu_type": "a100"},
            "--gpus-per-node=a100:4",
        ),
        (("lanta", {}), {"gpus": 4, "gpu_type": "A100"}, "--gpus-per-node=4"),
        (
            ("lsf", {"resources": [LSF_GPUS]}),
            {"gpus": 2, "gpu_type": "TeslaV100"},
            '-gpu "num=2:gmodel=TeslaV100:mode=exclusive_process"',
        ),
        (("tsubame4", {}), {"gpu_type": "mig"}, "-l gpu_h=1"),
        (("tsubame4", {}), {"gpu_type": "h100"}, "-l gpu_1=1"),
        (("abci3", {}), {"gpus": 8, "gpu_type": "h200"}, "-l select=1:mpiprocs=8"),
        (("wisteria_a", {}), {"gpus": 2, "gpu_type": "a100"}, "-L gpu=2"),
        (
            ("miyabi_g", {"resources": [{"gpus": 1, "options": ["-l select=1:gpu={gpu_type}"]}]}),
            {"gpu_type": "x"},
            "-l select=1:gpu=x",
        ),
    ],
)
def test_a_type_of_gpu_is_asked_for_in_the_words_of_the_site(site, job, option):
    name, values = site
    assert option in request_of(site_with(name, **values), **job).options


@pytest.mark.parametrize(
    ("site", "job", "words"),
    [
        ("abci3", {"gpu_type": "a100"}, r"known there: h200\.\n.*'job.extra=\[\"-l gpu_model=a100\"\]'"),
        ("tsubame4", {"gpu_type": "a100"}, r"known there: h100, mig\.\n.*-l gpu_type=a100"),
        ("wisteria_a", {"gpu_type": "h100"}, "known there: a100.*job.extra"),
        ("slurm", {"gpus": 0, "gpu_type": "a100"}, r"Leave out job\.gpu_type"),
        ("slurm", {"gpu_type": "a100:2"}, r"how many: job\.gpus"),
    ],
)  # fmt: skip
def test_where_there_is_no_such_thing_it_is_refused_with_the_line_to_write(site, job, words):
    with pytest.raises(LabError, match=re.compile(words, re.S)):
        job_request(site, **job)


def test_half_a_gpu_is_given_only_to_who_asks_for_it():
    assert "-l gpu_1=1" in job_request("tsubame4").options


def request_with_cores(site, **job):
    settings = job_settings(**job)
    return build_request(site, settings, "wide", cores=cores_of_partition(site, settings))


@pytest.mark.parametrize(
    ("job", "cores", "why"),
    [
        ({"gpus": 8, "queue": "gpu"}, 10, "10 for each GPU, as a node of gpu has 40 cores and 4 GPUs"),
        ({"gpus": 8, "queue": "gpu", "gpu_type": "a100"}, 12, "gpu has 96 cores and 8 GPUs"),
        ({"gpus": 4, "queue": "mixed", "tasks_per_node": 2}, 64, "32 for each GPU"),
        ({"gpus": 2}, 10, "10 for each GPU"),  # the default partition has no GPUs
        ({"gpus": 8, "cpus_per_task": 3}, 3, "job.cpus_per_task"),
        ({"gpus": 0}, 1, "or its default"),
    ],
)  # fmt: skip
def test_cores_belong_to_gpus_as_the_partition_says(job, cores, why):
    request = request_with_cores(site_with("slurm"), **job)
    assert f"--cpus-per-task={cores}" in request.options
    assert why in request.why[0]


def test_the_profile_comes_before_the_scheduler(sinfo):
    sinfo("", rc=1)
    site = site_with("slurm", job={"gpus": 1, "cpus_per_gpu": 6, "mem_per_gpu": "60G"})
    request = request_with_cores(site, gpus=2)
    assert "--cpus-per-task=6" in request.options
    assert "--mem=120000M" in request.options
    assert "cpus_per_gpu in" in request.why[0]
    assert "60G for each GPU, mem_per_gpu in" in request.why[1]
    assert "scheduler's default" in request_with_cores(site_with("slurm"), gpus=0).why[1]


@pytest.mark.parametrize("answer", [("", 1), ("cpu*|up|infinite|(null)|64\n", 0)])
def test_one_core_is_never_asked_for_without_a_word(sinfo, answer, capsys):
    say_once.cache_clear()
    sinfo(*answer)
    request = request_with_cores(site_with("slurm"), gpus=8)
    assert "--cpus-per-task=1" in request.options
    assert "each process gets one core" in capsys.readouterr().err
