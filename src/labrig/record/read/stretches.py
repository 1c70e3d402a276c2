"""The stretches of a run: which of its attempts made its result, and at which step each ended.

An attempt that was killed counts up to the checkpoint from which the next one began.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..files.atomic import read_advisory
from ..files.manifest import write_listed
from ..files.schema import Beginning, Code
from .attempt_files import AttemptFiles, read_attempts
from .run import Run

BEGINNING = "beginning.json"  # in attempts/<n>/: the step at which the training of it began


@dataclass(frozen=True)
class FrozenCode:
    """A `code` section, and the directory with its bundles."""

    code: Code
    bundles: Path


def code_of(run: Run, attempt: AttemptFiles) -> FrozenCode:
    """The code that an attempt ran: its own, or that of the run."""
    code = attempt.start.get("code") or {"same": True}
    if code.get("same"):
        return FrozenCode(run.record["code"], run.dir)
    return FrozenCode(code, run.dir / "attempts" / str(attempt.n))


@dataclass(frozen=True)
class Stretch:
    """What one attempt contributed to the result of its run."""

    attempt: AttemptFiles
    code: Code
    bundles: Path  # the directory with those of `code`
    config: Path
    overrides: list[str]  # of `lab resume`
    stop_step: int | None  # optimizer steps done at its end; None: it came to its own end


def note_beginning(run_dir: Path, n: int, step: int) -> None:
    """Writes at which step (optimizer steps done) the training of attempt `n` begins."""
    write_listed(run_dir, f"attempts/{n}/{BEGINNING}", {"step": step})


def stretches_of(run: Run) -> list[Stretch]:
    """The stretches that made the result of a run, in order; at least one."""
    attempts = read_attempts(run.dir)
    begun = [(attempt, beginning_of(run, attempt)) for attempt in attempts]
    chain = [(attempt, step) for attempt, step in begun if step is not None]
    finished = [place for place, (attempt, _) in enumerate(chain) if is_finished(attempt)]
    if not chain:  # it never trained
        first = attempts[0] if attempts else AttemptFiles(1, {}, {}, [], {})
        return [stretch_of(run, first, None)]
    last = finished[-1] if finished else len(chain) - 1
    stretches = [stretch_of(run, chain[last][0], None)]
    step = chain[last][1]
    for attempt, first_step in reversed(chain[:last]):
        if first_step < step:
            stretches.append(stretch_of(run, attempt, end_of(attempt, step)))
            step = first_step
    return stretches[::-1]


def beginning_of(run: Run, attempt: AttemptFiles) -> int | None:
    """The step at which the training of an attempt began; None when it never did."""
    path = run.dir / "attempts" / str(attempt.n) / BEGINNING
    noted: Beginning = read_advisory(path, Beginning) or {}
    return noted.get("step")


def is_finished(attempt: AttemptFiles) -> bool:
    """Whether the training of an attempt came to its end, even if its final test failed."""
    return attempt.end.get("status") in ("finished", "trained")


def end_of(attempt: AttemptFiles, next_step: int) -> int | None:
    """Where the stretch of an attempt ends when the next one begins at `next_step`."""
    came_to_its_end = is_finished(attempt) and attempt.end.get("global_step") == next_step
    return None if came_to_its_end else next_step


def stretch_of(run: Run, attempt: AttemptFiles, stop_step: int | None) -> Stretch:
    """The stretch of an attempt, with the code and settings that this attempt had."""
    frozen = code_of(run, attempt)
    own_config = run.dir / "attempts" / str(attempt.n) / "config.yaml"
    return Stretch(
        attempt=attempt,
        code=frozen.code,
        bundles=frozen.bundles,
        config=own_config if own_config.exists() else run.dir / "config.yaml",
        overrides=attempt.start.get("overrides") or [],
        stop_step=stop_step,
    )
