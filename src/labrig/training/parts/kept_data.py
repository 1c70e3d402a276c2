"""A run is continued and evaluated on the data that it read, also when others have their name now."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from ...config.overrides import in_quotes
from ...errors import NotComparable
from ...hdf5.file.errors import DataFileError
from ...hdf5.file.find import find_data_files, names_one_file
from ...project import Project
from ...record.read.run import Run
from ...record.reproduce.recorded_inputs import (
    find_recorded_data,
    how_to_make,
    is_same_data,
    kept_data,
    kept_file,
    recorded_files,
)

NAME = "data.path"
CHOSEN = (f"{NAME}=", "data.search=", "data=")  # overrides that choose other data


def with_kept_data(
    config: DictConfig, run: Run, project: Project, quiet: bool = False
) -> DictConfig:
    """`config`, which names the files that earlier attempts of `run` read, when others are read now."""
    files = files_of_run(config, run, project)
    if files is None or OmegaConf.select(config, NAME) is None:
        return config
    if not quiet:
        print_kept(run, files)
    changed = config.copy()
    OmegaConf.update(changed, NAME, files[0] if len(files) == 1 else files)
    return changed


def with_kept_override(overrides: list[str], run: Run, project: Project) -> list[str]:
    """`overrides`, and one that names the files that `run` read, when others are read now.

    What was typed comes first: whoever chooses other data gets them.
    """
    if any(word.startswith(CHOSEN) for word in overrides):
        return overrides
    files = files_of_run(run.config, run, project)
    if files is None:
        return overrides
    print_kept(run, files)
    quoted = [in_quotes(file) for file in files]
    text = quoted[0] if len(files) == 1 else f"[{','.join(quoted)}]"
    return [*overrides, f"{NAME}={text}"]


def files_of_run(config: Mapping[Any, Any], run: Run, project: Project) -> list[str] | None:
    """The files that `data.path` has to name for `run` to read what it read; None: as configured.

    That is a file which was kept when another one took its name, or those that a folder held before
    others were added.
    """
    kept = kept_data(project, run)
    if kept:
        return [str(kept)]
    path = (config.get("data") or {}).get("path")
    if path is None or "size_bytes" not in run.data or names_one_file(path):
        return None
    recorded = recorded_files(run.data)
    is_kept = any(kept_file(project, run, file) for file in recorded)
    with suppress(DataFileError, NotComparable):
        now = find_data_files(path if isinstance(path, str) else list(path), project.paths.data)
        if is_kept or [file.name for file in now] != [Path(file["path"]).name for file in recorded]:
            return [str(file) for file in find_recorded_data(project, run)]
    return None  # whoever reads them says what is missing


def print_kept(run: Run, files: list[str]) -> None:
    if len(files) == 1:
        line = f"reads {files[0]}, the data of {run.id}; another file has their name now"
    else:
        line = f"reads the {len(files)} files that {run.id} read; its data have others now"
    print(f"lab: {line}", file=sys.stderr)


def print_replaced(run: Run, now: Mapping[str, Any]) -> None:
    """Prints one line when a file has the name of the data of `run`, and other content."""
    then = run.data
    if not {"sha256", "path"} <= then.keys() & now.keys() or is_same_data(then, now):
        return
    section = run.config.get("data")
    configured = section.get("path") if isinstance(section, dict) else None
    names = {Path(str(path)).name for path in (then["path"], configured)}
    if Path(now["path"]).name in names:
        print(
            f"lab: {now['path']} does not hold what {run.id} read: sha256 {then['sha256'][:12]}… "
            f"then, {now['sha256'][:12]}… now. To have that again, move this away, then: "
            f"{how_to_make(run, then)}",
            file=sys.stderr,
        )
