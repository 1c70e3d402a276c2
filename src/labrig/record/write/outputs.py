"""What a command of `lab submit -- COMMAND` wrote into its directory, as end.json lists it."""

from __future__ import annotations

from ..files.atomic import sha256
from ..files.schema import Outputs
from ..read.attempt_files import AttemptFiles, read_attempts
from ..read.run import Run
from ..verify.files import Part

WORK = "work"  # in the directory of a run: where its command runs
MAX_LISTED = 1000  # files; of more only number and size are recorded
MAX_SHOWN = 10


def outputs_of(attempts: list[AttemptFiles]) -> Outputs | None:
    """What lay there when the last attempt ended; None of a run that is no command."""
    listed = [attempt.end["outputs"] for attempt in attempts if "outputs" in attempt.end]
    return listed[-1] if listed else None


def describe_outputs(run: Run) -> list[str]:
    """A line for each file, the newest list; a last line for those that are not named."""
    outputs = outputs_of(read_attempts(run.dir))
    if outputs is None:
        return []
    if not outputs["n"]:
        return [f"nothing into {WORK}/"]
    shown = list(outputs["files"].items())[:MAX_SHOWN]
    lines = [f"{path}, {file['bytes']:,} bytes" for path, file in shown]
    n_more = outputs["n"] - len(shown)
    if n_more:
        lines.append(f"and {n_more} more in {WORK}/, {outputs['bytes']:,} bytes in all")
    return lines


def check_outputs(run: Run) -> Part:
    """The outputs of a command by their hashes; they are the user's, who may move them."""
    part = Part("outputs")
    outputs = outputs_of(read_attempts(run.dir))
    assert outputs is not None  # the caller has looked
    for name, file in outputs["files"].items():
        path = run.dir / name
        if not path.exists():
            part.unchecked.append(f"{path} is gone")
        elif file["sha256"] is None:
            part.unchecked.append(f"{name} has no hash: it is large, or the job was stopped")
        elif sha256(path) != file["sha256"]:
            part.problems.append(f"{path} was changed")
    return part
