# ruff: noqa: F811 (fixtures are imported by name)
"""A real Slurm that is slow, in maintenance, or starts again what we call dead. Needs root.

No submission is lost or doubled, and what the scheduler holds is what is listed.
"""

import json
import os
import re
import signal
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from projects import environment_of
from slurm_jobs import (  # noqa: F401
    FOLDER,
    WAIT_S,
    at_step,
    cluster,
    curve,
    ended,
    job,
    json_of,
    kill_node,
    lab,
    needs_root,
    notice_dead,
    reference,
    restarted,
    slurm,
    start_node,
    submit,
    training,
    wait_until,
    weights,
)

pytestmark = needs_root
LEAD_S = 30  # of a job of two minutes
PATIENCE_S = 8  # for which the commands of Slurm wait here
STOPPED_S = 25


def controller():
    return int((FOLDER / "pid/slurmctld").read_text())


@pytest.fixture
def impatient(cluster, monkeypatch):
    """Commands of Slurm wait for 8 seconds in place of 20."""
    settings = (FOLDER / "slurm.conf").read_text()
    assert "MessageTimeout=20\n" in settings
    file = FOLDER / "impatient.conf"
    file.write_text(settings.replace("MessageTimeout=20\n", f"MessageTimeout={PATIENCE_S}\n"))
    monkeypatch.setenv("SLURM_CONF", str(file))


