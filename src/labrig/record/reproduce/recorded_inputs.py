"""Finds what a run read: its data along `paths.data`, and the weights that it started from, by their content."""

from __future__ import annotations

import glob
import json
import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from ...errors import LabError, NotComparable
from ...project import Project, read_yaml
from ..files.json_lines import read_lines
from ..files.schema import InitialWeights
from ..read.attempt_files import read_attempts
from ..read.find import find_run
from ..read.rows import run_directories
from ..read.run import Run, run_roots
from ..write.inputs import content_of, resolve_weights, size_of

# Two files of the same samples differ by what their attributes say, such as the command.
ATTRIBUTES_BYTES = 1 << 16
HASH_DIGITS = 12  # of the hash in the name of a file that is kept
USES = ("evaluations.jsonl", "predictions.jsonl")  # of a run: rows that may name the data they read


def kept_path(path: Path, sha256: str) -> Path:
    """The name under which a data file stays when another one takes its name."""
    digits = re.sub("[^0-9a-f]", "", sha256)  # a record may come from a stranger
    return path.parent / f"{path.stem}-{digits[:HASH_DIGITS]}{path.suffix}"


def kept_data(project: Project, run: Run) -> Path | None:
    """The one data file of a run that was kept when another took its name; None without one."""
    if "size_bytes" not in run.data or "path" not in run.data or "files" in run.data:
        return None
    return kept_file(project, run, run.data)


def kept_file(project: Project, run: Run, recorded: Mapping[str, Any]) -> Path | None:
    """One data file of a run, as `kept_data`."""
    places = named_places(project, run, recorded)
    kept = [kept_path(place, recorded["sha256"]) for place in places]
    return next((place for place in kept if place.is_file()), None)


def runs_with_data(project: Project, sha256s: set[str]) -> list[str]:
    """The ids of the runs that read data of one of these hashes, in training or afterwards."""
    run_ids = []
    for directory in map(Path, run_directories(*run_roots(project))):
        contents = [attempt.start.get("data") for attempt in read_attempts(directory)]
        for name in USES:
            contents += [row.get("data") for row in read_lines(directory / name)]
        known = [content for content in contents if isinstance(content, Mapping)]
        files = [file for content in known for file in recorded_files(content)]
        hashes = {content.get("sha256") for content in [*known, *files]}
        if hashes & sha256s:
            run_ids.append(directory.name)
    return run_ids


