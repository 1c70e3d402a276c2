"""Profiles and job scripts: every site's texts are stored, checked by shellcheck, and refuse what the site forbids."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from conftest import ROOT

GOLDEN = ROOT / "tests/golden/jobs"
SITES = sorted(
    path.stem for path in (ROOT / "template/src/{{package_name}}/lab/conf/site").glob("*.yaml")
)
SHAPES = {"1gpu": (1, 1, 1), "1node": (1, None, 1), "2nodes": (2, None, 1), "array": (1, 1, 3)}
WORK = Path("/home/ann/myproj")


@pytest.fixture
def lab(module, monkeypatch, tmp_path):
    """The modules under test, for a user without settings of their own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("LAB_SITE_PATH", raising=False)
    names = (
        "config.overrides",
        "cluster.plan",
        "cluster.request",
        "cluster.scheduler",
        "cluster.site",
        "errors",
        "project",
        "machine.gpu",
        "cluster.script",
        "cluster.job_size",
        "cluster.local",
    )
    lab = SimpleNamespace(**{name.rpartition(".")[2]: module(name) for name in names})
    lab.here = lab.project.Project(WORK, "myproj")
    return lab


@pytest.fixture
def job_text(lab):
    """job_text(site, **job) is the text of a job script."""

    def job_text(name, nodes=1, gpus=1, n_runs=1, **job):
        profile = lab.site.load_site(lab.here, name)
        per_node = profile["gpu"]["per_node"]
        gpus = gpus or (4 if per_node == float("inf") else per_node)
        account = "abc" if profile["account"]["required"] else None
        job = {"nodes": nodes, "gpus": gpus, "account": account} | job
        plan = lab.plan.Plan(
            project=lab.here,
            site=profile,
            request=lab.request.build_request(profile, job, "wide", n_runs),
            points=[],
            command=[str(WORK / ".venv/bin/python"), "-m", "myproj.lab", "rank"],
            throttle=2,
            runs=WORK / "runs",
            scratch=WORK,
            trains=True,
        )
        runs = [WORK / f"runs/wide/20261120-19000{i}-abcdef" for i in range(n_runs)]
        return lab.script.render_script(
            plan, runs, WORK / "runs/.code/c0ffee.tar", {"commit": "c0ffee", "prefix": ""}
        )

    return job_text


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", SITES)
def test_job_script_is_the_stored_one(name, shape, lab, job_text, project, pytestconfig):
    nodes, gpus, n_runs = SHAPES[shape]
    try:
        text = job_text(name, nodes, gpus, n_runs)
    except lab.errors.LabError as error:
        text = f"lab: {error}\n".replace(str(project), "")
    file = GOLDEN / f"{name}-{shape}.sh"
    if pytestconfig.getoption("--regenerate"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8"), (
        f"read the difference, then: pytest --regenerate {__file__}"
    )


@pytest.mark.skipif(
    not shutil.which("shellcheck"), reason="shellcheck is not installed: apt install shellcheck"
)
def test_job_scripts_pass_shellcheck():
    scripts = [path for path in GOLDEN.glob("*.sh") if path.read_text().startswith("#!")]
    assert len(scripts) >= 4 * (len(SITES) - 1)
    command = ["shellcheck", "--format=gcc", *scripts, *(ROOT / "tests/cluster").glob("*.sh")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == ""
    assert done.returncode == 0


def test_an_ampersand_in_a_constraint_is_quoted(job_text):
    assert "#SBATCH --constraint='gpu&hbm80g'\n" in job_text("slurm", constraint="gpu&hbm80g")


def test_every_job_key_reaches_slurm(job_text):
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
        ("slurm", {"tasks_per_node": 2}, "share a GPU"),
        ("slurm", {"nodes": 0}, "at least 1"),
        ("slurm", {"cpus_per_task": "many"}, "whole number"),
    ],
)  # fmt: skip
def test_what_a_site_forbids_is_refused_before_sending(name, job, rule, lab, job_text):
    with pytest.raises(lab.errors.LabError, match=re.compile(rule, re.S)):
        job_text(name, **job)


