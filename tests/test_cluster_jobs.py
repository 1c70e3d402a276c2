"""Profiles and job scripts: every site's texts are stored, checked by shellcheck, and refuse what the site forbids."""

import importlib
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from conftest import ROOT

GOLDEN = ROOT / "tests/golden/jobs"
sys.path.insert(0, str(ROOT / "template/src"))
LAB = "{{package_name}}.lab."  # plain Python: it runs as it lies in the template
site, request_, script, project, errors = (
    importlib.import_module(LAB + name)
    for name in ("cluster.site", "cluster.request", "cluster.script", "project", "errors")
)
SITES = sorted(path.stem for path in (ROOT / "template/src/{{package_name}}/lab/conf/site").glob("*.yaml"))
SHAPES = {"1gpu": (1, 1, 1), "1node": (1, None, 1), "2nodes": (2, None, 1), "array": (1, 1, 3)}
PROJECT = project.Project(Path("/work/ann/myproj"), "myproj")


@pytest.fixture(autouse=True)
def _no_user_configuration(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("LAB_SITE_PATH", raising=False)


def job_text(name, nodes=1, gpus=1, n_runs=1, **job):
    profile = site.load_site(PROJECT, name)
    gpus = gpus or (profile["gpu"] or {}).get("per_node") or 4
    account = "abc" if (profile["account"] or {}).get("required") else None
    request = request_.complete(profile, {"nodes": nodes, "gpus": gpus, "account": account} | job, "wide", n_runs)
    runs = [PROJECT.root / f"runs/wide/20261120-19000{i}-abcdef" for i in range(n_runs)]
    what = script.Job(
        title="Run 20261120-190000-abcdef of trial wide",
        run_dirs=runs,
        project=PROJECT.root,
        code=PROJECT.root / "runs/.code/c0ffee.tar",
        commit="c0ffee",
        prefix="",
        command=[str(PROJECT.root / ".venv/bin/python"), "-m", "myproj.lab", "rank"],
        package="myproj",
        throttle=2,
    )
    return script.render(profile, request, what)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", SITES)
def test_job_script_is_the_stored_one(name, shape, pytestconfig):
    nodes, gpus, n_runs = SHAPES[shape]
    try:
        text = job_text(name, nodes, gpus, n_runs)
    except errors.LabError as error:
        text = f"lab: {error}\n".replace(str(ROOT), "")
    file = GOLDEN / f"{name}-{shape}.sh"
    if pytestconfig.getoption("--regenerate"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8"), f"read the difference, then: pytest --regenerate {__file__}"


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="shellcheck is not installed: apt install shellcheck")
def test_job_scripts_pass_shellcheck():
    scripts = [path for path in GOLDEN.glob("*.sh") if path.read_text().startswith("#!")]
    assert len(scripts) >= 4 * (len(SITES) - 1)
    command = ["shellcheck", "--format=gcc", *scripts, *(ROOT / "tests/cluster").glob("*.sh")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == ""
    assert done.returncode == 0


def test_an_ampersand_in_a_constraint_is_quoted():
    assert "#SBATCH --constraint='gpu&hbm80g'\n" in job_text("slurm", constraint="gpu&hbm80g")


def test_every_job_key_reaches_slurm():
    text = job_text(
        "slurm", nodes=2, gpus=4, tasks_per_node=2, cpus_per_task=6, mem="64G", time="1-02:00:00", account="acc",
        queue="gpu", qos="high", constraint="a100", after="77", exclude="n3", mail="a@b.org", extra=["--comment=hello"],
    )  # fmt: skip
    directives = set(re.findall(r"^#SBATCH (.*)$", text, re.M))
    assert directives >= {
        "--nodes=2", "--gres=gpu:4", "--ntasks-per-node=2", "--cpus-per-task=6", "--mem=64G", "--time=26:00:00",
        "--account=acc", "--partition=gpu", "--qos=high", "--constraint=a100", "--dependency=afterok:77",
        "--exclude=n3", "--mail-user=a@b.org", "--comment=hello", "--signal=B:USR2@120", "--requeue", "--open-mode=append",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "job", "rule"),
    [
        ("jean_zay_h100", {"gpus": 5}, "4 GPUs.*gpu.per_node"),
        ("jean_zay_h100", {"time": "101:00:00"}, "qos_gpu_h100-t4 ends after 100 h"),
        ("jean_zay_h100", {"gpus": 4, "nodes": 20, "time": "30:00:00"}, "at most 64 GPUs"),
        ("jean_zay_h100", {"queue": "qos_gpu_h100-dev", "time": "3:00:00"}, "ends after 2 h"),
        ("jean_zay_a100", {"account": None}, "needs an account.*IDRIS"),
        ("lanta", {"account": "l t"}, "is no account name"),
        ("abci3", {"gpus": 2}, "no such resource type"),
        ("abci3", {"gpus": 1, "nodes": 2}, "no such resource type"),
        ("tsubame4", {"time": "25:00:00"}, "ends after 24 h"),
        ("workstation", {"nodes": 2}, "one machine"),
        ("workstation", {"mail": "a@b.org"}, "no counterpart"),
        ("slurm", {"time": "soon"}, "is no time"),
        ("slurm", {"tasks_per_node": 2}, "one GPU"),
        ("slurm", {"nodes": 0}, "at least 1"),
    ],
)  # fmt: skip
def test_what_a_site_forbids_is_refused_before_sending(name, job, rule):
    with pytest.raises(errors.LabError, match=re.compile(rule, re.S)):
        job_text(name, **job)


def test_an_array_larger_than_a_queue_allows_goes_to_the_next_queue():
    assert "--qos=qos_gpu_h100-dev" in job_text("jean_zay_h100", n_runs=10)
    assert "--qos=qos_gpu_h100-t3" in job_text("jean_zay_h100", n_runs=11)


def test_the_account_comes_from_the_users_configuration(tmp_path):
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab/accounts.yaml").write_text("jean_zay: abc\nlanta: lt123456\n")
    assert "--account=abc@h100\n" in job_text("jean_zay_h100", account=None)
    assert "--account=abc@v100\n" in job_text("jean_zay_v100", account=None)
    assert "--account=lt123456\n" in job_text("lanta", account=None)


@pytest.mark.parametrize("name", SITES)
def test_every_fact_of_a_profile_has_a_source_and_a_confidence(name):
    profile = site.load_site(PROJECT, name)
    told = profile["confidence"]
    facts = yaml.safe_load(profile.text).keys() & {
        "gpu", "account", "resources", "queues", "options", "launcher", "launcher_options", "modules", "node_local",
        "requeue", "cost", "home_writable",
    }  # fmt: skip
    named = {key.partition(".")[0] for key in told}
    assert facts - named - ({"gpu"} if name == "slurm" else set()) == set()
    for mark, source in told.values():
        assert mark in site.MARKS
        assert source in profile["sources"]
    assert all("seen" in source and ("url" in source or "what" in source) for source in profile["sources"].values())
    if name not in ("slurm", "workstation"):
        assert profile["verified"] is None  # nobody on the project has run there


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("scheduler: slrum\n", "one of"),
        ("schedular: slurm\n", "did you mean: scheduler"),
        ("internet: 3\n", "internet is 3"),
        ("queues: {a: 1}\n", "must be a list"),
        ("queues:\n  - {name: gpu, max_hours: 3}\n", r"queues\[0\].max_hours"),
        ("paths: {runs: [a]}\n", "paths.runs"),
    ],
)
def test_a_profile_that_breaks_the_schema_is_named(text, message):
    with pytest.raises(errors.LabError, match=message):
        site.check(yaml.safe_load(text), site.SCHEMA, "x.yaml")


def test_a_login_node_chooses_its_site():
    assert site.site_of_host(PROJECT, "jean-zay3.idris.fr") == "jean_zay_v100"
    assert site.site_of_host(PROJECT, "laptop") is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10:00:00", 36000),
        ("1-12:00:00", 129600),
        ("90m", 5400),
        ("10h", 36000),
        ("00:30", 1800),
        (7200, 7200),
        ("1.5h", 5400),
    ],
)
def test_times(text, seconds):
    assert request_.seconds(text) == seconds
    assert request_.seconds(request_.clock(seconds)) == seconds


def test_an_early_time_limit_keeps_most_of_the_job():
    profile = site.load_site(PROJECT, "slurm")
    assert request_.complete(profile, {"time": "00:04:00"}, "x").lead_s == 60
    assert replace(request_.complete(profile, {}, "x")).lead_s == 120
