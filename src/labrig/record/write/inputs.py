"""What a run takes of others: the weights that it starts from (`init_from`), and data that another run made.

What is typed may change its meaning later (@last). A new run gets the reference that never does: of
weights the id of the run with a checkpoint, an absolute path, or a model of the hub with its commit; of
data the path of the file, which any class can open. Its record says which run made them.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import LabError, nearest
from ...machine.hub import INDEX, SCHEME, HubFile, find_cached, shards_of
from ...machine.text_formats import and_more
from ...project import Project
from ..files.checkpoint_files import METADATA, files_of, format_sums
from ..files.checkpoint_hashes import hash_once
from ..files.schema import DataOrigin, InitialWeights
from ..read.attempt_files import WORK
from ..read.find import find_run
from ..read.run import Run, run_record, run_roots
from ..read.status import COUNT_FIRST, UNENDED, status_of, weights_of_numbers
from .weights_place import refuse_other_weights

if TYPE_CHECKING:
    from ...config.compose import Composition


SUFFIXES = (".safetensors", INDEX, ".ckpt", ".pt", ".pth", ".bin")  # of files with weights
CHECKPOINTS = ("best", "last", "previous", "finished")
WHAT_TO_WRITE = "Write a file, a folder of .safetensors files, a run, or hf:ORG/MODEL"
# The line of a recorded configuration that asks for weights.
ASKS = re.compile(r"^init_from: (?!null$)", re.MULTILINE)
KEY = "data.path"
PREDICTIONS = "predictions"  # in the directory of a run: where `lab predict` writes
FOLDERS = ("", PREDICTIONS, WORK)  # of a run, in which a file is looked for by its name
OF_RECORD = (".json", ".jsonl", ".yaml", ".bundle", ".txt", ".sh")  # names that are never data
MAX_SHOWN = 10


def resolve_weights(
    reference: str, project: Project, *, may_come: bool = False, is_hashed: bool = True
) -> InitialWeights:
    """What `init_from` means now.

    Args:
        reference: RUN, RUN:CHECKPOINT, a file, a folder of .safetensors files, or hf:ORG/MODEL.
        project: a relative path is looked up in the current directory, then in its root.
        may_come: accept a checkpoint that is not there yet, of a run that has not ended.
        is_hashed: False reads no content; `sha256` is None then.

    Raises:
        LabError: there is no such run, checkpoint, file, or model in the cache.
    """
    if reference.startswith(SCHEME):
        wanted, path = find_cached(HubFile.parse(reference))
        return describe_file(path, is_hashed, str(wanted))
    if reference.endswith(SUFFIXES):
        return describe_file(existing_file(reference, project.root), is_hashed)
    for folder in places_of(reference, project.root):
        if any(folder.glob("*.safetensors")):
            return describe_file(weights_in(folder), is_hashed)
    return weights_of_run(reference, project, may_come, is_hashed)


def places_of(text: str, root: Path) -> list[Path]:
    """Where a typed path may lie: below the current directory, and below the project."""
    typed = Path(os.path.expandvars(text)).expanduser()
    return list(dict.fromkeys([Path.cwd() / typed, root / typed]))


def weights_in(folder: Path) -> Path:
    """The file of a folder that stands for its weights: the index of several .safetensors, or the only one."""
    folder = Path(os.path.normpath(folder))
    found = sorted(folder.glob(f"*{INDEX}")) or sorted(folder.glob("*.safetensors"))
    if len(found) > 1:
        raise LabError(
            f"init_from={folder}: it has {and_more((path.name for path in found), 3)}, and no "
            f"model{INDEX} says which belong together. Name one file: init_from={found[0]}"
        )
    return found[0]


def existing_file(text: str, root: Path) -> Path:
    """The absolute path of a file."""
    for place in places_of(text, root):
        if place.is_file() or (place / METADATA).is_file():
            return Path(os.path.normpath(place))
    searched = " or ".join(map(str, places_of(text, root)))
    raise LabError(f"init_from={text}: there is no such file: {searched}. {WHAT_TO_WRITE}")


def describe_file(path: Path, is_hashed: bool, source: str | None = None) -> InitialWeights:
    """The entry of a record for a file; a checkpoint in the directory of a run names that run."""
    record = run_record(path.parent.parent)
    if is_hashed:
        refuse_other_weights(path)
    return {
        "source": source or str(path),
        "path": str(path),
        "run": record.get("run_id"),
        "checkpoint": path.stem if record else None,
        "size_bytes": size_of(path),
        "sha256": content_of(path) if is_hashed else None,
    }


def weights_of_run(
    reference: str, project: Project, may_come: bool, is_hashed: bool
) -> InitialWeights:
    """The entry of a record for RUN or RUN:CHECKPOINT."""
    word, _, checkpoint = reference.rpartition(":")
    if checkpoint not in CHECKPOINTS and not checkpoint.startswith("step-"):
        word, checkpoint = reference, None
    is_path = "/" in word and not word.startswith("@")
    if is_path and not Path(word, "run.json").exists():
        is_folder = Path(word).is_dir()
        found = "it holds no .safetensors file" if is_folder else "there is no such folder"
        raise LabError(f"init_from={reference}: {found}, and it is no run. {WHAT_TO_WRITE}")
    run = find_run(run_roots(project), word)
    checkpoint = checkpoint or weights_of_numbers(run.dir, run.checkpoints).stem
    path = run.checkpoints / f"{checkpoint}.ckpt"
    weights: InitialWeights = {"source": f"{run.id}:{checkpoint}", "path": str(path)}
    weights |= {"run": run.id, "checkpoint": checkpoint}
    status = status_of(run.dir)
    if may_come and status in UNENDED:
        # Its last checkpoint will be another one.
        return weights | {"size_bytes": None, "sha256": None}
    if not path.exists():
        names = sorted(other.stem for other in run.checkpoints.glob("*.ckpt"))
        raise LabError(
            f"init_from={reference}: run {run.id} ({status}) has no checkpoint {checkpoint!r}. "
            f"It has: {', '.join(names) or 'none'}"
        )
    return describe_file(path, is_hashed) | weights


def files_behind(path: Path) -> list[Path]:
    """All files of weights: those of a directory; an index with the files that it names."""
    if not path.name.endswith(INDEX):
        return files_of(path)
    shards = shards_of(path)
    if missing := [shard for shard in shards if not shard.exists()]:
        raise LabError(
            f"init_from: {path} names {missing[0].name}, which is not there. Copy it again"
        )
    return [path, *shards]


def size_of(path: Path) -> int:
    """The bytes of all files of weights."""
    return sum(file.stat().st_size for file in files_behind(path))


def content_of(path: Path) -> str:
    """The sha256 of weights, which are read once in a process; of several files that of their list."""
    if not path.name.endswith(INDEX):
        return hash_once(path)
    import hashlib  # OpenSSL takes 5 ms

    sums = {file.name: hash_once(file) for file in files_behind(path)}
    return hashlib.sha256(format_sums(sums).encode()).hexdigest()


def with_fixed_weights(
    composition: Composition, project: Project, *, may_come: bool = True
) -> Composition:
    """A composition whose `init_from` means the same for ever; see `resolve_weights`."""
    typed = composition.settings.get("init_from")
    if typed is None:
        return composition
    source = resolve_weights(str(typed), project, may_come=may_come)["source"]
    if source == typed:
        return composition
    fixed = composition.with_setting("init_from", source)
    return replace(fixed, overrides=[*composition.overrides, override_for("init_from", source)])


def without_weights(composition: Composition) -> Composition:
    """A composition for something that trains nothing."""
    if composition.settings.get("init_from") is None:
        return composition
    return composition.with_setting("init_from", None)


def yaml_with_source(config_yaml: str, source: str | None) -> str:
    """A recorded configuration with another `init_from`."""
    from omegaconf import OmegaConf

    config = OmegaConf.create(config_yaml)
    OmegaConf.update(config, "init_from", source)
    return OmegaConf.to_yaml(config)


def override_for(key: str, text: str) -> str:
    """`key='text'` in Hydra's grammar."""
    from ...config.overrides import in_quotes  # Hydra

    return f"{key}={in_quotes(text)}"


