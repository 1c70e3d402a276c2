# ruff: noqa: F811 (fixtures are imported by name)
"""Jobs on a real Slurm: what was submitted runs, with its own exit code, and leaves nothing behind.

Needs root; `make test-cluster` runs it.
"""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from projects import call
from slurm_jobs import (  # noqa: F401
    SLOW,
    STUBBORN,
    WAIT_S,
    cluster,
    curve,
    ended,
    job,
    json_of,
    lab,
    left_in_memory,
    needs_root,
    slurm,
    submit,
    training,
    uninterrupted,
    wait_until,
    weights,
)
from small_environment import small_environment

pytestmark = needs_root


@pytest.fixture(scope="module")
def reference(lab):
    """A run of this project that nothing interrupted."""
    return uninterrupted(lab)


@pytest.fixture(scope="module", autouse=True)
def soon_over(lab):
    """A run on two nodes that reaches its time limit, again and again, while the other tests run."""
    long = training(2.5, "trainer.max_epochs=200", "callbacks.slow.slow_attempts=9")
    return submit(lab, *long, "job.nodes=2", "job.time=00:02:00")


@pytest.fixture(scope="module", autouse=True)
def out_of_time(lab):
    """A job that ignores the warning before its time limit."""
    return submit(lab, "job.gpus=0", "job.time=00:01:00", *STUBBORN)


def test_the_submitted_code_runs_however_the_tree_is_edited(lab):
    sent = submit(lab, *training(0.0, "trainer.max_epochs=1", "job.extra=[--hold]"), batch=True)
    file = lab.folder / "src/myproj/slow.py"
    try:
        file.write_text(SLOW.replace("as submitted", "as edited"))
        (lab.folder / "src/myproj/task.py").rename(lab.folder / "task.py")
        slurm("scontrol", "release", sent["job_id"])
        log = ended(sent)
    finally:
        file.write_text(SLOW)
        (lab.folder / "task.py").rename(lab.folder / "src/myproj/task.py")
    assert "as submitted" in log
    assert "as edited" not in log
    assert json.loads((Path(sent["run_dir"]) / "summary.json").read_text())["status"] == "finished"
    assert "# Any Slurm cluster" in (Path(sent["run_dir"]) / "site.yaml").read_text()


def test_two_nodes_and_one_node_train_alike_and_leave_no_copy_of_the_code(
    lab, reference, soon_over, out_of_time
):
    sent = submit(lab, *training(0.0, "job.gpus=2", 'job.extra=["--export=NONE"]'))
    ended(sent)
    assert weights(sent) == weights(reference)
    assert curve(sent) == curve(reference)
    start = json.loads((Path(sent["run_dir"]) / "attempts/1/start.json").read_text())
    assert start["world_size"] == 2
    assert left_in_memory(soon_over, out_of_time) == []


def test_a_bench_on_two_nodes_is_a_forecast_for_what_is_submitted_next(lab):
    settings = ["trial=baseline", *training(0.0, "trainer.max_epochs=1")]
    sent = submit(
        lab,
        "job.nodes=2",
        "job.gpus=0",
        "--",
        "python",
        "-m",
        "labrig",
        "bench",
        *settings,
        "--steps=5",
    )
    assert "whole training" in ended(sent)
    (bench,) = [
        json.loads(path.read_text()) for path in lab.folder.glob("runs/baseline/bench-*.json")
    ]
    assert bench["world_size"] == 2
    assert bench["samples_per_step"] == 2 * 64
    job = ["site=slurm", "job.nodes=2", "job.gpus=0", "job.time=00:20:00", "job.extra=[--hold]"]
    output = lab("submit", *settings, *job, "--no-batch")
    assert "forecast: 0:0" in output
    assert "on 2 x cpu" in output
    lab("cancel", re.search(r"run (\S+)", output)[1])


