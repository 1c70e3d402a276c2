# ruff: noqa: F811 (fixtures are imported by name)
"""What jobs on a real Slurm used of what they asked for. Needs root; `make test-cluster` runs it."""

import json
import re
from pathlib import Path

from slurm_jobs import cluster, ended, lab, needs_root, slurm, submit, wait_until  # noqa: F401

pytestmark = needs_root
HOLD = "import time; block = bytearray({bytes}); time.sleep({seconds})"


def command_that_holds(n_bytes, seconds=8):
    return ["--", "python", "-c", HOLD.format(bytes=n_bytes, seconds=seconds)]


def line_of(text, name):
    return re.search(rf"^ *{name}:? +(.*)$", text, re.M)[1]


def test_the_end_of_a_job_says_what_it_used_and_what_would_do(lab):
    size = ["job.gpus=0", "job.cpus_per_task=2", "job.mem=2G", "job.time=00:20:00"]
    sent = submit(lab, *size, *command_that_holds(300_000_000))
    log = ended(sent)
    used = line_of(log, "used")
    assert re.fullmatch(r"0\.\d of 2 cores, 0\.[3-5] of 2 GB, 0:00:\d\d of 0:20:00", used), log
    enough = line_of(log, "enough")
    assert enough == "job.cpus_per_task=1 job.mem=1G job.time=00:05:00"
    page = lab("runs", "show", sent["run_id"])
    assert (line_of(page, "used"), line_of(page, "enough")) == (used, enough)
    lines = [line for line in (log + page).splitlines() if "used " in line or "enough" in line]
    assert len(lines) == 4
    assert max(map(len, lines)) <= 80
    assert "record and outputs are as recorded" in lab("runs", "verify", sent["run_id"])


def test_of_two_nodes_the_one_that_used_more_counts(lab):
    small, large = (command_that_holds(n_bytes)[-1] for n_bytes in (1000, 700_000_000))
    words = f"if [ $SLURM_NODEID = 1 ]; then python -c '{large}'; else python -c '{small}'; fi"
    size = ["job.nodes=2", "job.gpus=0", "job.mem=4G"]
    sent = submit(lab, *size, "--", "sh", "-c", words)
    log = ended(sent)
    used = line_of(log, "used")
    assert re.fullmatch(r"0\.\d of 1 core, 0\.[78] of 4 GB, \S+ of \S+, the most of 2 nodes", used)
    assert line_of(log, "enough").startswith("job.mem=1G ")
    [attempt] = json.loads(lab("runs", "show", sent["run_id"], "--json"))["attempts"]
    assert [node["memory_bytes"] > 600e6 for node in attempt["used"]] == [False, True]


def test_a_job_that_is_killed_has_left_what_was_known(lab):
    sent = submit(lab, "job.gpus=0", "job.mem=2G", *command_that_holds(300_000_000, 300))
    noted = Path(sent["run_dir"]) / "attempts/1/used-0.json"
    wait_until(noted.exists, "the first look")
    slurm("scancel", "--signal=KILL", "--full", sent["job_id"])
    wait_until(lambda: not slurm("squeue", "--noheader", "--me").strip(), "the end of the job")
    page = lab("runs", "show", sent["run_id"])
    assert re.match(r"0\.\d of 1 core, 0\.\d of 2 GB, ", line_of(page, "used"))
    assert "enough" not in page, "it would have used more"