def test_an_array_larger_than_a_queue_allows_goes_to_the_next_queue(job_text):
    assert "--qos=qos_gpu_h100-dev" in job_text("jean_zay_h100", n_runs=10)
    assert "--qos=qos_gpu_h100-t3" in job_text("jean_zay_h100", n_runs=11)


def test_the_account_comes_from_the_users_configuration(tmp_path, job_text):
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab/accounts.yaml").write_text("jean_zay: abc\nlanta: lt123456\n")
    assert "--account=abc@h100\n" in job_text("jean_zay_h100", account=None)
    assert "--account=abc@v100\n" in job_text("jean_zay_v100", account=None)
    assert "--account=lt123456\n" in job_text("lanta", account=None)


@pytest.mark.parametrize("name", SITES)
def test_every_fact_of_a_profile_has_a_source_and_a_confidence(name, lab):
    profile = lab.site.load_site(lab.here, name)
    told = profile["confidence"]
    facts = yaml.safe_load(profile.text).keys() & {
        "gpu", "account", "resources", "queues", "options", "launcher", "launcher_options", "modules", "node_local",
        "requeue", "cost", "home_writable",
    }  # fmt: skip
    named = {key.partition(".")[0] for key in told}
    assert facts - named - ({"gpu"} if name == "slurm" else set()) == set()
    for mark, source in told.values():
        assert mark in ("V", "D", "U", "?")
        assert source in profile["sources"]
    assert all(
        "seen" in source and ("url" in source or "what" in source)
        for source in profile["sources"].values()
    )
    if name not in ("slurm", "workstation"):
        assert not profile["verified"]  # nobody on the project has run there


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("scheduler: slrum\n", "one of"),
        ("schedular: slurm\n", "did you mean: scheduler"),
        ("internet: 3\n", "internet must be true or false"),
        ("queues: {a: 1}\n", "queues must be a list"),
        ("queues: [gpu]\n", r"queues\[0\] must be a section"),
        ("queues:\n  - {name: gpu, max_hours: 3}\n", r"queues\[0\].max_hours"),
        ("paths: {runs: [a]}\n", "paths.runs"),
    ],
)
def test_a_profile_that_breaks_the_rules_is_named(text, message, lab):
    with pytest.raises(lab.errors.LabError, match=message):
        lab.site.checked(yaml.safe_load(f"scheduler: slurm\n{text}"), "x.yaml")


def test_a_login_node_chooses_its_site(lab):
    assert lab.site.site_of_host(lab.here, "jean-zay3.idris.fr") == "jean_zay_v100"
    assert lab.site.site_of_host(lab.here, "laptop") is None


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
def test_times(text, seconds, lab):
    assert lab.job_size.parse_seconds(text) == seconds
    assert lab.job_size.parse_seconds(lab.job_size.format_hms(seconds)) == seconds


def test_an_early_time_limit_keeps_most_of_the_job(lab):
    profile = lab.site.load_site(lab.here, "slurm")
    assert lab.request.build_request(profile, {"time": "00:04:00"}, "x").lead_s == 60
    assert lab.request.build_request(profile, {}, "x").lead_s == 120


def test_lists_become_points_in_the_order_typed(lab):
    points = lab.overrides.sweep_points
    assert points(["trial=wide", "seed=0,1", "optimizer.lr=1e-3,3e-4"]) == [
        ["trial=wide", "seed=0", "optimizer.lr=0.001"],
        ["trial=wide", "seed=0", "optimizer.lr=0.0003"],
        ["trial=wide", "seed=1", "optimizer.lr=0.001"],
        ["trial=wide", "seed=1", "optimizer.lr=0.0003"],
    ]
    assert points(["model.sizes=[1,2]", "seed=range(0,3)"])[2] == ["model.sizes=[1,2]", "seed=2"]
    with pytest.raises(lab.errors.LabError, match="key=a,b,c"):
        points(["optimizer.lr=interval(0,1)"])