def test_an_array_runs_each_point_once_and_the_same_list_fills_only_holes(lab):
    words = training(0.0, "trainer.max_epochs=1", "seed=1,2,3", "job.throttle=2")
    sent = submit(lab, *words)
    assert [one["job_id"].partition("_")[2] for one in sent] == ["0", "1", "2"]
    for one in sent:
        ended(one)
    assert all("ended with code 0" in Path(one["log"]).read_text() for one in sent)
    seeds = [json.loads((Path(one["run_dir"]) / "run.json").read_text())["seed"] for one in sent]
    assert seeds == [1, 2, 3]
    assert submit(lab, *words) == []
    # other requests of the scheduler, but the same runs
    assert submit(lab, *words, "job.cpus_per_task=2", "job.mem=500M") == []
    shutil.rmtree(sent[1]["run_dir"])
    again = submit(lab, *words)
    assert json.loads((Path(again["run_dir"]) / "run.json").read_text())["seed"] == 2
    ended(again)


def test_an_array_over_files_runs_for_each_of_them(lab):
    raw = lab.folder / "data/raw files"  # which git ignores: the code stays the same
    raw.mkdir(parents=True)
    names = ["a.wav", "it's b.wav", "-c.wav", "new\nline.wav"]
    for name in names:
        (raw / name).write_text(name)
    each = ["job.gpus=0", "--each", str(raw / "*.wav"), "--per-task", "3"]
    command = ["--", "bash", "-c", 'test -e "$1.go" && cp -- "$1" "$1.out"', "bash", "{}"]
    for name in names[1:]:
        (raw / f"{name}.go").touch()
    sent = submit(lab, *each, *command)
    states = ["COMPLETED" if name != names[0] else "FAILED" for name in sorted(names)]
    for one, of_task in zip(sent, [states[:3], states[3:]], strict=True):
        ended(one, "FAILED" if "FAILED" in of_task else "COMPLETED")
    assert {path.stem for path in raw.glob("*.out")} == {*names[1:]}
    (raw / f"{names[0]}.go").touch()
    ended(submit(lab, *each, *command))
    assert (raw / "a.wav.out").read_text() == "a.wav"
    assert submit(lab, *each, *command) == []


def test_any_command_runs_frozen_with_its_own_exit_code_and_without_a_network(lab):
    probe = "import os, socket; print(os.environ['WANDB_MODE'], os.environ['HF_HUB_OFFLINE'], flush=True); "
    probe += "socket.create_connection(('192.0.2.1', 80), 5)"
    sent = submit(lab, "job.gpus=0", "--", "python", "-c", probe)
    log = ended(sent, "FAILED")
    assert "offline 1" in log
    assert "Network is unreachable" in log
    sent = submit(
        lab, "job.gpus=0", "--", "bash", "-c", "ls src/myproj/task.py data/digits.h5; exit 7"
    )
    log = ended(sent, "FAILED")
    assert "src/myproj/task.py" in log
    assert job(sent["job_id"])["ExitCode"] == "7:0"
    listed = json.loads(lab("runs", "show", sent["run_id"], "--json"))
    assert listed["status"] == "failed"


def test_every_node_unpacks_a_packed_environment(lab, tmp_path, soon_over, out_of_time):
    python = [small_environment(tmp_path / "environment") / "bin/python", "-m", "labrig"]
    packed = ["site=slurm", "site.python=packed", f"paths.scratch={tmp_path}/scratch"]
    call(lab.folder, *python, "image", "build", *packed)
    settings = [*packed, "job.nodes=2", "job.gpus=0", "job.time=00:10:00", "--json"]
    sent = json_of(call(lab.folder, *python, "submit", *settings, "--", "which-python"))
    places = re.findall(r"(/dev/shm/\S+)/env$", ended(sent), re.M)
    assert {Path(place).name.rpartition("-")[2] for place in places} == {"c1", "c2"}
    assert left_in_memory(soon_over, out_of_time) == []


def test_a_failing_rank_ends_the_job_with_a_failure(lab, soon_over, out_of_time):
    sent = submit(lab, *training("oops", "job.nodes=2"))
    log = ended(sent, "FAILED")
    assert "ended with code" in log
    assert json.loads((Path(sent["run_dir"]) / "summary.json").read_text())["status"] == "failed"
    assert left_in_memory(soon_over, out_of_time) == []


