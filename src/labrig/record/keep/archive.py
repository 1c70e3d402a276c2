"""`lab runs archive`: runs as one file that another machine can verify and reproduce from."""

from __future__ import annotations

import argparse
import hashlib
import os
import tempfile
import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from tqdm import tqdm

from ...command_parser import CommandParser
from ...env import FROZEN_LIBRARY
from ...errors import LabError
from ...machine.progress import byte_progress
from ...machine.secrets import find_tokens, known_secrets, refuse_tokens
from ...machine.text_formats import and_more, counted, printable
from ...project import Project
from ..files.atomic import sha256, write_json
from ..files.checkpoint_files import files_of
from ..files.code_section import checked_out_submodules, folder_name
from ..files.manifest import listed_files
from ..files.process import user
from ..files.schema import Code, Row
from ..freeze.bundle import COMPRESSED, OF_TREE, BundleFile, write_bundle
from ..freeze.frozen import repository_beside, repository_top, repository_with, submodule_top
from ..freeze.snapshot import commit_tree
from ..read.attempt_files import read_attempts
from ..read.filters import FILTERS, filter_rows, parse_filter
from ..read.rows import read_rows
from ..read.run import Run, run_roots
from ..read.status import UNENDED, final_weights
from ..verify.files import ARCHIVED
from ..verify.results import BEST
from ..write.weights_place import own_place
from .annotate import note_named
from .archive_check import MANIFEST
from .archive_crate import format_crate, format_readme
from .contents import BLOCK_BYTES, blocks_of, holds_any, holds_unread

CRATE = "ro-crate-metadata.json"
README = "README.md"
CHECKPOINTS = "checkpoints"  # of a run
STORED = (".bundle", ".ckpt", ".distcp", ".gz", ".jpg", ".png", ".zip")  # compressed already
NEEDLESS = ("heartbeat", "lock")  # of a run that has ended
# What `lab` writes into a run besides the files that the manifest lists.
WRITTEN = (
    *("manifest.jsonl", "metrics.*", "speed.jsonl", "archived.json", "env.txt", "job.*"),
    *("cancelled", "requeue*", "resubmitted*", "chain*", "chunk*", "hosts*", "nodes*"),
    *("pictures/*", "predictions/*", "profile/*", "attempts/*/*.bundle", "attempts/*/used-*"),
    *("attempts/*/config.yaml", "attempts/*/traceback*.txt", "attempts/*/stack-*.txt"),
)
LARGE_BYTES = 100_000_000  # searching it for secrets takes more than ten seconds
MAX_NAMED = 5
DESCRIPTION = (
    "Writes runs into one zip file: record, code, best weights, the fingerprint of the data, hashes "
    "of all files, and metadata as an RO-Crate. The code is one commit without history. "
    "`lab runs verify FILE` checks it anywhere; its README.md says how to reproduce."
)


@dataclass(frozen=True)
class ArchivedFile:
    """A file, and its path in the archive."""

    source: Path
    path: str


def archive_command(project: Project, args: list[str]) -> None:
    """`lab runs archive`."""
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
        files = gather_files(project, ended, Path(temporary), options.taken)
        if not options.allow:
            refuse_secrets(files)
        write_archive(file, files)
    note_named([row["run_dir"] for row in ended], file)
    runs = counted(len(ended), "run")
    print(f"{options.output}: {runs}, {counted(len(files), 'file')}, {format_size(file)}")
    print(f"check it anywhere: lab runs verify {options.output}")


def archive_parser() -> argparse.ArgumentParser:
    parser = CommandParser(prog="lab runs archive", description=f"{DESCRIPTION} {FILTERS}")
    parser.add_argument(
        "where", nargs="+", metavar="FILTER", help="which runs, for example: tag=paper"
    )
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("archive.zip"), metavar="FILE", help="archive.zip"
    )
    parser.add_argument(
        "--allow", action="store_true", help="archive also what looks like a secret"
    )
    parser.add_argument(
        "--with",
        dest="taken",
        action="append",
        default=[],
        metavar="PATH",
        help="also this file or directory of each run, such as work, which lab did not write",
    )
    return parser


def format_size(file: Path) -> str:
    return f"{file.stat().st_size / 1e6:.1f} MB"


