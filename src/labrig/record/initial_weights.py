"""The weights that a run starts from (`init_from`): which file, which content, made by which run.

What is typed may change its meaning later (@last). A new run gets the reference that never does: the
id of the run with a checkpoint, an absolute path, or a model of the hub with its commit.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import LabError
from ..machine.hub import SCHEME, HubFile, find_cached
from ..project import Project
from .atomic import read_json, sha256
from .find import find_run
from .outcome import final_weights
from .roots import run_roots
from .schema import InitialWeights
from .status import UNENDED, status_of

if TYPE_CHECKING:
    from ..config.compose import Composition

SUFFIXES = (".safetensors", ".ckpt", ".pt", ".pth", ".bin")  # of files with weights
CHECKPOINTS = ("best", "last", "previous", "finished")
# The line of a recorded configuration that asks for weights.
ASKS = re.compile(r"^init_from: (?!null$)", re.MULTILINE)


def resolve_weights(reference: str, project: Project, *, may_come: bool = False) -> InitialWeights:
    """What `init_from` means now.

    Args:
        reference: RUN, RUN:CHECKPOINT, a file, or hf:ORG/MODEL.
        project: a relative path is looked up in the current directory, then in its root.
        may_come: accept a checkpoint that is not there yet, of a run that has not ended.

    Raises:
        LabError: there is no such run, checkpoint, file, or model in the cache.
    """
    if reference.startswith(SCHEME):
        wanted, path = find_cached(HubFile.parse(reference))
        return describe_file(path, source=str(wanted))
    if reference.endswith(SUFFIXES):
        path = existing_file(reference, project.root)
        return describe_file(path, source=str(path))
    return weights_of_run(reference, project, may_come)


def existing_file(text: str, root: Path) -> Path:
    """The absolute path of a file.

    Raises:
        LabError: there is none.
    """
    typed = Path(os.path.expandvars(text)).expanduser()
    places = list(dict.fromkeys([Path.cwd() / typed, root / typed]))
    for place in places:
        if place.is_file():
            return Path(os.path.normpath(place))
    searched = " or ".join(map(str, places))
    raise LabError(
        f"init_from={text}: there is no such file: {searched}. Write a file, a run, or hf:ORG/MODEL"
    )


def describe_file(path: Path, source: str) -> InitialWeights:
    """The entry of a record for a file; a checkpoint in the directory of a run names that run."""
    record = read_json(path.parent.parent / "run.json") or {}
    return {
        "source": source,
        "path": str(path),
        "run": record.get("run_id"),
        "checkpoint": path.stem if record else None,
        "size_bytes": path.stat().st_size,
        "sha256": content_of(path),
    }


def weights_of_run(reference: str, project: Project, may_come: bool) -> InitialWeights:
    """The entry of a record for RUN or RUN:CHECKPOINT.

    Raises:
        LabError: there is no such run or checkpoint.
    """
    word, _, checkpoint = reference.rpartition(":")
    if checkpoint not in CHECKPOINTS:
        word, checkpoint = reference, None
    run = find_run(run_roots(project), word)
    checkpoint = checkpoint or final_weights(run.checkpoints).stem
    path = run.checkpoints / f"{checkpoint}.ckpt"
    source = f"{run.id}:{checkpoint}"
    status = status_of(run.dir)
    if may_come and status in UNENDED:
        # Its last checkpoint will be another one.
        return {
            "source": source,
            "path": str(path),
            "run": run.id,
            "checkpoint": checkpoint,
            "size_bytes": None,
            "sha256": None,
        }
    if not path.is_file():
        names = sorted(other.stem for other in run.checkpoints.glob("*.ckpt"))
        raise LabError(
            f"init_from={reference}: run {run.id} ({status}) has no checkpoint {checkpoint!r}. "
            f"It has: {', '.join(names) or 'none'}"
        )
    return describe_file(path, source) | {"run": run.id, "checkpoint": checkpoint}


def content_of(path: Path) -> str:
    """The sha256 of a file, which is read once in a process."""
    status = path.stat()
    return _content_of(path, status.st_mtime_ns, status.st_size, status.st_ino)


@lru_cache
def _content_of(path: Path, mtime_ns: int, size_bytes: int, inode: int) -> str:
    return sha256(path)


def with_fixed_weights(
    composition: Composition, project: Project, *, may_come: bool = True
) -> Composition:
    """A composition whose `init_from` means the same for ever; see `resolve_weights`."""
    typed = composition.config.get("init_from")
    if typed is None:
        return composition
    source = resolve_weights(str(typed), project, may_come=may_come)["source"]
    if source == typed:
        return composition
    fixed = with_source(composition, source)
    return replace(fixed, overrides=[*composition.overrides, override_for(source)])


def without_weights(composition: Composition) -> Composition:
    """A composition for something that trains nothing."""
    if composition.config.get("init_from") is None:
        return composition
    return with_source(composition, None)


def with_source(composition: Composition, source: str | None) -> Composition:
    """A composition with another `init_from`."""
    from omegaconf import OmegaConf  # slow, and few runs start from weights

    return replace(
        composition,
        config=OmegaConf.merge(composition.config, {"init_from": source}),
        yaml=yaml_with_source(composition.yaml, source),
    )


def yaml_with_source(config_yaml: str, source: str | None) -> str:
    """A recorded configuration with another `init_from`."""
    from omegaconf import OmegaConf

    config = OmegaConf.create(config_yaml)
    OmegaConf.update(config, "init_from", source)
    return OmegaConf.to_yaml(config)


def override_for(source: str) -> str:
    """`init_from=...` in Hydra's grammar."""
    quoted = source.replace("'", "\\'")
    return f"init_from='{quoted}'"