def test_a_job_can_submit_a_job(lab):
    settings = "site=slurm job.time=00:10:00"
    inner = f"python -m labrig submit {settings} --no-batch --json -- true"
    sent = submit(lab, "job.gpus=0", "job.cpus_per_task=3", "--", "bash", "-c", inner)
    log = ended(sent)
    second = json_of(log)
    ended(second)
    records = [
        json.loads((Path(one["run_dir"]) / "run.json").read_text()) for one in (sent, second)
    ]
    assert records[0]["code"]["commit"] == records[1]["code"]["commit"]
    assert job(second["job_id"])["NumCPUs"] == "2"  # of its GPU, not the three of its sender


def test_a_bare_process_in_an_allocation_of_two_tasks_is_sent_to_srun(lab):
    python = f"cd {lab.folder} && PYTHONPATH=src .venv/bin/python -m labrig train trial=baseline trainer=cpu"
    salloc = ["salloc", "-J", "two", "-N2", "-n2", "bash", "-c", python]
    done = subprocess.run(salloc, capture_output=True, text=True, timeout=WAIT_S)
    assert "2 tasks" in done.stderr
    assert "srun" in done.stderr
    assert done.returncode == 2


def test_a_file_that_git_ignores_is_refused_with_the_rule(lab):
    helper = lab.folder / "src/myproj/helper.py"
    model = lab.folder / "src/myproj/trials/baseline/model.py"
    text = model.read_text()
    ignore = lab.folder / ".gitignore"
    rules = ignore.read_text()
    try:
        helper.write_text("answer = 42\n")
        ignore.write_text(rules + "helper.py\n")
        model.write_text(text + "\nfrom ...helper import answer  # noqa: E402, F401\n")
        output = lab("submit", "trial=baseline", "site=slurm", "trainer=cpu", rc=4)
    finally:
        helper.unlink()
        ignore.write_text(rules)
        model.write_text(text)
    assert "helper.py" in output
    assert ".gitignore" in output
    assert re.search(r"ignored by 'helper.py'", output)


def test_a_run_is_reproduced_by_a_job_from_its_own_code(lab, reference):
    output = lab(
        "runs",
        "reproduce",
        reference["run_id"],
        "site=slurm",
        "job.nodes=2",
        "job.gpus=0",
        "job.time=00:20:00",
    )
    repeated = json.loads(lab("runs", "show", "@last", "--json"))
    assert repeated["parent"] == reference["run_id"]
    assert f"lab runs verify {reference['run_id']} {repeated['run_id']}" in output
    ended({"job_id": repeated["job"]["id"], "log": f"{repeated['run_dir']}/job.log"})
    assert "bitwise" in lab("runs", "verify", reference["run_id"], repeated["run_id"])


def test_submit_warns_of_a_run_with_the_same_code_and_settings(lab, reference):
    output = lab(
        "submit",
        "trial=baseline",
        "site=slurm",
        "job.time=00:20:00",
        *training(0.0, "job.nodes=2"),
        "--no-batch",
    )
    assert re.search(
        r"run [\w-]+ has the same code and settings and is finished; submitting another", output
    )
    lab("cancel", "@last")


def test_the_time_limit_saves_and_requeues(lab, soon_over):
    log = Path(soon_over["log"])
    wait_until(
        lambda: log.exists() and "resuming after a requeue" in log.read_text(),
        "the warning before the time limit",
    )
    saved = json.loads((Path(soon_over["run_dir"]) / "attempts/1/end.json").read_text())
    assert saved["status"] == "interrupted"
    assert saved["seconds"] < 120
    assert (Path(soon_over["run_dir"]) / "checkpoints/last.ckpt").exists()
    wait_until(lambda: int(job(soon_over["job_id"])["Restarts"]) >= 1, "the requeue")
    lab("cancel", soon_over["run_id"])
    ended(soon_over, "CANCELLED")


def test_a_job_that_did_not_save_was_killed_at_its_time_limit(lab, out_of_time):
    ended(out_of_time, "TIMEOUT")
    words = "killed at its time limit (job.time), before it had saved; ask for more with job.time"
    page = lab("runs", "show", out_of_time["run_id"])
    assert re.search(rf"^  job +{out_of_time['job_id']} on slurm: {re.escape(words)}$", page, re.M)
    assert re.search(rf"^{out_of_time['run_id']} .*\n    {re.escape(words)}$", lab("queue"), re.M)
