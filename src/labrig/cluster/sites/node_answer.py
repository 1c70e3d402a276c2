"""What every rank of `lab site verify` runs: writes what the node gave to it. Imports no torch."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict, dataclass
from pathlib import Path

from ... import env
from ...machine.cpu import cores
from ...machine.gpu import gpus
from ...machine.network import INTERNET, is_reachable
from ...machine.ranks import discover
from ...project import this_project
from ...record.files.atomic import write_file
from ...record.read.run import Run
from ...record.write.begin import begin_attempt

FOLDER = "site"  # in the run's directory


@dataclass(frozen=True)
class RankReport:
    """What one rank found."""

    rank: int
    world_size: int
    host: str
    cores: int
    gpus: list[str]  # of its node, by name
    has_internet: bool


def main(run_dir: Path) -> None:
    ranks = discover()
    attempt = begin_attempt(Run.open(run_dir), this_project()) if ranks.rank == 0 else None
    names = [gpu.name for gpu in gpus()]
    report = RankReport(
        ranks.rank,
        ranks.world_size,
        socket.gethostname(),
        cores(),
        names,
        has_internet=is_reachable(INTERNET),
    )
    file = run_dir / FOLDER / f"{ranks.rank}.json"
    file.parent.mkdir(exist_ok=True)
    write_file(file, json.dumps(asdict(report)))
    if attempt:
        attempt.end("finished")


def read_reports(run_dir: Path) -> list[RankReport]:
    """The reports of the ranks, in their order."""
    files = (run_dir / FOLDER).glob("*.json")
    reports = [RankReport(**json.loads(file.read_text(encoding="utf-8"))) for file in files]
    return sorted(reports, key=lambda report: report.rank)


if __name__ == "__main__":
    main(Path(os.environ[env.RUN_DIR]))
