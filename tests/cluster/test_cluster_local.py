"""A machine without a scheduler: the same commands, a detached process, a time limit."""

import json
import os
import platform
import re
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from labrig.cluster.schedulers import scheduler_of
from labrig.record.files.manifest import read_manifest
from projects import call
from slurm_jobs import SLOW, json_of, wait_until

# A job's time limit is a minute at least; this program allows less.
SHORT_LIMITS = """
from labrig.cluster.sites import rules as site_rules
site_rules.MIN_TIME_S = 1
from labrig.cli import main
main()
"""


@pytest.fixture
def lab(own_project):
    """lab(*words) in a project with a training that can be slow."""
    (own_project / "src/myproj/slow.py").write_text(SLOW)

    def lab(*words, **options):
        return call(own_project, "lab", *words, **options)

    lab.folder = own_project
    yield lab
    records = [json.loads(file.read_text()) for file in own_project.glob("runs/*/*/run.json")]
    job_ids = {(record.get("job") or {}).get("id") for record in records}

    def running():
        return job_ids & set(scheduler_of("local").jobs())

    with suppress(AssertionError):  # a job removes its copy of the code after its run has finished
        wait_until(lambda: not running(), "the jobs over", 30)
    for job_id in running():  # nothing is left running, whatever the test found
        os.killpg(int(job_id.partition("-")[0]), 9)


SETTINGS = [
    "trial=baseline",
    "site=workstation",
    "job.gpus=0",
    "trainer=cpu",
    "trainer.max_epochs=2",
]


def submit(lab, *words):
    """What --json says of a submission; words from "--" on are the command."""
    place = words.index("--") if "--" in words else len(words)
    return json_of(lab("submit", *SETTINGS, *words[:place], "--no-batch", "--json", *words[place:]))


def slow(step_s):
    return [
        "callbacks.slow._target_=myproj.slow.Slow",
        f"callbacks.slow.step_s={step_s}",
        "log.every_n_steps=2",
    ]


def status(sent):
    file = Path(sent["run_dir"]) / "summary.json"
    return json.loads(file.read_text())["status"] if file.exists() else None


@pytest.mark.release
@pytest.mark.slow
def test_packages_of_the_user_do_not_come_into_a_job(lab):
    ask = "import site; print('packages of the user:', site.ENABLE_USER_SITE)"
    sent = submit(lab, "--", sys.executable, "-c", ask)
    wait_until(lambda: status(sent), "the end")
    assert "packages of the user: False" in lab("logs", sent["run_id"])


@pytest.mark.release
def test_a_detached_job_can_be_seen_and_cancelled(lab):
    lab("data", "pack", "digits")
    sent = submit(lab, *slow(0.5))
    assert sent["run_id"] in lab("queue")
    wait_until((Path(sent["run_dir"]) / "metrics.jsonl").exists, "training")
    stacks = Path(sent["run_dir"]) / "attempts/1/stack-0.txt"
    assert stacks.name in lab("logs", sent["run_id"], "--stacks")
    assert "in on_train_batch_end" in stacks.read_text() or "train.py" in stacks.read_text()
    lab("cancel", sent["run_id"])
    wait_until(lambda: status(sent) == "interrupted", "the end")
    assert (Path(sent["run_dir"]) / "checkpoints/last.ckpt").exists()
    wait_until(lambda: lab("queue").strip() == "no jobs", "an empty queue")
    assert "as submitted" in lab("logs", sent["run_id"])


@pytest.mark.release
def test_a_waiting_task_is_cancelled_at_once_and_an_interrupted_run_continues_as_a_job(lab):
    """Reproductions 8 and 16 of the second log of a new user."""
    lab("data", "pack", "digits")
    sent = submit(lab, *slow(0.5), "seed=1,2")

    def begun():
        return [run for run in sent if (Path(run["run_dir"]) / "metrics.jsonl").exists()]

    wait_until(begun, "training")
    first, second = sorted(sent, key=lambda run: run not in begun())  # either may begin
    assert re.search(rf"{second['run_id']} .* queued ", lab("queue"))
    lab("cancel", second["run_id"])

    def state_of_second():
        return json.loads(lab("runs", "show", second["run_id"], "--json"))["status"]

    wait_until(lambda: state_of_second() == "cancelled", "the waiting ended", 10)
    assert status(first) is None, "the first one still trains"
    lab("cancel", first["run_id"])
    wait_until(lambda: status(first) == "interrupted", "the end")
    wait_until(lambda: lab("queue").startswith("no jobs"), "an empty queue")
    log = lab("logs", first["run_id"])
    assert "as lab cancel" in log
    assert "the scheduler asked" not in log
    twin = lab("submit", *SETTINGS, *slow(0.5), "seed=1", "--no-batch", "--dry-run")
    assert "@@" not in twin
    assert "is a trial, not a run" in lab("submit", "baseline", rc=2)
    assert "site=… and job.… only" in lab("submit", first["run_id"], "seed=3", rc=2)
    again = json_of(lab("submit", first["run_id"], "job.time=00:20:00", "--json"))
    assert again["run_id"] == first["run_id"]
    wait_until(lambda: status(first) == "finished", "the rest of the training")
    assert (Path(first["run_dir"]) / "attempts/2/start.json").exists()
    assert "nothing is left to do" in lab("submit", first["run_id"], rc=4)
    assert state_of_second() == "cancelled"


