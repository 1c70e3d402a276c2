# ruff: noqa: F811 (fixtures are imported by name)
"""Everyday commands against a real Slurm: what it says of jobs, of its nodes and of itself. Needs root."""

import json
import re
import subprocess
from pathlib import Path

import yaml
from projects import environment_of
from slurm_jobs import (  # noqa: F401
    WAIT_S,
    cluster,
    ended,
    job,
    json_of,
    kill_as_a_dying_node,
    lab,
    needs_root,
    slurm,
    submit,
    wait_until,
)

pytestmark = needs_root


def test_a_queued_run_is_queued_a_running_one_running_and_a_killed_one_lost(lab):
    def status(sent):
        return json.loads(lab("runs", "show", sent["run_id"], "--json"))["status"]

    held = submit(lab, "job.gpus=0", "job.extra=[--hold]", "--", "sleep", "300")
    runs = submit(lab, "job.gpus=0", "--", "sleep", "300")
    wait_until((Path(runs["run_dir"]) / "attempts/1/start.json").exists, "the start")
    assert (status(held), status(runs)) == ("queued", "running")
    output = lab("queue")
    assert re.search(
        rf"^{held['run_id']}  command +{held['job_id']} +queued .*\n    held by you", output, re.M
    )
    assert re.search(
        rf"^{runs['run_id']}  command +{runs['job_id']} +running +0:\d\d:\d\d +0.0$", output, re.M
    )
    assert "no log yet; it is queued" in lab("logs", held["run_id"], rc=2)
    slurm("scancel", held["job_id"])
    start = json.loads((Path(runs["run_dir"]) / "attempts/1/start.json").read_text())
    kill_as_a_dying_node(start)
    wait_until(lambda: lab("queue").startswith("no jobs"), "an empty queue")
    assert (status(held), status(runs)) == ("lost", "lost")
    assert "is over already" in lab("cancel", runs["run_id"], rc=2)


def test_logs_follow_a_job_to_its_end_and_separate_ranks(lab):
    words = (
        "job.nodes=2",
        "job.gpus=0",
        "--",
        "bash",
        "-c",
        "sleep 3; echo rank $SLURM_PROCID reports",
    )
    sent = submit(lab, *words)
    output = lab("logs", sent["run_id"], "--follow", "--rank", "1")
    assert "1: rank 1 reports" in output
    assert "rank 0 reports" not in output
    assert "ended with code 0" in output
    assert job(sent["job_id"])["JobState"] in ("COMPLETED", "COMPLETING")


def test_nodes_are_examined_by_a_job_of_their_own(lab):
    output = lab("doctor", "--nodes", "site=slurm", "job.nodes=2", "job.gpus=0", timeout_s=400)
    lines = output[output.index("rank  host") :].splitlines()
    assert [line.split()[:2] for line in lines[1:3]] == [["0", "c1"], ["1", "c2"]]
    assert all(float(line.split()[-1]) > 0 for line in lines[1:3])
    assert lines[3] == "all nodes compute alike"
    assert max(map(len, lines)) <= 80


def test_a_profile_is_drafted_from_this_cluster_and_takes_a_job(lab):
    file = lab.folder / "src/myproj/conf/site/drafted.yaml"
    try:
        lab("site", "init", "drafted")
        draft = yaml.safe_load(file.read_text())
        assert [(queue["name"], queue["max_h"]) for queue in draft["queues"]] == [
            ("debug", 1),
            ("low", 1),
        ]
        assert (draft["gpu"], draft["job"]) == (
            {"name": "fake", "per_node": 4},
            {"gpus": 1, "cpus_per_gpu": 2},
        )
        sent = json_of(lab("submit", "site=drafted", "job.time=00:10:00", "--json", "--", "true"))
        ended(sent)
        assert job(sent["job_id"])["Partition"] == "debug"
    finally:
        file.unlink(missing_ok=True)
    assert "Slurm does not answer" not in lab("doctor", rc=0)


def test_the_expected_start_of_a_waiting_job_is_reported(lab):
    blocker = slurm(
        "sbatch",
        "--parsable",
        "--nodelist=c2",
        "--exclusive",
        "--time=10",
        "--output=/dev/null",
        "--wrap=sleep 600",
    ).strip()
    try:
        wait_until(lambda: job(blocker)["JobState"] == "RUNNING", "the blocker")
        sent = submit(lab, "job.gpus=0", 'job.extra=["--nodelist=c2"]', "--", "true")
        expected = r"queued .*\n    next in line;.* \(start: 2\d{3}-\d\d-\d\d \d\d:\d\d\)\n"
        wait_until(lambda: "start: 2" in lab("queue"), "the estimate")
        assert re.search(expected, lab("queue"))
        lab("cancel", sent["run_id"])
    finally:
        slurm("scancel", blocker)


def type_in_shell(lab, line, *words):
    """What a shell on a node prints, and its exit code, after a line was typed in a terminal."""
    command = f"lab shell site=slurm job.time=00:05:00 {' '.join(words)}"
    done = subprocess.run(
        ["script", "-qefc", command, "/dev/null"],
        cwd=lab.folder,
        env=environment_of(lab.folder),
        input=f"{line}\n",
        capture_output=True,
        text=True,
        timeout=WAIT_S,
    )
    return done.stdout, done.returncode


def test_a_shell_opens_on_a_node_with_what_was_asked(lab):
    line = "echo on $(hostname) $SLURM_CPUS_PER_TASK cpus, GPU $CUDA_VISIBLE_DEVICES; exit 7"
    output, code = type_in_shell(lab, line, "job.gpus=1", "job.cpus_per_task=2")
    assert re.search(r"^on c[12] 2 cpus, GPU 0\r?$", output, re.MULTILINE), output
    assert "--gres=gpu:1" in output
    assert code == 7
    command = lab.folder.parent / f"{lab.folder.name}-bin/lab"
    again = f"cd {lab.folder}; {command} shell site=slurm; echo code $?; exit"
    output, _ = type_in_shell(lab, again, "job.gpus=0")
    assert re.search(r"this shell is inside job \d+ already", output), output
    assert "code 4" in output
