"""`--if-changed`: the run that stands for a step whose code, settings and inputs are as they were."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from ...config.compose import Composition
from ...config.program import is_program
from ...config.recorded import PLACE
from ...env import FROZEN_LIBRARY
from ...project import Project
from ...record.files.code_section import same_library
from ...record.files.schema import Code, Row
from ...record.freeze.frozen import repository_top
from ...record.freeze.frozen_files import frozen_hashes
from ...record.read.run import run_record
from ...record.read.settings import settings_to_record
from ...record.write.inputs import resolve_weights

IF_CHANGED_HELP = (
    "do not run what a finished run did with the same code, settings and inputs; print that run"
)
# Of `data`: where the file lies. Its content is compared, as is that of the weights.
PLACES_OF_DATA = ("path", "search", "stage", "stored")


def unchanged_run(
    project: Project, composition: Composition, code: Code, rows: list[Row]
) -> Row | None:
    """The newest finished run of the same code, settings, data and weights; None without one.

    Of the code, the files count that the run imported or read, and the library. Installed packages
    are not compared. Where the record does not say what a run read, it stands for nothing.

    Args:
        code: what was frozen now.
        rows: of all runs, newest first.
    """
    wanted = identity_of(settings_to_record(composition.recorded))
    candidates = [
        row
        for row in rows
        if row["status"] == "finished"
        and row["trial"] == composition.trial
        and identity_of(row["settings"]) == wanted
    ]
    if not candidates:
        return None
    hashes = frozen_hashes(code, repository_top(project.root, code))
    candidates = [row for row in candidates if has_code(row, code, hashes)]
    typed = composition.settings.get("init_from")
    weights = resolve_weights(str(typed), project)["sha256"] if candidates and typed else None
    candidates = [row for row in candidates if (row["init_from"] or {}).get("sha256") == weights]
    if not candidates:
        return None
    if is_program(composition.config) or not any(data_of(row) for row in candidates):
        print(
            f"lab: {candidates[0]['run_id']} has the same code and settings, but its record does not "
            "say which data it read; so it is run again",
            file=sys.stderr,
        )
        return None
    data = data_now(composition)
    return next((row for row in candidates if data_of(row) == data), None)


def identity_of(settings: dict[str, Any]) -> str:
    """The settings that make numbers, without the places of inputs."""
    kept = {key: value for key, value in settings.items() if key not in (*PLACE, "init_from")}
    if isinstance(kept.get("data"), dict):
        section = kept["data"]
        kept["data"] = {key: section[key] for key in section if key not in PLACES_OF_DATA}
    return json.dumps(kept, sort_keys=True, default=str)


def has_code(row: Row, code: Code, hashes: dict[str, str]) -> bool:
    """Whether all files of own code that a run used, and the library, are as they are now.

    Args:
        hashes: git's hash of each file that is frozen now.
    """
    used = row["code_files"]
    if not used or row["changes"]:  # not noted, or attempts that had different code or data
        return False
    recorded: Code = run_record(Path(row["run_dir"])).get("code") or {}
    return same_library(recorded, code) and all(
        hashes.get(path) == of_file
        for path, of_file in used.items()
        if not path.startswith(f"{FROZEN_LIBRARY}/")
    )


def data_of(row: Row) -> str | None:
    """The hash of the data that a run read; None: not recorded."""
    return (row["data"] or {}).get("sha256")


def data_now(composition: Composition) -> str | None:
    """The hash of the data that a run would read now, as its record would have it."""
    # They import torch, which takes seconds.
    from ..parts.build import build_data
    from ..parts.data_change import data_record
    from ..parts.settings import resolve_auto

    config = resolve_auto(composition.config, first_attempt={})
    return (data_record(build_data(config)) or {}).get("sha256")