@pytest.mark.release
@pytest.mark.slow
def test_the_runs_of_an_array_go_one_after_the_other(lab):
    host = platform.node().partition(".")[0]
    killed = Path(f"/dev/shm/lab-4999999-{os.getuid()}-{host}")  # no such process
    killed.mkdir(exist_ok=True)
    go = lab.folder / "go"
    command = f"date +%s.%N; until test -e {go}; do sleep 0.1; done; sleep 1; date +%s.%N"
    sent = submit(lab, "seed=0,1", "--", "bash", "-c", command)
    for one in sent:  # written whole before it is sent, and once more with its id
        assert len(read_manifest(Path(one["run_dir"]))["run.json"]) == 2
    wait_until(lambda: " running " in lab("queue"), "the first run")
    queue = lab("queue")
    assert queue.count(" queued ") == queue.count(" running ") == 1
    assert "another run of its array is running" in queue
    assert lab("runs", "list").count(" queued ") == 1
    go.touch()
    wait_until(lambda: all(status(one) == "finished" for one in sent), "both runs")
    times = []
    for one in sent:
        lines = Path(one["log"]).read_text().splitlines()
        times.append(tuple(float(line) for line in lines if line.replace(".", "").isdigit()))
    (start_1, end_1), (start_2, end_2) = times
    assert start_2 >= end_1 or start_1 >= end_2
    assert not killed.exists()  # what a killed job left in memory is cleared by the next


@pytest.mark.slow
def test_the_end_of_a_command_is_reported(lab, tmp_path):
    told = tmp_path / "told"
    command = f"(echo $LAB_EVENT; cat) > {told}.part; mv {told}.part {told}"
    words = ["notify=command", f"notify.command.run='{command}'"]
    sent = submit(lab, *words, "--", "bash", "-c", "exit 3")
    assert len(read_manifest(Path(sent["run_dir"]))["run.json"]) == 2
    wait_until(told.exists, "a message", 120)
    lines = told.read_text().splitlines()
    assert lines[0] == "failed"
    assert f"look: lab logs {sent['run_id']}" in lines


@pytest.mark.release
def test_the_time_limit_ends_a_job(lab):
    words = ["submit", *SETTINGS, "job.time=20", "--json", "--", "sleep", "600"]
    sent = json_of(call(lab.folder, sys.executable, "-c", SHORT_LIMITS, *words))
    wait_until(lambda: status(sent), "the time limit", 120)
    assert status(sent) in ("interrupted", "failed")
    words = "ended at its time limit of 00:00:20 (job.time)"
    wait_until(lambda: words in lab("runs", "show", sent["run_id"]), "the words")
    assert words in lab("queue")


@pytest.mark.release
@pytest.mark.slow
def test_a_killed_job_says_so(lab):
    sent = submit(lab, "--", "bash", "-c", "sleep 1; kill -KILL $PPID")  # the process that records
    wait_until(lambda: lab("queue").startswith("no jobs"), "the end")
    words = "killed (SIGKILL), usually for lack of memory (job.mem)"
    assert words in lab("queue")
    assert words in lab("runs", "show", sent["run_id"])


@pytest.mark.release
def test_a_forecast_above_the_budget_is_not_sent_unless_meant(lab):
    lab("data", "pack", "digits")
    settings = ["trial=baseline", "trainer=cpu", "trainer.max_epochs=2"]
    sent = submit(lab, "--", sys.executable, "-m", "labrig", "bench", *settings, "--steps=2")
    wait_until(lambda: status(sent), "the bench as a job", 120)
    (file,) = lab.folder.glob("runs/baseline/bench-*.json")
    record = json.loads((Path(sent["run_dir"]) / "run.json").read_text())
    bench = json.loads(file.read_text())
    assert bench["code"]["tree"] == record["code"]["tree"]
    # as if it had been measured on a GPU that takes a minute for each of the 46 steps
    bench["times_s"]["step"] = 60
    file.write_text(json.dumps(bench | {"accelerator": "gpu", "device": "NVIDIA A100"}))
    budget = ["budget.gpu_hours=0.5", "job.time=00:10:00"]
    output = lab("submit", *SETTINGS, *budget, "--no-batch", rc=4)
    assert "forecast: 0:46:" in output
    assert "job.time: 0:10:00" in output
    assert re.search(r"0\.7[67]\d* GPU-hours", output)
    assert "budget.gpu_hours" in output
    assert "--yes" in output
    assert not list(lab.folder.glob("runs/baseline/*/run.json")), "nothing was sent"
    sent = submit(lab, "budget.gpu_hours=0.5", "--yes")
    wait_until(lambda: status(sent), "the end", 120)
    assert "forecast    0:46:" in lab("runs", "show", sent["run_id"])
    job = ["site=workstation", "job.gpus=0", "job.time=00:10:00"]
    output = lab("runs", "reproduce", sent["run_id"], *job)
    # printed, but not refused: whoever repeats a run knows what it takes
    assert "forecast: 0:46:" in output
