"""`lab runs archive`: runs as one file that another machine can verify and reproduce from."""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

from ..errors import LabError
from ..machine.counted import counted
from ..machine.known_secrets import known_secrets
from ..machine.secrets import find_tokens, refuse_tokens
from ..project import Project
from .archive_check import MANIFEST
from .archive_crate import format_crate, format_readme
from .atomic import sha256
from .attempt_files import read_attempts
from .bundle import BundleFile, write_bundle
from .code_section import checked_out_submodules, folder_name
from .filters import FILTERS, filter_rows, parse_filter
from .frozen import repository_top, repository_with
from .git import Git
from .index import read_rows
from .outcome import final_weights
from .process import user
from .roots import run_roots
from .run import Run
from .schema import Code, Row
from .seal import write_sealed
from .status import UNENDED
from .verify_files import ARCHIVED
from .verify_results import BEST

CRATE = "ro-crate-metadata.json"
README = "README.md"
STORED = (".bundle", ".ckpt", ".gz", ".jpg", ".png", ".zip")  # compressed already
NEEDLESS = ("heartbeat", "lock")  # of a run that has ended
SEARCHED_BYTES = 20_000_000  # a larger file is not searched for secrets
DESCRIPTION = (
    "Writes runs into one zip file: record, code, best weights, the fingerprint of the data, hashes "
    "of all files, and metadata as an RO-Crate. It holds the history of the repository up to the "
    "code. `lab runs verify FILE` checks it anywhere; its README.md says how to reproduce."
)


@dataclass(frozen=True)
class ArchivedFile:
    """A file, and its path in the archive."""

    source: Path
    path: str


def archive_command(project: Project, args: list[str]) -> None:
    """`lab runs archive`.

    Raises:
        LabError: a filter is not understood, no run matches, or the file exists.
        Refused: a record holds what looks like a secret.
    """
    options = archive_parser().parse_intermixed_args(args)
    file = options.output.absolute()
    if file.suffix != ".zip" or not file.parent.is_dir():
        raise LabError(f"-o {options.output}: expected NAME.zip in a directory that exists")
    if file.exists():
        raise LabError(f"{options.output} exists already; name a new file")
    filters = [parse_filter(text) for text in options.where]
    all_rows = read_rows(run_roots(project))
    rows = filter_rows(all_rows, filters)
    ended = [row for row in rows if row["status"] not in (*UNENDED, "damaged")]
    if len(ended) < len(rows):
        runs = counted(len(rows) - len(ended), "run")
        print(f"left out: {runs}, not ended or damaged")
    if not ended:
        raise LabError(
            f"none of {counted(len(all_rows), 'run')} can be archived. Runs: lab runs list"
        )
    with tempfile.TemporaryDirectory(prefix="lab-archive-") as temporary:
        files = gather_files(project, ended, Path(temporary))
        if not options.allow:
            refuse_secrets(files)
        write_archive(file, files)
    runs = counted(len(ended), "run")
    print(f"{options.output}: {runs}, {counted(len(files), 'file')}, {format_size(file)}")
    print(f"check it anywhere: lab runs verify {options.output}")


def archive_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lab runs archive", description=f"{DESCRIPTION} {FILTERS}"
    )
    parser.add_argument(
        "where", nargs="+", metavar="FILTER", help="which runs, for example: tag=paper"
    )
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("archive.zip"), metavar="FILE", help="archive.zip"
    )
    parser.add_argument(
        "--allow", action="store_true", help="archive also what looks like a secret"
    )
    return parser


def format_size(file: Path) -> str:
    return f"{file.stat().st_size / 1e6:.1f} MB"


def gather_files(project: Project, rows: list[Row], temporary: Path) -> list[ArchivedFile]:
    """Every file of the archive but its manifest; those made for it lie in `temporary`."""
    files = []
    for row in rows:
        run = Run.open(Path(row["run_dir"]))
        place = temporary / run.dir.parent.name / run.dir.name
        place.mkdir(parents=True)
        files += [*files_of_record(run), *weights_of(run, place)]
        files += whole_bundles(run, project.root, place)
    crate = temporary / CRATE
    crate.write_text(format_crate(project, rows, [file.path for file in files]), encoding="utf-8")
    readme = temporary / README
    readme.write_text(format_readme(project, rows), encoding="utf-8")
    return [*files, ArchivedFile(crate, CRATE), ArchivedFile(readme, README)]


