"""What a listing needs of a run: summary.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..files.atomic import FORMAT
from ..files.schema import RunRecord
from .attempt_files import read_attempts
from .fields import FIELDS, FIELDS_HASH, RecordedRun

OF_CODE = ("commit", "tree", "branch", "dirty", "package_tree", "trial_tree")


def summarise(record: RunRecord, run_dir: Path) -> dict[str, Any]:
    """The summary of a run on which nobody works."""
    run = RecordedRun(record, run_dir, read_attempts(run_dir))
    code: dict[str, Any] = dict(record.get("code") or {})
    return {
        "format": FORMAT,
        "fields": FIELDS_HASH,
        **{field.name: field.source(run, field.name) for field in FIELDS if field.source},
        "code": {key: code.get(key) for key in OF_CODE},
        "config_sha256": record.get("config_sha256"),
    }
