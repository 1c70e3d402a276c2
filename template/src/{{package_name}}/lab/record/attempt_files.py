# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""What the attempts of a run have left in attempts/<n>/."""

from __future__ import annotations

from pathlib import Path

from .atomic import read_json

NONE = {
    "n": 0,
    "start": {},
    "end": {},
    "nodes": [],
    "until_now": {},
}  # stands for the attempt of a run that has none


def read_attempts(run_dir: Path) -> list[dict]:
    """`{n, start, end, nodes, until_now}` of every attempt in order; what is missing is an empty dict."""
    found = []
    for n in sorted(
        int(path.name) for path in (run_dir / "attempts").glob("*") if path.name.isdigit()
    ):
        folder = run_dir / "attempts" / str(n)
        start, end = (read_json(folder / f"{name}.json") or {} for name in ("start", "end"))
        nodes = [read_json(path) for path in sorted(folder.glob("node-*.json"))]
        found.append({"n": n, "start": start, "end": end, "nodes": nodes, "until_now": {}})
        if start and not end and (folder / "heartbeat").exists():
            seconds = max(0.0, (folder / "heartbeat").stat().st_mtime - start["started_unix_s"])
            found[-1]["until_now"] = {"seconds": seconds, "gpu_seconds": seconds * n_gpus(start)}
    return found


def n_gpus(start: dict) -> int:
    return start.get("world_size", 1) if start.get("accelerator") in ("gpu", "cuda") else 0
