"""Small things that users of centres met: ports of arrays, names, shells, quotes, and profiles with a slip."""

import os
import re
import subprocess

import pytest
from job_scripts import ANN, job_request, job_script, request_of
from labrig.cluster.schedulers import scheduler_of
from labrig.cluster.sites.site import load_site
from labrig.cluster.submit.script import library_template
from labrig.config.overrides import parse_overrides
from labrig.errors import LabError
from labrig.failure import shown_path
from labrig.project import read_yaml


@pytest.fixture(autouse=True)
def no_settings_of_a_user(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def ports(scheduler, numbers, indices):
    """The port of each task of arrays with these numbers, as the job script computes it."""
    lines = "\n".join(re.findall(r"^(?:NUMBER|MASTER_PORT)=.*$", library_template(scheduler), re.M))
    script = (
        f"for n in {numbers}; do for LAB_INDEX in {indices}; do JOB=${{n}}_$LAB_INDEX\n{lines}\n"
    )
    script += "echo $MASTER_PORT; done; done"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    return list(map(int, done.stdout.split()))


@pytest.mark.parametrize("scheduler", ["pbs", "gridengine", "lsf", "pjm"])
def test_tasks_of_arrays_on_a_node_meet_at_different_ports(scheduler):
    of_tasks = ports(scheduler, "100 101 102 119", "{0..40}")
    assert len(set(of_tasks)) == len(of_tasks) == 4 * 41
    of_one = ports(scheduler, "123456", "{0..2000}")
    assert len(set(of_one)) == 2001
    assert all(20000 <= port < 30000 for port in of_one)


@pytest.mark.parametrize(
    ("name", "taken"),
    [("3dslicer", "job-3dslicer"), ("wide", "wide"), ("a b/c:d@e*f?,", "a_b_c_d_e_f__")],
)
def test_grid_engine_takes_the_name_of_any_job(name, taken, tmp_path):
    request = request_of(load_site(ANN, "tsubame4"))
    request = type(request)(**vars(request) | {"name": name})
    options = scheduler_of("gridengine").directives(request, tmp_path / "20261120-1", 1, 1)
    assert f"-N {taken}.20261120-1" in options


def test_pbs_reads_the_script_with_bash():
    assert "\n#PBS -S /bin/bash\n" in job_script("abci3")
    shell = scheduler_of("pbs").shell_words(job_request("abci3", is_shell=True))
    assert "-S" not in shell


@pytest.mark.parametrize(
    ("typed", "to_type"),
    [
        ("job.extra=[--gres=gpu:a100:2]", """'job.extra=["--gres=gpu:a100:2"]'"""),
        ("job.extra=[--a=b, '--c=d']", """'job.extra=["--a=b","--c=d"]'"""),
        ("job.extra=--gres=gpu:a100:2", """'job.extra=["--gres=gpu:a100:2"]'"""),
        ("paths.data=[a:b=c]", """'paths.data=["a:b=c"]'"""),
    ],
)
def test_a_list_without_inner_quotes_says_how_to_quote_it(typed, to_type):
    with pytest.raises(LabError) as caught:
        parse_overrides([typed])
    assert str(caught.value).endswith(to_type)
    (override,) = parse_overrides([to_type.strip("'")])
    assert "--gres" in str(override.value()) or "=" in str(override.value())


def test_a_directory_is_shown_in_full_from_a_node_s_copy_of_the_code(tmp_path, monkeypatch):
    run_dir = tmp_path / "project/runs/baseline/20261120-1"
    run_dir.mkdir(parents=True)
    node = tmp_path / "node/code"
    node.mkdir(parents=True)
    (node / "runs").symlink_to(tmp_path / "project/runs")
    monkeypatch.chdir(node)
    assert shown_path(run_dir) == str(run_dir)
    monkeypatch.chdir(tmp_path / "project")
    assert shown_path(run_dir) == os.path.join("runs", "baseline", "20261120-1")


def site_with(**values):
    return load_site(ANN, "slurm", read_yaml(load_site(ANN, "slurm").path) | values)


@pytest.mark.parametrize(
    ("profile", "words"),
    [
        ({"options": ["--x={gpu}"]}, "did you mean: gpus"),
        ({"resources": [{"gpus": "any", "options": ["--x={gpu}"]}]}, "did you mean: gpus"),
        ({"options": ["--x={gpus!z}"]}, "cannot be filled in"),
        ({"options": ["--x={gpus:z}"]}, "cannot be filled in"),
        ({"options": ["--x={gpus"]}, "A brace that stands for itself"),
        ({"queues": [{"name": "a", "max_nodes": 1}]}, "a gives at most 1 node"),
        ({"queues": [{"name": "a", "max_h": None, "max_gpus": 0}]}, "a gives at most 0 GPUs"),
    ],
)
def test_a_slip_in_a_profile_ends_in_one_line(profile, words, monkeypatch):
    monkeypatch.chdir(os.path.join(os.path.dirname(__file__), "../project"))
    with pytest.raises(LabError, match=re.escape(words)):
        request_of(site_with(**profile), nodes=2, time="30h")


def test_a_queue_without_a_limit_of_time_takes_any(monkeypatch):
    site = site_with(queues=[{"name": "a", "option": "--partition={queue}"}])
    for job in ({"time": "3000h"}, {"queue": "a"}, {"is_shell": True}):
        assert "--partition=a" in request_of(site, **job).options