def names_file_of_run(path: object) -> bool:
    """Whether a `data.path` means RUN:FILE: it has a colon, and is neither an address nor a file."""
    return isinstance(path, str) and ":" in path and "://" not in path and not Path(path).exists()


def file_of_run(reference: str, project: Project, *, may_come: bool = False) -> Path:
    """The file that RUN:FILE means. FILE is a path in the directory of the run, or a name alone.

    Args:
        may_come: accept a run that has not finished, and a file that is not there yet.
    """
    word, _, name = reference.rpartition(":")
    run = find_run(run_roots(project), word)
    status = status_of(run.dir)
    if status not in COUNT_FIRST and not may_come:
        to_do = (
            f"Wait for it: lab submit … {KEY}={reference} after={run.id}"
            if status in UNENDED
            else "Name a finished run: lab runs list"
        )
        raise LabError(
            f"{KEY}={reference}: run {run.id} is {status}, and its files may still change. {to_do}"
        )
    places = [run.dir / folder / name for folder in FOLDERS]
    found = next((place for place in places if place.exists()), None)
    if found is None and may_come:
        folder = WORK if "program" in (run.record.get("job") or {}) else PREDICTIONS
        found = run.dir / name if "/" in name else run.dir / folder / name
    if found is None:
        names = files_to_take(run)
        shown = and_more(names, MAX_SHOWN) or f"none. To write predictions: lab predict {run.id}"
        raise LabError(
            f"{KEY}={reference}: run {run.id} has no file {name!r}{nearest(name, names)}. "
            f"It has: {shown}"
        )
    if not found.resolve().is_relative_to(run.dir.resolve()):
        raise LabError(
            f"{KEY}={reference} leads out of {run.dir}. Type the path itself: {KEY}=PATH"
        )
    return found


