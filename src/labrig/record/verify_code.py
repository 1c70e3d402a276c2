"""Whether the code of a run, and of attempts that ran other code, can be had again."""

from __future__ import annotations

import tempfile
from pathlib import Path

from ..errors import LabError
from .attempt_files import AttemptFiles, read_attempts
from .frozen import unpack_code
from .incomplete import changed_code, lacking_code
from .run import Run
from .schema import Code
from .verify_files import Part, file_problems, recorded_files


def check_code(run: Run, root: Path) -> Part:
    """Writes out the frozen code of the run and of its attempts. `root` is the project's."""
    part = Part("code", file_problems(recorded_files(run, ".bundle")))
    check_frozen(part, run.record["code"], root, run.dir)
    for attempt in read_attempts(run.dir):
        code = attempt.start.get("code") or {"same": True}
        if code.get("same"):
            continue
        folder = run.dir / "attempts" / str(attempt.n)
        hashes = {run.dir / name: sha for name, sha in attempt.start.get("files", {}).items()}
        part.problems.extend(file_problems(hashes))
        part.problems.extend(lost_bundles(attempt, code, folder))
        check_frozen(part, code, root, folder, whose=f"attempt {attempt.n}: ")
    part.unchecked.extend(lacking_code(run))
    part.problems.extend(changed_code(run, root))
    return part


def check_frozen(part: Part, code: Code, root: Path, folder: Path, whose: str = "") -> None:
    """Adds to `part` whether code can be written out, with its bundles in `folder`."""
    if not code.get("commit"):
        reason = code.get("reason", "an older record")
        part.unchecked.append(f"{whose}not recorded: {reason}")
        return
    with tempfile.TemporaryDirectory(prefix="lab-verify-") as temporary:
        try:
            unpack_code(code, root, folder, Path(temporary, "code"))
        except LabError as error:
            part.problems.append(f"code: {whose}{error}")


def lost_bundles(attempt: AttemptFiles, code: Code, folder: Path) -> list[str]:
    """The bundle that an attempt must have, where its record (of an older lab) lists none."""
    is_listed = "files" in attempt.start
    if is_listed or code.get("bundle") not in ("thin", "full") or any(folder.glob("*.bundle")):
        return []
    return [f"{folder / 'code.bundle'} is missing"]
