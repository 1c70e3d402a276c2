"""Jobs on a real Grid Engine of one node (schedulers/gridengine_up.sh). Needs root; `make test-cluster`."""

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from projects import ROOT, call, equip
from slurm_jobs import SLOW, WAIT_S, json_of, needs_root, only_user, wait_until

SCRIPTS = ROOT / "tests/helpers/schedulers"
FOLDER = Path(tempfile.gettempdir()) / "lab-test-gridengine"
SITE = """\
scheduler: gridengine
internet: {jobs: false, login: true}
paths: {runs: runs, checkpoints: null, data: [data], scratch: null, environment: .venv}
job: {gpus: 0, time: "00:10:00"}
launcher: mpirun
requeue: {method: exit99, lead_s: 60, max: 5}
"""
pytestmark = needs_root


@pytest.fixture(scope="module")
def lab(project, tmp_path_factory):
    """lab(*words) runs a command on the node, in a project with data; `lab.folder` is the project."""
    with only_user(FOLDER):
        done = subprocess.run(
            [SCRIPTS / "gridengine_up.sh", FOLDER], capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, done.stderr
        folder = shutil.copytree(project, tmp_path_factory.mktemp("gridengine") / "myproj")
        (folder / "src/myproj/slow.py").write_text(SLOW)
        (folder / "src/myproj/conf/site").mkdir()
        (folder / "src/myproj/conf/site/ge.yaml").write_text(SITE)
        equip(folder)

        def lab(*words, **options):
            return call(folder, SCRIPTS / "gridengine_in.sh", FOLDER, "lab", *words, **options)

        lab("data", "pack", "digits")
        lab.folder = folder
        yield lab
        subprocess.run([SCRIPTS / "gridengine_down.sh", FOLDER], timeout=60, check=True)
        shutil.rmtree(FOLDER)


def submit(lab, *words):
    """What --json says of a submission; words from "--" on are the command."""
    place = words.index("--") if "--" in words else len(words)
    settings = ["trial=baseline", "site=ge", *words[:place], "--no-batch", "--json"]
    return json_of(lab("submit", *settings, *words[place:]))


def training(step_s, *words):
    slow = ["callbacks.slow._target_=myproj.slow.Slow", f"callbacks.slow.step_s={step_s}"]
    return [
        "trainer=cpu",
        "trainer.max_epochs=3",
        "log.every_n_steps=4",
        "trainer.threads=1",
        *slow,
        *words,
    ]


def inside(*command):
    return subprocess.run(
        [SCRIPTS / "gridengine_in.sh", FOLDER, *command], capture_output=True, text=True, timeout=60
    ).stdout


def ended(lab, sent):
    """Waits until Grid Engine no longer knows the job, and returns its log."""
    wait_until(
        lambda: sent["job_id"].partition(".")[0] not in inside("qstat", "-u", "*"),
        f"job {sent['job_id']} over",
    )
    return Path(sent["log"]).read_text()


def status(sent):
    return json.loads((Path(sent["run_dir"]) / "summary.json").read_text())["status"]


def test_a_job_runs_and_cleans_up(lab):
    sent = submit(lab, *training(0.0))
    assert sent["run_id"] in lab("queue")
    assert "ended with code 0" in ended(lab, sent)
    assert status(sent) == "finished"
    assert lab("queue").startswith("no jobs")
    assert not [name for name in inside("ls", "/dev/shm").split() if name.startswith("lab-")]


def test_an_array_runs_every_point(lab):
    sent = submit(lab, *training(0.0, "seed=1,2,3", "job.throttle=2"))
    assert [one["job_id"].partition(".")[2] for one in sent] == ["1", "2", "3"]
    for one in sent:
        assert "ended with code 0" in ended(lab, one)
        assert status(one) == "finished"
    seeds = [json.loads((Path(one["run_dir"]) / "run.json").read_text())["seed"] for one in sent]
    assert seeds == [1, 2, 3]


def test_one_run_of_an_array_can_be_cancelled(lab):
    first, second = submit(lab, "seed=1,2", "--", "sleep", "300")
    wait_until(lambda: "running" in lab("queue"), "the array runs")
    lab("cancel", second["run_id"])
    wait_until(lambda: second["run_id"] not in lab("queue"), "the second is over")
    assert first["run_id"] in lab("queue")
    lab("cancel", first["run_id"])
    wait_until(lambda: lab("queue").startswith("no jobs"), "both are over")


def test_a_job_that_was_killed_says_so(lab):
    sent = submit(lab, "--", "sleep", "300")
    wait_until((Path(sent["run_dir"]) / "attempts/1/start.json").exists, "the start")
    inside("pkill", "-KILL", "-f", f"job_scripts/{sent['job_id']}$")
    ended(lab, sent)
    words = f"{sent['job_id']} on ge: killed from outside, by qdel or for more memory"
    wait_until(lambda: "killed" in lab("runs", "show", sent["run_id"]), "the accounting", 60)
    assert words in lab("runs", "show", sent["run_id"])


def test_before_the_time_limit_it_saves_and_the_scheduler_starts_it_again(lab):
    import torch

    whole = submit(lab, *training(0.0))
    ended(lab, whole)
    sent = submit(lab, *training(1.6), "job.time=00:01:20")  # the warning comes after 20 s
    log = ended(lab, sent)
    assert "saved; resuming after requeue 1" in log
    attempts = [path.name for path in (Path(sent["run_dir"]) / "attempts").iterdir()]
    assert sorted(attempts) == ["1", "2"]
    states = [
        torch.load(Path(one["run_dir"]) / "checkpoints/last.ckpt", weights_only=True)["state_dict"]
        for one in (whole, sent)
    ]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_a_cancelled_job_saves_and_is_not_started_again(lab):
    sent = submit(lab, *training(0.5))
    metrics = Path(sent["run_dir"]) / "metrics.jsonl"
    wait_until(metrics.exists, "training", WAIT_S)
    lab("cancel", sent["run_id"])
    ended(lab, sent)
    assert status(sent) == "interrupted"
    assert (Path(sent["run_dir"]) / "checkpoints/last.ckpt").exists()
    assert lab("queue").startswith("no jobs")


def test_a_chain_resumes_where_a_chunk_stopped_and_ends_with_the_run(lab):
    chunks = ["job.time=00:30:00", "job.chunk=00:10:00", "site.requeue.method=none"]
    sent = submit(lab, *training(0.3, *chunks))
    first, second, third = sent["chain"]
    metrics = Path(sent["run_dir"]) / "metrics.jsonl"
    wait_until(metrics.exists, "training", WAIT_S)
    start = json.loads((Path(sent["run_dir"]) / "attempts/1/start.json").read_text())
    inside("kill", "-USR2", str(start["pid"]))  # as shortly before the time limit
    log = ended(lab, sent | {"job_id": second})
    assert "stopped and saved; chunk 2 of 3 resumes it" in log
    assert status(sent) == "finished"
    shown = json.loads(lab("runs", "show", second, "--json"))
    ids = [attempt["start"]["job"]["id"].partition("_")[0] for attempt in shown["attempts"]]
    assert ids == [first, second]
    ended(lab, sent | {"job_id": third})
    assert not (Path(sent["run_dir"]) / "attempts/3").exists()


def test_a_profile_is_drafted_and_verified_by_a_job(lab, tmp_path):
    output = lab("site", "init", "drafted")
    try:
        assert "name: all.q" in output
        assert "# parallel environment node" in output
        settings = ["site=drafted", "job.gpus=0", "job.queue=all.q"]
        verified = lab("site", "verify", *settings, XDG_CONFIG_HOME=str(tmp_path))
        assert "drafted is verified: 1 node, CPU" in verified
    finally:
        (lab.folder / "src/myproj/conf/site/drafted.yaml").unlink()


def test_a_command_keeps_its_exit_code(lab):
    sent = submit(lab, "--", "bash", "-c", "exit 7")
    assert "ended with code 7" in ended(lab, sent)
    assert status(sent) == "failed"