def gather_files(
    project: Project, rows: list[Row], temporary: Path, taken: Sequence[str] = ()
) -> list[ArchivedFile]:
    """Every file of the archive but its manifest; those made for it lie in `temporary`.

    Args:
        taken: what is taken from the directories of the runs although `lab` did not write it.
    """
    for path in taken:
        is_inside = not Path(path).is_absolute() and ".." not in Path(path).parts
        if not is_inside or not any((Path(row["run_dir"]) / path).exists() for row in rows):
            raise LabError(f"--with {path}: expected a path inside a run, and no run has it")
    files = []
    for row in rows:
        run = Run.open(Path(row["run_dir"]))
        place = temporary / run.dir.parent.name / run.dir.name
        place.mkdir(parents=True)
        files += [*files_of_record(run, taken), *weights_of(run, place)]
        files += tree_bundles(run, project.root, place)
    crate = temporary / CRATE
    crate.write_text(format_crate(project, rows, [file.path for file in files]), encoding="utf-8")
    readme = temporary / README
    readme.write_text(format_readme(project, rows), encoding="utf-8")
    return [*files, ArchivedFile(crate, CRATE), ArchivedFile(readme, README)]


def path_of(run: Run) -> str:
    """The directory of a run in the archive."""
    return f"runs/{run.dir.parent.name}/{run.dir.name}"


def files_of_record(run: Run, taken: Sequence[str] = ()) -> list[ArchivedFile]:
    """The files of a run that `lab` wrote, but its checkpoints, and those below the paths in `taken`.

    What a link leads to outside of the run is not published.
    """
    files = []
    outside = []
    others = []
    listed = listed_files(run.dir)
    top = run.dir.resolve()
    for path in sorted(run.dir.rglob("*")):
        inside = path.relative_to(run.dir)
        is_hidden = any(part.startswith(".") for part in inside.parts)
        is_needless = inside.parts[0] == "checkpoints" or path.name in NEEDLESS
        if is_hidden or is_needless or has_history(path.name):
            continue
        if not path.resolve().is_relative_to(top):
            outside.append(str(inside))
        elif path.is_file():
            name = inside.as_posix()
            is_taken = any(inside.is_relative_to(each) for each in taken)
            if is_taken and holds_unread(path):
                raise LabError(
                    f"{path} is compressed in a way that is not searched for secrets. "
                    "Unpack it, or leave it out of --with"
                )
            if is_taken or name in listed or is_written(name):
                files.append(ArchivedFile(path, f"{path_of(run)}/{name}"))
            else:
                others.append(name)
    say_left_out(run, others, "as lab did not write it (to take it: --with PATH)")
    say_left_out(run, outside, "behind a link that leads out of the run")
    return files


def has_history(name: str) -> bool:
    """Whether a file is a bundle of `lab` with commits before the code, and not of its library."""
    return name.startswith("code.") and name.endswith(".bundle") and not name.endswith(COMPRESSED)


def is_written(name: str) -> bool:
    """Whether `lab` writes a file of this name without a line in the manifest."""
    forms = [form for form in WRITTEN if ("/" in form) == ("/" in name)]
    return any(fnmatchcase(name, form) for form in forms)


def say_left_out(run: Run, names: list[str], why: str) -> None:
    """Says which files of a run an archive does not hold."""
    if names:
        print(f"left out of {run.id}, {why}: {and_more(map(printable, names), MAX_NAMED)}")


def weights_of(run: Run, place: Path) -> list[ArchivedFile]:
    """The best weights and those of the run's numbers; and archived.json, which names the others."""
    checkpoints = sorted(run.checkpoints.glob("*.ckpt"))
    chosen = {run.checkpoints / BEST, final_weights(run.checkpoints)} & set(checkpoints)
    archived = {path for path in chosen if is_own_checkpoint(run, path)}
    others = sorted(path.name for path in chosen - archived)
    say_left_out(run, others, "which its record does not know")
    left_out = [path.name for path in checkpoints if path not in archived]
    note = {"archived": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "who": user(), "left_out": left_out}
    write_json(place / ARCHIVED, note)
    files = [ArchivedFile(place / ARCHIVED, f"{path_of(run)}/{ARCHIVED}")]
    folder = f"{path_of(run)}/{CHECKPOINTS}"
    for file in (file for path in sorted(archived) for file in files_of(path)):
        inside = file.relative_to(run.checkpoints).as_posix()
        files.append(ArchivedFile(file, f"{folder}/{inside}"))
    return files


def is_own_checkpoint(run: Run, path: Path) -> bool:
    """Whether a checkpoint was made by the run. A link of a run that was received may lead anywhere.

    Behind a link it is when the place has the mark of the run, or the record has its hash.
    """
    if path.is_symlink():
        return False
    if not (run.dir / "checkpoints").is_symlink() or own_place(run.dir, run.dir.name):
        return True
    ends = [attempt.end.get("checkpoints", {}) for attempt in read_attempts(run.dir)]
    hashes = {(checkpoints.get(path.name) or {}).get("sha256") for checkpoints in ends}
    return sha256(path) in hashes


