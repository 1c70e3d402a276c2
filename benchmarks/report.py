"""`lab report` for 2,000 runs of 1,000 points: CPU seconds, size, and how fast Chromium opens and sorts the page.

    python benchmarks/report.py [RUNS [POINTS]]

Limits: 10 s of CPU time and 15 MB for the page; it opens within 2 s and sorts within 0.1 s. The served page
(`--serve`) has the same limits; then a run gets a row every 10 s, as one that trains would, and the page follows.
"""

import json
import math
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from cpu_seconds import cpu_s, say
from made_runs import make_runs
from project_copy import LAB, make_project  # first: it makes tests/helpers importable

# isort: split
from chromium import DESKTOP, started_chromium
from labrig.project import Project
from labrig.record.write.begin import begin_attempt
from projects import work_on
from record_package import create

ROW = "#runs tbody tr[data-run]"
SORT = """async () => {
  const begin = performance.now();
  document.querySelector('th[data-key="val/loss"] button').click();
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - begin;
}"""

# The longest time between two pictures since the last call: what a person feels as a page that hangs.
WATCH_PICTURES = """() => {
  window.longest_ms = 0;
  let last = performance.now();
  const next = (now) => {
    window.longest_ms = Math.max(window.longest_ms, now - last);
    last = now;
    requestAnimationFrame(next);
  };
  requestAnimationFrame(next);
}"""
QUIET_S = 20
N_CHANGES = 5
BETWEEN_CHANGES_S = 10


def write_metrics(folder: Path, n_points: int) -> None:
    """Noisy losses and a learning rate, a validation every 50 steps, as a training logs them."""
    numbers = random.Random(0)
    for run in sorted(folder.glob("runs/*/*/")):
        rate = numbers.uniform(0.5, 3)
        lines = []
        for step in range(1, n_points + 1):
            row = {
                "step": 10 * step,
                "epoch": step // 50,
                "attempt": 1,
                "time_unix_s": 1.7e9 + step,
            }
            loss = 2.3 * math.exp(-rate * step / n_points) + numbers.gauss(0, 0.05)
            lines.append(json.dumps(row | {"train/loss": loss, "train/lr": 1e-3 * step / n_points}))
            if step % 50 == 0:
                lines.append(json.dumps(row | {"val/loss": loss + 0.1, "val/acc": 1 - loss / 3}))
        (run / "metrics.jsonl").write_text("\n".join(lines) + "\n")
        code = {"commit": "ab" * 20, "dirty": False, "remote": "https://example.org/a/b.git"}
        (run / "run.json").write_text(json.dumps({"run_id": run.name, "code": code, "host": "n1"}))


def look(address: str) -> None:
    """Opens the page in Chromium and sorts it."""
    with started_chromium() as browser:
        for _ in range(3):
            page = browser.new_page(viewport=DESKTOP)
            page.goto(address, wait_until="commit")
            page.locator(ROW).first.wait_for()
            opened_ms = page.evaluate("performance.now()")
            page.wait_for_timeout(1500)
            sorted_ms = [page.evaluate(SORT) for _ in range(5)]
            say("opens, up to the first rows", [opened_ms / 1000])
            say("sorts, up to the next picture", [each / 1000 for each in sorted_ms])
            page.close()


@contextmanager
def served(project: Path) -> Iterator[tuple[str, psutil.Process]]:
    """The address of `lab report --serve`, and its process."""
    begin_s = time.perf_counter()
    command = [*LAB, "report", "--serve"]
    with subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout
            address = server.stdout.readline().strip()
            say("served: starts, up to its address", [time.perf_counter() - begin_s])
            yield address, psutil.Process(server.pid)
        finally:
            server.send_signal(signal.SIGINT)


def follow(address: str, server: psutil.Process, project: Project) -> None:
    """How soon an open page shows a new row, what that costs the server, and how long the page hangs."""

    def used_s() -> float:
        times = server.cpu_times()
        return times.user + times.system

    with started_chromium() as browser:
        page = browser.new_page(viewport=DESKTOP)
        page.goto(address)
        page.locator(ROW).first.wait_for()
        page.wait_for_timeout(3000)
        before_s = used_s()
        time.sleep(QUIET_S)
        say("all ended: CPU of the server per second", [(used_s() - before_s) / QUIET_S])
        run = create(project)
        attempt = begin_attempt(run, project, accelerator="cpu", world_size=1)
        page.evaluate(WATCH_PICTURES)
        waited_s, cost_s, hung_s = [], [], []
        for k in range(N_CHANGES):
            before_s, begin_s = used_s(), time.perf_counter()
            page.evaluate("window.longest_ms = 0")
            loss = f"0.000{k + 1}"
            row = {"step": k, "epoch": 0, "attempt": 1, "time_unix_s": time.time()}
            with open(run.dir / "metrics.jsonl", "a") as file:
                file.write(json.dumps(row | {"val/loss": float(loss)}) + "\n")
            page.locator(ROW, has_text=run.id).get_by_text(loss).first.wait_for()
            waited_s.append(time.perf_counter() - begin_s)
            page.wait_for_timeout(1000 * BETWEEN_CHANGES_S)
            cost_s.append(used_s() - before_s)
            hung_s.append(page.evaluate("window.longest_ms") / 1000)
        attempt.end("finished")
        say("a new row of a run that trains, until the page shows it", waited_s)
        say(f"CPU of the server per row, with {BETWEEN_CHANGES_S} s of quiet", cost_s)
        say("longest time between two pictures of the page", hung_s)


def main() -> None:
    n_runs, n_points = (int(word) for word in [*sys.argv[1:], "2000", "1000"][:2])
    with tempfile.TemporaryDirectory() as temporary:
        project = make_project(Path(temporary))
        make_runs(project, n_runs)
        write_metrics(project, n_points)
        seconds, printed = cpu_s([*LAB, "report"], project, TMPDIR=temporary)
        say(f"page of {n_runs} runs with {n_points} rows", [seconds], printed.strip())
        look((project / "runs/report.html").as_uri())
        with served(project) as (address, server):
            look(address)
            follow(address, server, work_on(Project(project, "myproj")))


if __name__ == "__main__":
    main()
