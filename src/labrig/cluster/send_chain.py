"""Sends the later chunks of runs, each of which waits for the end of the one before."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from ..errors import LabError
from ..record.atomic import sha256
from ..record.run import Run
from .chunks import CHAIN, FOLDER, write_chunk_script
from .plan import Plan
from .schedulers import scheduler_of


def send_chain(plan: Plan, runs: list[Run], script: Path, first_ids: list[str]) -> list[list[str]]:
    """The job ids of the chunks of each run, the first ones included.

    When the scheduler takes no more of them, the chain is shorter, and a line says so.
    """
    chunks = plan.request.chunks
    assert chunks is not None  # a chain has them
    chains = [[job_id] for job_id in first_ids]
    add_to_chain(runs, first_ids)
    scheduler = scheduler_of(plan.site.scheduler)
    for n in range(2, chunks.number + 1):
        chunk = write_chunk_script(script, n)
        waits = scheduler.chain_options(chains[0][-1], len(runs))
        options = [*plan.request.submit_options, *waits]
        try:
            job_ids = scheduler.send(
                replace(plan.request, submit_options=options), chunk, len(runs)
            )
        except LabError as error:
            print(
                f"lab: only {n - 1} of {chunks.number} chunks are queued: {error}\n"
                f"When they are over, this resumes the run: "
                + scheduler.send_line(plan.request, str(script)),
                file=sys.stderr,
            )
            break
        add_to_chain(runs, job_ids)
        for chain, job_id in zip(chains, job_ids, strict=True):
            chain.append(job_id)
    written = {f"{FOLDER}/{path.name}": sha256(path) for path in (script.parent / FOLDER).iterdir()}
    runs[0].update(files=runs[0].record["files"] | written)
    return chains


def add_to_chain(runs: list[Run], job_ids: list[str]) -> None:
    """Adds a chunk of each run to the list that its job script reads."""
    for run, job_id in zip(runs, job_ids, strict=True):
        with open(run.dir / CHAIN, "a", encoding="utf-8") as file:
            file.write(f"{job_id}\n")