def tree_bundles(run: Run, root: Path, place: Path) -> list[ArchivedFile]:
    """The code of a run, and of attempts with other code, in place of the bundles with history."""
    codes = [(run.record["code"], run.dir, "")]
    for attempt in read_attempts(run.dir):
        folder = f"attempts/{attempt.n}/"
        codes.append((attempt.start.get("code") or {}, run.dir / folder, folder))
    files = []
    for code, bundles, folder in codes:
        if code.get("commit") and not code.get("same"):
            top = repository_top(root, code)
            made = tree_bundles_of(code, top, bundles, place / folder, "code")
            files += [ArchivedFile(path, f"{path_of(run)}/{folder}{path.name}") for path in made]
    return files


def tree_bundles_of(
    code: Code, top: Path | None, bundles: Path, place: Path, name: str
) -> list[Path]:
    """The tree of a `code` section as one commit, and those of its submodules.

    The bundle of the library stays, which is one commit already.
    """
    place.mkdir(parents=True, exist_ok=True)
    recorded = [bundles / f"{name}{ending}" for ending in (".base.bundle", ".bundle", OF_TREE)]
    git_dir = repository_with(code, top, recorded, place / f".{name}.git")
    git = repository_beside(git_dir, place / f".{name}.tree", code)
    path = place / f"{name}{OF_TREE}"
    write_bundle(git, path, BundleFile(OF_TREE, path.name, commit_tree(git, code["tree"], None)))
    made = [path]
    for inner in checked_out_submodules(code):
        if inner["path"] != FROZEN_LIBRARY:
            inner_name = f"{name}.{folder_name(inner)}"
            made += tree_bundles_of(inner, submodule_top(top, inner), bundles, place, inner_name)
    return made


def refuse_secrets(files: list[ArchivedFile]) -> None:
    """Searches records for what nobody should publish, also in what they have compressed.

    Of weights only known secrets are searched, since all else in them looks like anything.
    """
    secrets = known_secrets()
    values = [value.encode() for value in secrets]
    places = []
    for file in files:
        size_bytes = file.source.stat().st_size
        if size_bytes > LARGE_BYTES:
            print(f"searching {file.path} for secrets ({size_bytes / 1e9:.1f} GB)", flush=True)
        if f"{CHECKPOINTS}/" in file.path:
            if values and holds_any(file.source, values):
                places.append(f"{file.path} holds a known secret")
        elif file.source.suffix != ".bundle":  # of code, which was searched when it was frozen
            places += tokens_in(file, secrets)
    refuse_tokens(
        places,
        "Leave the run out: lab docs record says what to do with it. If it is no secret: --allow",
    )


def tokens_in(file: ArchivedFile, secrets: dict[str, str]) -> list[str]:
    """What `find_tokens` finds in a file of any size; the place is that in its block."""
    places: list[str] = []
    for n, block in enumerate(blocks_of(file.source)):
        where = file.path if n == 0 else f"{file.path}, block {n + 1}"
        places += find_tokens(block, where, secrets)
    return places


def write_archive(file: Path, files: list[ArchivedFile]) -> None:
    """Writes the zip file under a temporary name, then renames it."""
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    top = file.stem
    n_bytes = sum(each.source.stat().st_size for each in files)
    try:
        with (
            byte_progress(f"writing {file.name}", n_bytes) as bar,
            zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive,
        ):
            lines = []
            for each in files:
                found = add_file(archive, each.source, f"{top}/{each.path}", bar)
                lines.append(f"{found}  {each.path}")
            archive.writestr(f"{top}/{MANIFEST}", "\n".join([*lines, ""]))
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        os.replace(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)


def add_file(archive: zipfile.ZipFile, source: Path, path: str, bar: tqdm) -> str:
    """Writes a file into a zip file as `path`. Returns: the sha256 of what was written."""
    member = zipfile.ZipInfo.from_file(source, path)
    is_stored = source.suffix in STORED
    member.compress_type = zipfile.ZIP_STORED if is_stored else zipfile.ZIP_DEFLATED
    hashed = hashlib.sha256()
    with open(source, "rb") as file, archive.open(member, "w") as written:
        while block := file.read(BLOCK_BYTES):
            written.write(block)
            hashed.update(block)
            bar.update(len(block))
    return hashed.hexdigest()
