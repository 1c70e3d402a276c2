# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab doctor --nodes`: a short job that examines nodes."""

from __future__ import annotations

import json
import statistics
import time
from pathlib import Path
from typing import Any

from ..errors import Failed
from ..project import Project
from ..record.status import status_of
from .jobs import job_state_of, poll_s

WAIT_S = 1800  # for the job of --nodes


def examine_nodes(project: Project, overrides: list[str]) -> int:
    """Sends the job, waits for it, prints its table; 1 when a node is bad.

    Raises:
        Failed: the job is not over within half an hour, or left nothing.
    """
    from .plan import plan_nodes
    from .submit import submit_plan

    plan = plan_nodes(project, overrides)
    (sent,) = submit_plan(plan, why="lab doctor --nodes", batch=False)
    print(f"job {sent.job_id}, log {sent.log}; waiting (Ctrl-C leaves the job alone)", flush=True)
    directory, n_ranks = Path(sent.run_dir), plan.request.nodes * plan.request.tasks_per_node
    asked_s, end_s, state, rows = time.monotonic(), time.monotonic() + WAIT_S, "queued", []
    while state in ("queued", "running") and sum("done" in row for row in rows) < n_ranks:
        if time.monotonic() > end_s:
            raise Failed(
                f"the job is not over after {WAIT_S // 60} minutes; it stays queued: lab logs {sent.run_id}"
            )
        if time.monotonic() > asked_s + poll_s(project, plan.site.name):
            state, asked_s = status_of(directory, job_state_of()), time.monotonic()
        time.sleep(1)
        rows = [
            json.loads(file.read_text(encoding="utf-8")) for file in directory.glob("nodes/*.json")
        ]
    if not rows:
        raise Failed(f"the job ended without a result; see {sent.log}")
    silent = sorted(set(range(n_ranks)) - {row["rank"] for row in rows})
    rows = sorted(
        [*rows, *({"rank": rank, "host": "?"} for rank in silent)], key=lambda row: row["rank"]
    )
    print(format_nodes(rows))
    bad = bad_nodes(rows)
    for node, reasons in bad.items():
        print(f"bad: {node}: {'; '.join(reasons)}")
    named = ",".join(node for node in bad if node != "?")
    print(f"leave them out with: job.exclude={named}" if bad else "all nodes compute alike")
    return int(bool(bad))


SLOW = 0.7  # of the median of the ranks with the same device
COLUMNS = {  # key -> title, width, format of the value
    "rank": ("rank", ">4", ""),
    "host": ("host", "<12", ".12"),
    "device": ("device", "<18", ".18"),
    "cores": ("cores", ">5", ""),
    "celsius": ("°C", ">3", ""),
    "gflops": ("GFLOP/s", ">8", ".0f"),
    "copy_GB_s": ("copy", ">6", ".1f"),
    "exchange_GB_s": ("all-reduce", ">10", ".2f"),
}


def format_nodes(rows: list[dict[str, Any]]) -> str:
    """A line per rank in 80 columns; the last two are GB/s, `copy` to the GPU or, without one, within memory."""
    lines = ["  ".join(f"{title:{width}}" for title, width, _ in COLUMNS.values())]
    for row in rows:
        values = {
            key: format(row[key], form) if key in row else "-"
            for key, (_, _, form) in COLUMNS.items()
        }
        lines.append("  ".join(f"{values[key]:{width}}" for key, (_, width, _) in COLUMNS.items()))
    return "\n".join(lines)


def bad_nodes(rows: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Hosts with a rank that computed wrong or slowly, shares its GPU, or did not get to the end; with the reasons."""
    bad: dict[str, list[str]] = {}
    measured = [row for row in rows if "gflops" in row]
    for row in rows:
        reasons = []
        if row not in measured:
            reasons.append("never got through its products")
        elif row["gflops"] < SLOW * (usual := usual_gflops(row["device"], measured)):
            reasons.append(f"{row['gflops']:.0f} GFLOP/s where the median is {usual:.0f}")
        elif "done" not in row and measured == rows:
            reasons.append("never came back from the all-reduce")
        if row.get("n_wrong"):
            reasons.append(f"{row['n_wrong']} of {row['n_products']} products were wrong")
        if any(
            row.get("uuid") and row["uuid"] == other.get("uuid")
            for other in rows
            if other is not row
        ):
            reasons.append("another rank uses the same GPU")
        if reasons:
            bad.setdefault(row["host"], []).extend(
                f"rank {row['rank']}: {reason}" for reason in reasons
            )
    return bad


def usual_gflops(device: str, measured: list[dict[str, Any]]) -> float:
    return statistics.median(row["gflops"] for row in measured if row["device"] == device)