def test_a_job_inherits_nothing_of_the_job_it_is_sent_from(lab, monkeypatch):
    inherited = (
        "SLURM_CPU_BIND",
        "SLURM_NTASKS",
        "SBATCH_PARTITION",
        "PMI_RANK",
        "LAB_RUN_DIR",
        "MASTER_PORT",
        "RANK",
    )
    kept = ("SLURM_CONF", "LAB_SITE_PATH", "SGE_ROOT", "HOME", "PATH")
    for name in (*inherited, *kept):
        monkeypatch.setenv(name, "x")
    clean = lab.scheduler.clean_environment()
    assert not set(inherited) & set(clean)
    assert set(kept) <= set(clean)


def test_the_emptiest_gpus_are_taken_and_a_full_one_refused(lab):
    def there(*fields):
        return [["0", "100", "1000"], ["1", "900", "1000"], ["2", "800", "1000"]]

    emptiest = lab.gpu.least_used_gpus
    assert emptiest(2, asked=there) == ["1", "2"]
    assert emptiest(3, 0, asked=there) == ["1", "2", "0"]
    with pytest.raises(lab.errors.Refused, match="GPU 0 is the emptiest left"):
        emptiest(3, asked=there)
    with pytest.raises(lab.errors.Refused, match="850 MB are needed"):
        emptiest(2, 850, asked=there)
    with pytest.raises(lab.errors.Refused, match="has 3 NVIDIA GPUs"):
        emptiest(4, asked=there)


PBS = {  # as qstat -t -f -F json of PBS Pro 2022 documents it
    "12.pbs1": {
        "Job_Owner": "ann@login1",
        "job_state": "R",
        "resources_used": {"walltime": "01:02:03"},
    },
    "13[2].pbs1": {
        "Job_Owner": "ann@login1",
        "job_state": "Q",
        "comment": "Not Running: too few nodes",
    },
    "14.pbs1": {"Job_Owner": "bob@login1", "job_state": "R"},
    "15.pbs1": {"Job_Owner": "ann@login1", "job_state": "F"},
}


@pytest.mark.parametrize(
    ("name", "sent", "ids", "listed", "known"),
    [
        (
            "slurm", "40;cluster\n", ["40_0", "40_1"], "40_0|RUNNING|None|1-00:00:10\n40_1|PENDING|Dependency|0:00\n",
            {"40_0": ("running", "", 86410), "40_1": ("queued", "waiting for the job it depends on", 0)},
        ),
        (
            "pbs", "13[].pbs1\n", ["13[0]", "13[1]"], json.dumps({"Jobs": PBS}),
            {"12": ("running", "", 3723), "13[2]": ("queued", "Not Running: too few nodes", 0)},
        ),
        (
            "pjm", "[INFO] PJM 0000 pjsub Job 77 submitted.\n", ["77[0]", "77[1]"],
            "H,JOB_ID,ST,ELAPSE\n,77[0],RUN,0000:10:00\n,77[1],QUE,0000:00:00\n",
            {"77[0]": ("running", "", 600), "77[1]": ("queued", "QUE", 0)},
        ),
    ],
)  # fmt: skip
def test_what_schedulers_answer_is_understood(
    name, sent, ids, listed, known, lab, monkeypatch, tmp_path
):
    monkeypatch.setenv("LOGNAME", "ann")
    scheduler, request = lab.local.scheduler_of(name), SimpleNamespace(submit_options=[])
    monkeypatch.setattr(lab.scheduler, "call", lambda *command, **_: sent)
    assert scheduler.send(request, tmp_path / "job.sh", 2) == ids
    monkeypatch.setattr(lab.scheduler, "call", lambda *command, **_: listed)
    assert scheduler.jobs() == {
        job_id: lab.scheduler.JobState(*state) for job_id, state in known.items()
    }
    monkeypatch.setattr(lab.scheduler, "call", lambda *command, **_: "")
    with pytest.raises(lab.errors.Failed, match="took nothing"):
        scheduler.send(request, tmp_path / "job.sh", 1)