def files_to_take(run: Run) -> list[str]:
    """What a run made besides its record and checkpoints, by the names that RUN:FILE takes."""
    names = []
    for folder in FOLDERS:
        files = sorted((run.dir / folder).glob("*"))
        names += [path.name for path in files if path.is_file() and path.suffix not in OF_RECORD]
    return [name for name in names if not name.startswith(".")]


def with_data_of_run(
    composition: Composition, project: Project, *, may_come: bool = False
) -> Composition:
    """A composition whose `data.path` is the file that RUN:FILE means; see `file_of_run`."""
    section: Any = composition.settings.get("data")
    typed = section.get("path") if isinstance(section, dict) else None
    if not isinstance(typed, str) or not names_file_of_run(typed):
        return composition
    path = str(file_of_run(typed, project, may_come=may_come))
    fixed = composition.with_setting(KEY, path)
    return replace(fixed, overrides=[*composition.overrides, override_for(KEY, path)])


def origin_of_data(settings: dict[str, Any]) -> DataOrigin | None:
    """Which run made the data that a new run reads, by where their file lies; None: none did."""
    path = path_of_data(settings)
    for directory in path.parents if path.is_absolute() else ():
        if record := run_record(directory):
            name = str(path.relative_to(directory))
            content = content_of(path) if path.is_file() else None
            return {"run": record["run_id"], "file": name, "sha256": content}
    return None


def path_of_data(settings: dict[str, Any]) -> Path:
    """`data.path` of settings; "." where it is no single path."""
    section = settings.get("data")
    text = section.get("path") if isinstance(section, dict) else None
    return Path(text) if isinstance(text, str) else Path()


def format_data_origin(origin: DataOrigin | None) -> str | None:
    """The line of `lab runs show`: the run that made the data, and its file."""
    if origin is None:
        return None
    content = f", sha256 {origin['sha256'][:12]}" if origin["sha256"] else ""
    return f"{origin['run']}:{origin['file']}{content}"


def is_to_come(settings: dict[str, Any]) -> bool:
    """Whether the data of a new run are a file of another run that is not there yet."""
    return not path_of_data(settings).exists() and origin_of_data(settings) is not None
