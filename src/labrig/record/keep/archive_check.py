"""Whether an archive of runs is whole: every byte, and every run by its own record."""

from __future__ import annotations

import shutil
import stat
import tempfile
import zipfile
import zlib
from pathlib import Path

from ...errors import Failed, LabError
from ...machine.text_formats import counted
from ..files.atomic import read_text, sha256
from ..files.forms import RelativePath, problem_in
from ..read.run import Run
from ..verify.files import Part, check_record, check_settings
from ..verify.results import check_checkpoints, check_code, check_metrics

MANIFEST = "manifest-sha256.txt"


# Texts shrink to a tenth. Zeros shrink to a thousandth, and would fill the disk.
MAX_RATIO = 50
FREE_BYTES = 50_000_000  # that any archive may have


def check_directory(run: Run, root: Path | None) -> list[Part]:
    """Every part of a run that lies in its directory, compared with its record.

    Args:
        root: the project; None: the code comes from the bundles alone.
    """
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
    """
    with tempfile.TemporaryDirectory(prefix="lab-verify-") as temporary:
        folder = Path(temporary).resolve()
        unpack(file, folder)
        manifests = sorted(folder.glob(f"*/{MANIFEST}"))
        if not manifests:
            raise Failed(
                f"{file} is no archive of lab runs archive: it has no {MANIFEST}. "
                "Make one: lab runs archive"
            )
        top = manifests[0].parent
        problems = manifest_problems(top)
        problems += [f"{path.name} is not in the manifest" for path in beside(top)]
        remarks = []
        directories = sorted(path.parent for path in top.glob("runs/*/*/run.json"))
        for directory in directories:
            try:
                run = Run.open(directory)
            except LabError as error:
                problems.append(str(error).partition("\n")[0])
                continue
            parts = check_directory(run, None)  # nothing comes from elsewhere
            problems += [f"{run.id}: {line}" for part in parts for line in part.problems]
            remarks += [
                f"{run.id}: {part.name}: {line}" for part in parts for line in part.unchecked
            ]
            remarks.append(f"{run.id}: {describe_data(run)}")
    if problems:
        listed = [problem.replace(f"{top}/", "") for problem in problems]
        raise Failed("\n  ".join([f"{file} is not as it was written. Get it anew:", *listed]))
    runs = counted(len(directories), "run")
    return "\n  ".join([f"{file}: as recorded, with the code: {runs}", *remarks])


def beside(top: Path) -> list[Path]:
    """What an archive holds outside of its one folder, of which the manifest says nothing."""
    return sorted(path for path in top.parent.iterdir() if path != top)


def unpack(file: Path, folder: Path) -> None:
    """Unpacks a zip file; its links are left out, and no path leads out of `folder`."""
    try:
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
            refuse_odd_names(file, [entry.filename for entry in entries])
            refuse_large(file, sum(entry.file_size for entry in entries), folder)
            for entry in entries:
                if not stat.S_ISLNK(entry.external_attr >> 16):
                    archive.extract(entry, folder)
    # RuntimeError: it wants a password, or a method of packing that Python lacks
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError) as error:
        raise Failed(f"{file} is damaged: {error}. Copy it again from where it was made") from error


def refuse_odd_names(file: Path, names: list[str]) -> None:
    """Makes sure that each file of an archive has a place of its own, inside of it."""
    seen = set()
    for name in names:
        odd = problem_in(name, RelativePath) or (" is there twice" if name in seen else None)
        if odd:
            raise Failed(
                f"{file} is not as it was written: the path {name!r}{odd}. Do not trust it"
            )
        seen.add(name)


def refuse_large(file: Path, n_bytes: int, folder: Path) -> None:
    """Makes sure that an archive unpacks to a size that its own size explains, and that fits."""
    allowed = FREE_BYTES + MAX_RATIO * file.stat().st_size
    if n_bytes > allowed:
        raise Failed(
            f"{file} would unpack to {n_bytes / 1e6:,.0f} MB, and lab writes none that holds more "
            f"than {allowed / 1e6:,.0f} MB in its size. Do not trust it"
        )
    if n_bytes > shutil.disk_usage(folder).free:
        raise Failed(
            f"{file} unpacks to {n_bytes / 1e6:,.0f} MB, and {folder.parent} has less room. "
            "Name a larger disk: TMPDIR=DIRECTORY lab runs verify ..."
        )


def manifest_problems(top: Path) -> list[str]:
    """The files that are missing, changed or not in the manifest."""
    lines = read_text(top / MANIFEST).splitlines()
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