@contextmanager
def stopped_controller():
    os.kill(controller(), signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(controller(), signal.SIGCONT)
        wait_until(lambda: "UP" in slurm("scontrol", "ping"), "the controller back")


def sbatch_of_a_busy_centre(folder, seconds):
    """A directory with an sbatch whose first call finds a controller that does not answer."""
    program = folder / "sbatch"
    stop = f"kill -STOP {controller()}; sleep {seconds}; kill -CONT {controller()}"
    program.write_text(
        "#!/bin/bash\n"
        f"if [ ! -e {folder}/called ]; then\n"
        f"  touch {folder}/called\n"
        f"  setsid bash -c '{stop}' </dev/null >/dev/null 2>&1 &\n"
        "  sleep 1\n"
        "fi\n"
        'exec /usr/bin/sbatch "$@"\n'
    )
    program.chmod(0o755)
    return program.parent


def jobs_of(run_id):
    """The jobs that carry the id of a run, those that ended too."""
    lines = slurm("squeue", "--me", "--states=all", "--noheader", "--format=%F %k").splitlines()
    return sorted({line.split()[0] for line in lines if run_id in line})


def record_of(sent):
    return json.loads((Path(sent["run_dir"]) / "run.json").read_text())


def status_of(lab, sent):
    return json.loads(lab("runs", "show", sent["run_id"], "--json"))["status"]


@pytest.fixture
def path_of_a_busy_centre(lab, tmp_path, impatient):
    def path(seconds):
        folder = sbatch_of_a_busy_centre(tmp_path, seconds)
        return f"{folder}:{environment_of(lab.folder)['PATH']}"

    yield path
    os.kill(controller(), signal.SIGCONT)


COMMAND = ("submit", "site=slurm", "job.gpus=0", "job.time=00:20:00", "--json", "--", "sleep")


def test_a_controller_that_does_not_answer_takes_one_job(lab, path_of_a_busy_centre):
    output = lab(*COMMAND, "1", PATH=path_of_a_busy_centre(STOPPED_S))
    assert "asking slurm whether it has the job" in output
    sent = json_of(output)
    assert jobs_of(sent["run_id"]) == [sent["job_id"]]
    ended(sent)
    assert record_of(sent)["job"]["id"] == sent["job_id"]
    assert (Path(sent["run_dir"]) / "job.id").read_text().strip() == sent["job_id"]


def test_a_sender_that_was_killed_leaves_an_unknown_job_that_is_settled(lab, path_of_a_busy_centre):
    existing = {path.name for path in lab.folder.glob("runs/command/*")}
    environment = environment_of(lab.folder) | {"PATH": path_of_a_busy_centre(600)}
    sender = subprocess.Popen(
        ["lab", *COMMAND, "2"],
        cwd=lab.folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    called = Path(environment["PATH"].partition(":")[0]) / "called"
    wait_until(called.exists, "the call of sbatch")
    time.sleep(4)
    sender.kill()  # sbatch goes on
    sender.wait()
    (run_dir,) = {path for path in lab.folder.glob("runs/command/*")} - {
        path for path in lab.folder.glob("runs/command/*") if path.name in existing
    }
    sent = {"run_id": run_dir.name, "run_dir": str(run_dir)}
    output = lab(*COMMAND, "2", rc=4)
    assert f"run {run_dir.name} is the same" in output
    assert "Nothing was submitted" in output
    assert status_of(lab, sent) == "unknown"
    os.kill(controller(), signal.SIGCONT)
    wait_until(lambda: jobs_of(run_dir.name), "the job accepted")
    (job_id,) = jobs_of(run_dir.name)
    lab("queue")
    assert record_of(sent)["job"]["id"] == job_id
    assert "unknown" not in record_of(sent)["job"]
    ended({"job_id": job_id, "log": f"{run_dir}/job.log"})
    assert jobs_of(run_dir.name) == [job_id]


def test_a_plain_refusal_is_said_at_once(lab):
    began_s = time.monotonic()
    output = lab("submit", "site=slurm", "job.gpus=0", "job.queue=none", "--", "true", rc=1)
    assert "invalid partition" in output.lower()
    assert "No job was queued" in output
    assert time.monotonic() - began_s < STOPPED_S / 2


def test_a_run_that_slurm_starts_again_is_queued_although_it_failed(lab):
    words = training(0.3, "job.nodes=2")
    sent = submit(lab, *words)
    at_step(sent, 16)
    kill_node("c2")  # rank 0 is on the other
    try:
        summary = Path(sent["run_dir"]) / "summary.json"
        wait_until(summary.exists, "the end that rank 0 wrote")
        notice_dead("c2")
        wait_until(lambda: job(sent["job_id"])["JobState"] == "PENDING", "the job queued again")
        assert json.loads(summary.read_text())["status"] == "failed"
        assert re.search(rf"^{sent['run_id']} .* queued ", lab("queue"), re.M)
        shown = lab("runs", "show", sent["run_id"])
        assert "lab resume" not in shown
        assert status_of(lab, sent) == "queued"
        seeds = f"seed={record_of(sent)['seed']},77"
        output = submit_twin(lab, [*words, seeds])
        assert "1 of 2 runs exist already" in output
        lab("cancel", re.search(r"^job \d+  run (\S+)", output, re.M)[1])
    finally:
        start_node("c2")
    lab("cancel", sent["run_id"])
    ended(sent, "CANCELLED")
    assert sent["run_id"] not in lab("queue").partition("stopped")[0]


def test_checkpoints_of_30_GB_do_not_delay_the_requeue(lab):
    sent = submit(lab, *training(0.3, "trainer.max_epochs=200", "job.time=00:02:00"))
    at_step(sent, 16)
    checkpoints = Path(sent["run_dir"]) / "checkpoints"
    for n in (1, 2, 3):
        os.truncate(os.open(checkpoints / f"epoch-00{n}.ckpt", os.O_CREAT | os.O_WRONLY), 30 << 30)
    slurm("scancel", "--batch", "--signal=USR2", sent["job_id"])
    began_s = time.monotonic()
    wait_until(
        lambda: "resuming after a requeue" in Path(sent["log"]).read_text(), "the requeue", WAIT_S
    )
    assert time.monotonic() - began_s < LEAD_S
    attempt = Path(sent["run_dir"]) / "attempts/1"
    written = json.loads((attempt / "end.json").read_text())["checkpoints"]
    assert written["epoch-001.ckpt"] == {"bytes": 30 << 30, "sha256": None}
    assert len(written["last.ckpt"]["sha256"]) == 64
    assert json.loads((attempt / "start.json").read_text())["save_s"] > 0
    lab("cancel", sent["run_id"])
    for n in (1, 2, 3):
        (checkpoints / f"epoch-00{n}.ckpt").unlink()
    ended(sent, "CANCELLED")


def test_a_controller_in_maintenance_is_one_line_and_ends_are_remembered(lab, impatient):
    held = [
        submit(lab, "job.gpus=0", "job.extra=[--hold]", "--", "sleep", str(300 + n))
        for n in range(3)
    ]
    lab("cancel", held[0]["run_id"])
    assert status_of(lab, held[0]) == "cancelled"
    with stopped_controller():
        output = lab("queue")
        assert output.count("squeue") == 1
        assert "What follows is what was known before" in output
        assert held[0]["run_id"] not in output
        for one in held[1:]:
            assert re.search(rf"^{one['run_id']} .* queued ", output, re.M)
        assert status_of(lab, held[0]) == "cancelled"
    for one in held[1:]:
        lab("cancel", one["run_id"])
    assert lab("queue").startswith("no jobs")


def test_an_interrupted_run_is_continued_by_a_job_bit_for_bit(lab, reference):
    words = training(0.3, "job.nodes=2")
    sent = submit(lab, *words)
    at_step(sent, 16)
    assert "nothing was submitted" in lab("submit", sent["run_id"], rc=4)
    assert sent["run_id"] in lab("queue")
    lab("cancel", sent["run_id"])
    log = ended(sent, "CANCELLED")
    assert lab("queue").strip() == "no jobs"
    assert job(sent["job_id"])["Restarts"] == "0", "it is not requeued"
    lab("cancel", sent["run_id"], rc=2)
    assert "as lab cancel" in log
    assert "the scheduler asked" not in log
    output = lab("submit", "site=slurm", "trial=baseline", *words, "--no-batch", "--dry-run")
    assert "#SBATCH" in output
    twin = submit_twin(lab, words)
    assert f"to continue it instead: lab submit {sent['run_id']}" in twin
    lab("cancel", re.search(r"^job \d+  run (\S+)", twin, re.M)[1])
    again = json_of(lab("submit", sent["run_id"], "job.time=00:15:00", "--json"))
    assert again["run_id"] == sent["run_id"]
    assert again["job_id"] != sent["job_id"]
    ended(again)
    assert weights(again) == weights(reference)
    assert curve(again) == curve(reference)
    assert record_of(sent)["job"]["earlier_ids"] == [sent["job_id"]]
    assert "nothing is left to do" in lab("submit", sent["run_id"], rc=4)


def submit_twin(lab, words):
    settings = ["site=slurm", "job.time=00:20:00", "trial=baseline", "job.extra=[--hold]"]
    return lab("submit", *settings, *words, "--no-batch")
