"""Whatever is killed, whenever: what is there can be read, and is not taken for more than it is."""

import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from labrig.project import Project
from labrig.record.files.atomic import read_advisory, write_json
from labrig.record.files.metrics_file import read_metrics
from labrig.record.read.rows import read_rows
from labrig.record.read.run import Run
from labrig.record.read.status import status_of
from labrig.record.verify.files import check_record
from labrig.record.write.begin import begin_attempt
from projects import HELPERS, call

PROGRAM = HELPERS / "record_program.py"
N_KILLS = 50


def start(folder, n_steps):
    """Starts a run of so many steps, in a process of its own."""
    command = [sys.executable, PROGRAM, folder, str(n_steps)]
    variables = {"PYTHONPATH": str(folder / "src"), "TMPDIR": str(folder.parent)}
    return subprocess.Popen(command, start_new_session=True, env=os.environ | variables)


def killed(folder, n_steps, after_s):
    """Starts a run and kills it after so many seconds; whether it still lived."""
    process = start(folder, n_steps)
    try:
        process.wait(timeout=after_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.wait()
        return True
    return False


@pytest.mark.slow
def test_killed_at_fifty_points(own_project):
    killed(own_project, 3, after_s=60)  # compiles the package
    started = time.monotonic()
    assert not killed(own_project, 3, after_s=60)
    short_s = time.monotonic() - started
    chance = random.Random(0)
    n_died = sum(
        killed(own_project, 3, chance.uniform(0.3, 1.1) * short_s) for _ in range(30)
    )  # most at the end
    while n_died < N_KILLS:
        n_died += killed(
            own_project, 10**9, chance.uniform(0.1, 2) * short_s
        )  # at the start and while it logs
    known = read_rows([own_project / "runs"])
    assert {"finished", "lost"} <= {row["status"] for row in known}
    for row in known:
        run = Run.open(Path(row["run_dir"]))
        assert run.record["code"]["commit"]
        assert row["status"] == status_of(run.dir)
        assert row["status"] in ("finished", "lost")
        # The last of several files may be missing: a kill cannot be told from a deletion.
        summary = (
            f"{run.dir}/summary.json is missing: deleted, or killed before it was written. "
            f"To write it: lab runs verify --repair {run.id}"
        )
        has_end = (run.dir / "attempts/1/end.json").exists()
        was_between = has_end and not (run.dir / "summary.json").exists()
        assert check_record(run).problems == ([summary] if was_between else [])
        steps = [line["step"] for line in read_metrics(run.dir)]
        assert steps == list(range(len(steps)))
        assert row["status"] == "lost" or len(steps) == 3
    listed = json.loads(call(own_project, "lab", "runs", "list", "--json"))
    assert {row["run_id"] for row in listed} == {row["run_id"] for row in known}
    lost = next(Path(row["run_dir"]) for row in known if row["status"] == "lost")
    call(own_project, "lab", "runs", "show", lost.name)
    call(own_project, "lab", "runs", "verify", lost.name)
    begin_attempt(Run.open(lost), Project(own_project, "myproj")).end("finished")
    assert status_of(lost) == "finished"


@pytest.mark.release
@pytest.mark.slow
def test_eight_starts_at_once_are_eight_runs(own_project):
    processes = [start(own_project, 200) for _ in range(8)]
    exit_codes = [process.wait(timeout=120) for process in processes]
    known = read_rows([own_project / "runs"])
    assert exit_codes == [0] * 8
    assert len({row["run_id"] for row in known}) == 8
    assert {row["status"] for row in known} == {"finished"}
    commits = {Run.open(Path(row["run_dir"])).record["code"]["commit"] for row in known}
    assert len(commits) == 1


def test_readers_never_see_half_a_file(tmp_path):
    path = tmp_path / "run.json"
    write_json(path, {"n": 0, "text": "x" * 20_000})
    stop = threading.Event()

    def write():
        n = 0
        while not stop.is_set():
            n += 1
            write_json(path, {"n": n, "text": "x" * 20_000})

    writer = threading.Thread(target=write)
    writer.start()
    seen = []
    versions = set()
    end_s = time.monotonic() + 120
    try:
        # a busy machine may let the writer wait
        while len(seen) < 3000 or (len(versions) <= 10 and time.monotonic() < end_s):
            seen.append(read_advisory(path))
            versions.add((seen[-1] or {}).get("n"))
    finally:
        stop.set()
        writer.join()
    assert all(value and len(value["text"]) == 20_000 for value in seen)
    assert len(versions) > 10
    assert os.listdir(tmp_path) == ["run.json"]
