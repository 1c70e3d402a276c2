"""`lab report` for 2,000 runs of 1,000 points: CPU seconds, size, and how fast Chromium opens and sorts the page.

    python benchmarks/report.py [RUNS [POINTS]]

Limits: 10 s of CPU time and 15 MB for the page; it opens within 2 s and sorts within 0.1 s.
"""

import json
import math
import random
import sys
import tempfile
from pathlib import Path

from cpu_seconds import cpu_s, say
from made_runs import make_runs
from project_copy import LAB, make_project  # first: it makes tests/helpers importable

# isort: split
from chromium import DESKTOP, started_chromium

ROW = "#runs tbody tr[data-run]"
SORT = """async () => {
  const begin = performance.now();
  document.querySelector('th[data-key="val/loss"] button').click();
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - begin;
}"""


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


def main() -> None:
    n_runs, n_points = (int(word) for word in [*sys.argv[1:], "2000", "1000"][:2])
    with tempfile.TemporaryDirectory() as temporary:
        project = make_project(Path(temporary))
        make_runs(project, n_runs)
        write_metrics(project, n_points)
        seconds, printed = cpu_s([*LAB, "report"], project, TMPDIR=temporary)
        say(f"page of {n_runs} runs with {n_points} rows", [seconds], printed.strip())
        look((project / "runs/report.html").as_uri())


if __name__ == "__main__":
    main()