def path_of(run: Run) -> str:
    """The directory of a run in the archive."""
    return f"runs/{run.dir.parent.name}/{run.dir.name}"


def files_of_record(run: Run) -> list[ArchivedFile]:
    """The files of a run but its checkpoints."""
    files = []
    for path in sorted(run.dir.rglob("*")):
        inside = path.relative_to(run.dir)
        is_hidden = any(part.startswith(".") for part in inside.parts)
        is_needless = inside.parts[0] == "checkpoints" or path.name in NEEDLESS
        if path.is_file() and not is_hidden and not is_needless:
            files.append(ArchivedFile(path, f"{path_of(run)}/{inside.as_posix()}"))
    return files


def weights_of(run: Run, place: Path) -> list[ArchivedFile]:
    """The best weights and those of the run's numbers; and archived.json, which names the others."""
    checkpoints = sorted(run.checkpoints.glob("*.ckpt"))
    archived = {run.checkpoints / BEST, final_weights(run.checkpoints)} & set(checkpoints)
    left_out = [path.name for path in checkpoints if path not in archived]
    note = {"archived": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "who": user(), "left_out": left_out}
    write_sealed(place / ARCHIVED, note)
    files = [ArchivedFile(place / ARCHIVED, f"{path_of(run)}/{ARCHIVED}")]
    folder = f"{path_of(run)}/checkpoints"
    return [*files, *(ArchivedFile(path, f"{folder}/{path.name}") for path in sorted(archived))]


def whole_bundles(run: Run, root: Path, place: Path) -> list[ArchivedFile]:
    """Bundles of code whose own ones leave a part to the remote, which may vanish."""
    codes = [(run.record["code"], run.dir, "")]
    for attempt in read_attempts(run.dir):
        folder = f"attempts/{attempt.n}/"
        codes.append((attempt.start.get("code") or {}, run.dir / folder, folder))
    files = []
    for code, bundles, folder in codes:
        if code.get("commit") and not code.get("same"):
            top = repository_top(root, code)
            made = whole_bundles_of(code, top, bundles, place / folder, "code")
            files += [ArchivedFile(path, f"{path_of(run)}/{folder}{path.name}") for path in made]
    return files


def whole_bundles_of(code: Code, top: Path, bundles: Path, place: Path, name: str) -> list[Path]:
    """code.base.bundle with all of a commit, where the recorded bundles are thin or missing."""
    made = []
    if code.get("bundle") in ("thin", "pushed"):
        place.mkdir(parents=True, exist_ok=True)
        recorded_bundles = [bundles / f"{name}.base.bundle", bundles / f"{name}.bundle"]
        git_dir = repository_with(code, top, recorded_bundles, place / f".{name}.git")
        git = Git(git_dir, {"GIT_DIR": str(git_dir)})
        path = place / f"{name}.base.bundle"
        write_bundle(git, path, BundleFile(".base.bundle", path.name, code["commit"]))
        made.append(path)
    for inner in checked_out_submodules(code):
        inner_name = f"{name}.{folder_name(inner)}"
        made += whole_bundles_of(inner, top / inner["path"], bundles, place, inner_name)
    return made


def refuse_secrets(files: list[ArchivedFile]) -> None:
    """Searches the texts of records for what nobody should publish.

    Raises:
        Refused: with the places.
    """
    secrets = known_secrets()
    places = []
    for file in files:
        is_text = file.source.suffix not in STORED
        if is_text and file.source.stat().st_size < SEARCHED_BYTES:
            places += find_tokens(file.source.read_bytes(), file.path, secrets)
    refuse_tokens(places, "Take it out with: lab runs scrub RUN. If it is no secret: --allow")


def write_archive(file: Path, files: list[ArchivedFile]) -> None:
    """Writes the zip file under a temporary name, then renames it."""
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    top = file.stem
    try:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
            lines = []
            for each in files:
                is_stored = each.source.suffix in STORED
                method = zipfile.ZIP_STORED if is_stored else zipfile.ZIP_DEFLATED
                archive.write(each.source, f"{top}/{each.path}", compress_type=method)
                lines.append(f"{sha256(each.source)}  {each.path}")
            archive.writestr(f"{top}/{MANIFEST}", "\n".join([*lines, ""]))
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        os.replace(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)
