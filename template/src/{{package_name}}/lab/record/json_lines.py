# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Files of one JSON object a line, appended to by one process."""

import json
import os
from contextlib import suppress
from pathlib import Path

from .atomic import plain_json


class JsonLines:
    """A file of JSON objects to append to. Each line is one write, so that processes that write at once lose nothing."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o666)
        end = os.lseek(self._file, 0, os.SEEK_END)
        if end and os.pread(self._file, 1, end - 1) != b"\n":  # a killed process left half a line
            os.write(self._file, b"\n")

    def add(self, entry: dict) -> None:
        os.write(self._file, (json.dumps(plain_json(entry)) + "\n").encode())

    def close(self) -> None:
        os.close(self._file)


def read_lines(path: Path, tail_bytes: int | None = None) -> list[dict]:
    """The objects in a file of lines, or in its last bytes; a line that was cut is passed over."""
    try:
        with open(path, "rb") as file:
            if tail_bytes:
                file.seek(max(0, file.seek(0, os.SEEK_END) - tail_bytes))
            lines = file.read().splitlines()
    except FileNotFoundError:
        return []
    entries = []
    for line in lines:
        with suppress(ValueError):
            entries.append(json.loads(line))
    return [entry for entry in entries if isinstance(entry, dict)]