def is_same_data(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether data are the recorded ones by their content."""
    return recorded.get("sha256") == now.get("sha256")


def recorded_files(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What a record says of each data file; one for the data of one file."""
    return data.get("files") or [data]


def find_recorded_data(project: Project, run: Run) -> list[Path]:
    """The data files of a run, wherever they lie now, or its folder; none when the record names none.

    Raises:
        NotComparable: one of them is not there.
    """
    if "path" not in run.data:
        return []
    if "size_bytes" not in run.data:
        return [find_folder(project, run)]
    return [find_recorded_file(project, run, file) for file in recorded_files(run.data)]


def find_recorded_file(project: Project, run: Run, recorded: Mapping[str, Any]) -> Path:
    """One data file of a run.

    It is searched in the directories of paths.data, by its name and then by its size; the place of
    the record comes last. The content decides, which the training would read anyway.

    Args:
        recorded: what the record says of it.

    Raises:
        NotComparable: no such file is there.
    """
    named = [path for path in named_places(project, run, recorded) if path.is_file()]
    kept = kept_file(project, run, recorded)
    likely = [path for path in (kept, *named) if path and has_about_its_size(path, recorded)]
    folders = [*project.paths.data]
    if "files" in run.data:
        folders += [path.parent for path in named_places(project, run, recorded)]
    others = [path for path in files_in(folders) if path.stat().st_size == recorded["size_bytes"]]
    candidates = list(dict.fromkeys([*likely, *others]))
    contents = []
    for path in candidates:
        if is_untouched(path, recorded):
            return path
        contents.append(hashes_of(path, project))
        if contents[-1] and is_same_data(recorded, contents[-1]):
            return path
    is_as_large = [path.stat().st_size == recorded["size_bytes"] for path in candidates]
    if contents == [None] and is_as_large == [True]:
        return candidates[0]  # whoever reads it says what is wrong with it
    raise NotComparable(describe_missing(project, run, recorded, named))


def has_about_its_size(path: Path, recorded: Mapping[str, Any]) -> bool:
    return abs(path.stat().st_size - recorded["size_bytes"]) <= ATTRIBUTES_BYTES


def is_untouched(path: Path, recorded: Mapping[str, Any]) -> bool:
    """Whether a file is the recorded one, at its place, or kept there, with its time of change."""
    place = Path(recorded["path"])
    if path not in (place, kept_path(place, recorded["sha256"])):
        return False
    stat = path.stat()
    return (stat.st_size, stat.st_mtime_ns) == (recorded["size_bytes"], recorded.get("mtime_ns"))


def describe_missing(
    project: Project, run: Run, recorded: Mapping[str, Any], named: list[Path]
) -> str:
    """Which data a run read, and what is there in their place."""
    expected = f"recorded were {recorded['size_bytes']} bytes, sha256 {recorded['sha256'][:12]}"
    if named:
        n_bytes = named[0].stat().st_size
        return (
            f"the data of {run.id} was changed: {named[0]} has {n_bytes} bytes; {expected}.\n"
            f"{how_to_fetch(project, run)}To make them again, move it away, then: "
            f"{how_to_make(run, recorded)}"
        )
    old = Path(recorded["path"])
    searched = ", ".join(map(str, project.paths.data))
    return (
        f"the data of {run.id} is missing: {old.name} is neither in {old.parent} nor in "
        f"{searched}; {expected}.\n"
        f"{how_to_fetch(project, run)}"
        f"Copy it there, set paths.data, or make it again: {how_to_make(run, recorded)}"
    )


def how_to_make(run: Run, recorded: Mapping[str, Any]) -> str:
    """The command that made a data file of a run."""
    return str(recorded.get("pack") or run.data.get("pack") or "as it was made then")


def how_to_fetch(project: Project, run: Run) -> str:
    """The line of a message for data that were pushed; "" for others."""
    return f"Fetch it: lab data pull {run.id}\n" if stored_place(project, run) else ""


def stored_place(project: Project, run: Run) -> str | None:
    """Where `lab data push` has put the data of a run, by its settings or by a file of conf/data now."""
    sections = [run.config.get("data")]
    sections += map(read_yaml, sorted((project.source / "conf" / "data").glob("*.yaml")))
    wanted = {file.get("sha256") for file in recorded_files(run.data)}
    for section in sections:
        stored = section.get("stored") if isinstance(section, dict) else None
        if not isinstance(stored, dict) or not wanted <= stored_hashes(stored):
            continue
        if isinstance(stored.get("place"), str):
            return stored["place"]
    return None


def stored_hashes(stored: Mapping[str, Any]) -> set[Any]:
    """The hashes of the files that a setting `stored` names."""
    files = stored.get("files")
    if not isinstance(files, list):
        return {stored.get("sha256")}
    return {file.get("sha256") for file in files if isinstance(file, dict)}


def find_folder(project: Project, run: Run) -> Path:
    """The folder of data of a run."""
    places = named_places(project, run)
    for place in places:
        if place.is_dir():
            return place
    listed = " nor ".join(map(str, places))
    raise NotComparable(
        f"the data of {run.id} is missing: there is neither {listed}. "
        "Copy it there, or set paths.data"
    )


def named_places(
    project: Project, run: Run, recorded: Mapping[str, Any] | None = None
) -> list[Path]:
    """Where data of the recorded name may lie, the likeliest place first.

    Args:
        recorded: what the record says of the file; None: of all data.
    """
    path = Path((recorded or run.data)["path"])
    is_part = recorded is not None and "files" in run.data
    names = [f"{path.parent.name}/{path.name}"] if is_part else relative_names(run)
    if recorded is not None and is_part:
        names.insert(0, relative_name(run, recorded))
    places = [directory / name for directory in project.paths.data for name in names]
    places.append(path)
    return list(dict.fromkeys(place.resolve() for place in places))


def relative_names(run: Run) -> list[str]:
    """The names of a run's data in a directory of data: as configured, and the last part alone."""
    recorded = Path(run.data["path"])
    section = run.config.get("data")
    configured = section.get("path") if isinstance(section, dict) else None
    names = [recorded.name]
    if isinstance(configured, str) and not Path(configured).is_absolute():
        names.insert(0, configured)
    return list(dict.fromkeys(names))


def relative_name(run: Run, recorded: Mapping[str, Any]) -> str:
    """The name of one of a run's several data files in a directory of data, as `data.path` has it."""
    own = Path(recorded["path"])
    section = run.config.get("data")
    configured = section.get("path") if isinstance(section, dict) else None
    entries = configured if isinstance(configured, list) else [configured]
    for entry in [Path(entry) for entry in entries if isinstance(entry, str)]:
        is_file = entry.suffix != ""  # or a pattern of files
        folder = entry.parent if is_file else entry
        fits = fnmatch(own.name if is_file else own.parent.name, entry.name)
        if fits and not entry.is_absolute() and not glob.has_magic(str(folder)):
            return str(folder / own.name)
    return f"{own.parent.name}/{own.name}"


def files_in(directories: list[Path]) -> list[Path]:
    """All data files of these directories: the recorded one may have been renamed."""
    return [path.resolve() for directory in directories for path in sorted(directory.glob("*.h5"))]


def hashes_of(path: Path, project: Project) -> dict[str, str] | None:
    """The hashes of a data file, as `lab data verify --json` prints them; None when it is damaged, or
    no file of `lab data pack`.
    """
    done = verify_data(path, project.root)
    return json.loads(done.stdout) if done.returncode == 0 else None


def verify_data(path: Path, root: Path) -> subprocess.CompletedProcess[str]:
    """`lab data verify PATH --json`, as a process.

    What reads records imports neither HDF5 nor NumPy.
    """
    command = [sys.executable, "-m", "labrig", "data", "verify", str(path.absolute()), "--json"]
    return subprocess.run(command, cwd=root, capture_output=True, text=True)


def recorded_weights(run: Run) -> InitialWeights:
    """What a run started from: as its newest attempt that loaded it says, else its record.

    Empty for random weights.
    """
    for attempt in reversed(read_attempts(run.dir)):
        if "init_from" in attempt.start:
            return attempt.start["init_from"]
    return run.record.get("init_from") or {}


def find_recorded_weights(run: Run, project: Project) -> Path:
    """The file that a run started from, by its content, wherever it lies now.

    Raises:
        NotComparable: it is gone, or has another content.
    """
    return find_content(recorded_weights(run), project, f"the weights that {run.id} started from")


def find_content(recorded: InitialWeights, project: Project, what: str) -> Path:
    """The file with the recorded content, wherever it lies now.

    Args:
        what: begins the message when there is none.
    """
    places = places_of(recorded, project)
    # A run that was extended keeps its earlier weights under another name.
    others = [path for place in places for path in sorted(place.parent.glob("*.ckpt"))]
    for path in [*places, *others]:
        if path.exists() and is_content(path, recorded):
            return path
    what = f"{what}, {recorded['source']},"
    expected = f"recorded was sha256 {str(recorded['sha256'])[:12]}"
    named = [path for path in places if path.exists()]
    if named:
        raise NotComparable(
            f"{what} have changed: {named[0]} has sha256 {content_of(named[0])[:12]}; {expected}"
        )
    raise NotComparable(f"{what} are gone: {recorded['path']} is no file; {expected}")


def places_of(recorded: InitialWeights, project: Project) -> list[Path]:
    """Where the recorded file may lie, the likeliest place first; there may be none."""
    places = []
    with suppress(LabError):
        if recorded["run"]:
            checkpoints = find_run(run_roots(project), recorded["run"]).checkpoints
            places.append(checkpoints / f"{recorded['checkpoint']}.ckpt")
        else:
            places.append(Path(resolve_weights(recorded["source"], project)["path"]))
    return list(dict.fromkeys([*places, Path(recorded["path"])]))


def is_content(path: Path, recorded: InitialWeights) -> bool:
    """Whether a file has the recorded content; any has, when none was recorded."""
    if recorded["sha256"] is None:
        return True
    return size_of(path) == recorded["size_bytes"] and content_of(path) == recorded["sha256"]


def format_weights(recorded: InitialWeights) -> str:
    """The line of `lab runs show`: what a run started from, and how much of it."""
    text = recorded["source"]
    if recorded["sha256"]:
        text += f", sha256 {recorded['sha256'][:12]}"
    if "n_loaded" in recorded:
        text += f", {recorded['n_loaded']} of {recorded['n_tensors']} tensors"
    return text
