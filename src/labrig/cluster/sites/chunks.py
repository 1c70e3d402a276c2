"""`job.chunk`: a long run as short jobs, each of which resumes it.

Where the site can start a job again, the job has the time limit of a chunk and asks for the next
one itself. Elsewhere all chunks are sent at once as a chain: each waits for the end of the one
before, and ends at once when the run is over.
"""

from __future__ import annotations

import math
import shlex
from pathlib import Path

from ... import env
from ...errors import LabError
from ...machine.text_formats import format_hms
from ..schedulers import scheduler_of
from ..schedulers.request import Chunks
from ..schedulers.site_draft import parse_seconds
from ..sections import JobSettings
from .site import Site

CHAIN = "chain"  # in a run's directory: the job ids of its chunks, for the job script
FOLDER = "chunks"  # in the directory of the first run: the scripts of the later chunks


def count_chunks(site: Site, job: JobSettings) -> Chunks:
    """The chunks of a job section; one without job.chunk."""
    total_s = parse_seconds(site["job"]["time"] if job.time is None else job.time)
    if job.chunk is None:
        return Chunks(total_s)
    chunk_s = parse_seconds(job.chunk, "job.chunk")
    if not 0 < chunk_s < total_s:
        raise LabError(
            f"job.chunk={job.chunk} is not shorter than job.time={format_hms(total_s)}, which"
            " is the time of all chunks. For example: job.time=20h job.chunk=3h"
        )
    number = math.ceil(total_s / chunk_s)
    method = site["requeue"]["method"]
    if scheduler_of(site.scheduler).chain and method in ("none", "resubmit"):
        return Chunks(total_s, number, are_chained=True)
    if method == "none":
        raise LabError(
            f"job.chunk={job.chunk}, but {site.name} ({site.scheduler}) cannot continue a job"
            " by another one. Leave out job.chunk, and later type: lab resume RUN"
        )
    return Chunks(total_s, number)


def write_chunk_script(script: Path, n: int) -> Path:
    """Writes chunks/<n>.sh, which has the directives of `script` and runs it as chunk `n`."""
    lines = script.read_text(encoding="utf-8").splitlines()
    head = lines[: next(i for i, line in enumerate(lines) if not line.startswith("#"))]
    chunk = script.parent / FOLDER / f"{n}.sh"
    chunk.parent.mkdir(exist_ok=True)
    body = ["", f"export {env.CHUNK}={n}", f"exec bash {shlex.quote(str(script))}", ""]
    chunk.write_text("\n".join([*head, *body]), encoding="utf-8")
    return chunk
