"""CPU seconds of `lab submit` for 200 and 1,000 points, and of `lab queue` then; on the Slurm of the tests.

    python benchmarks/submit.py [ROUNDS]          (root, on Debian or Ubuntu; else it says so and ends)

The median over the rounds of user + system time, children included. The jobs are held, and cancelled after
each round. The limit is the design's. Each run is six files that are flushed to the disk: what that takes is
the disk's, so a project in memory is measured, too.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from cpu_seconds import cpu_s, run, say
from project_copy import LAB, make_project
from slurm_jobs import FOLDER, SCRIPTS, clear, only_user, stop_slurm

PLACES = {"on disk": None, "in memory": "/dev/shm"}
LIMITS_S = {200: "", 1000: "limit 10"}  # by the number of points


def measure(place: str, rounds: int) -> None:
    figures = defaultdict(list)
    for _ in range(rounds):
        for n_points in LIMITS_S:
            with tempfile.TemporaryDirectory(dir=PLACES[place]) as name:
                project = make_project(Path(name))
                submitting_s, queue_s = submit(project, n_points)
            figures[n_points].append(submitting_s)
            figures[n_points, "queue"].append(queue_s)
            clear()
    for n_points, limit in LIMITS_S.items():
        say(f"lab submit, {n_points:,} points, {place}", figures[n_points], limit)
        say(f"lab queue, {n_points:,} jobs, {place}", figures[n_points, "queue"])


def submit(project: Path, n_points: int) -> tuple[float, float]:
    """CPU seconds of sending so many points as a whole, and of listing their jobs."""
    run([*LAB, "submit", *words(1), "--dry-run"], project)  # Python's own caches
    seconds, printed = cpu_s([*LAB, "submit", *words(n_points), "--json"], project)
    sent = {row["job_id"] for row in json.loads(printed.splitlines()[-1])}
    assert len(sent - {""}) == n_points
    queue_s, listed = cpu_s([*LAB, "queue"], project)
    assert all(job in listed for job in sent)
    return seconds, queue_s


def words(n_points: int) -> list[str]:
    """Settings of a list of held jobs, whose keys, targets and files are checked."""
    job = ["site=slurm", "job.gpus=0", "job.time=00:20:00", "job.extra=[--hold]"]
    return ["trial=baseline", f"seed=range({n_points})", *job, "--no-batch"]


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    if os.geteuid():
        print("not measured: the Slurm of the tests needs root")
        return
    with only_user(FOLDER):
        subprocess.run([SCRIPTS / "slurm_up.sh", FOLDER], check=True, stdout=subprocess.DEVNULL)
        os.environ["SLURM_CONF"] = str(FOLDER / "slurm.conf")
        try:
            for place in PLACES:
                measure(place, rounds)
        finally:
            clear()
    stop_slurm()


if __name__ == "__main__":
    main()
