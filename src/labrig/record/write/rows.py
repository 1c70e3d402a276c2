"""The hash of the metrics at each checkpoint: an edit while a run lies dead is seen later."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..files.atomic import open_file
from ..files.manifest import write_listed
from ..read.status import ROWS

LOG = "metrics.jsonl"
READ_BYTES = 1 << 20


class RowsHash:
    """Writes how many bytes of metrics.jsonl there are, and their sha256; each byte is read once."""

    def __init__(self) -> None:
        self.path: Path | None = None
        self.n_bytes = 0
        self.digest = hashlib.sha256()

    def note(self, run_dir: Path, attempt: int) -> None:
        """To be called at each checkpoint, in the process that writes the record."""
        path = run_dir / LOG
        if path != self.path:
            self.path, self.n_bytes, self.digest = path, 0, hashlib.sha256()
        with suppress(OSError):  # no rows yet, or a full disk, which the next step reports
            with open_file(path) as file:
                file.seek(self.n_bytes)
                while part := file.read(READ_BYTES):
                    self.digest.update(part)
                    self.n_bytes += len(part)
            rows: Any = {"bytes": self.n_bytes, "sha256_of_rows": self.digest.hexdigest()}
            write_listed(run_dir, f"attempts/{attempt}/{ROWS}", rows)
