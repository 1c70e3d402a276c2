"""Whether an archive of runs is whole: every byte, and every run by its own record."""

from __future__ import annotations

import stat
import tempfile
import zipfile
from pathlib import Path

from ..errors import Failed
from ..machine.counted import counted
from .atomic import sha256
from .run import Run
from .verify_code import check_code
from .verify_files import Part, check_record, check_settings
from .verify_results import check_checkpoints, check_metrics

MANIFEST = "manifest-sha256.txt"


def check_directory(run: Run, root: Path) -> list[Part]:
    """Every part of a run that lies in its directory, compared with its record."""
    return [
        check_code(run, root),
        check_settings(run),
        check_record(run),
        check_metrics(run),
        check_checkpoints(run),
    ]


def is_archive(word: str) -> bool:
    return word.endswith(".zip") and Path(word).is_file()


def verify_archive(file: Path) -> str:
    """Checks an archive without any project: its code is taken from its own bundles.

    Returns: what was checked, as lines.

    Raises:
        Failed: it is no archive, or something is not as recorded.
    """
    with tempfile.TemporaryDirectory(prefix="lab-verify-") as temporary:
        folder = Path(temporary).resolve()
        unpack(file, folder)
        manifests = list(folder.glob(f"*/{MANIFEST}"))
        if not manifests:
            raise Failed(
                f"{file} is no archive of lab runs archive: it has no {MANIFEST}. "
                "Make one: lab runs archive"
            )
        top = manifests[0].parent
        problems = manifest_problems(top)
        remarks = []
        directories = sorted(path.parent for path in top.glob("runs/*/*/run.json"))
        for directory in directories:
            run = Run.open(directory)
            # A directory that is no repository: nothing comes from elsewhere.
            parts = check_directory(run, folder / "elsewhere")
            problems += [f"{run.id}: {line}" for part in parts for line in part.problems]
            remarks += [
                f"{run.id}: {part.name}: {line}" for part in parts for line in part.unchecked
            ]
            remarks.append(f"{run.id}: {describe_data(run)}")
    if problems:
        listed = [problem.replace(f"{top}/", "") for problem in problems]
        raise Failed("\n  ".join([f"{file} is not as it was written:", *listed]))
    runs = counted(len(directories), "run")
    return "\n  ".join([f"{file}: as recorded, with the code: {runs}", *remarks])


def unpack(file: Path, folder: Path) -> None:
    """Unpacks a zip file; its links are left out, and no path leads out of `folder`.

    Raises:
        Failed: it is damaged.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            for entry in archive.infolist():
                if not stat.S_ISLNK(entry.external_attr >> 16):
                    archive.extract(entry, folder)
    except (zipfile.BadZipFile, EOFError, OSError, ValueError) as error:
        raise Failed(f"{file} is damaged: {error}. Copy it again from where it was made") from error


def manifest_problems(top: Path) -> list[str]:
    """The files that are missing, changed or not in the manifest."""
    lines = (top / MANIFEST).read_text(encoding="utf-8").splitlines()
    expected = {path: digest for digest, _, path in (line.partition("  ") for line in lines)}
    existing = {
        path.relative_to(top).as_posix()
        for path in top.rglob("*")
        if path.is_file() and path.name != MANIFEST
    }
    problems = [f"{path} is missing" for path in sorted(expected.keys() - existing)]
    problems += [f"{path} is not in the manifest" for path in sorted(existing - expected.keys())]
    for path in sorted(expected.keys() & existing):
        if sha256(top / path) != expected[path]:
            problems.append(f"{path} was changed")
    return problems


def describe_data(run: Run) -> str:
    """Which data the run read; an archive holds their fingerprint only."""
    if "sha256" not in run.data:
        return "data: not recorded"
    name = Path(run.data.get("path") or "?").name
    return f"data: {name}, sha256 {run.data['sha256']}, not in the archive"
