"""Files of one JSON object a line, appended to by one process."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from .atomic import plain_json


class JsonLines:
    """A file of JSON objects to append to.

    Each line is one write, so that processes that write at the same time lose nothing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o666)
        size = os.lseek(self._file, 0, os.SEEK_END)
        # A killed process or a full disk left half a line: the next object begins on a line of its own.
        self._line_is_cut = size > 0 and os.pread(self._file, 1, size - 1) != b"\n"

    def add(self, entry: Mapping[str, Any]) -> None:
        """Appends one line.

        Raises:
            OSError: the disk took none of it, or only a part, which readers pass over.
        """
        line = (json.dumps(plain_json(entry)) + "\n").encode()
        if self._line_is_cut:
            line = b"\n" + line
        try:
            n_written = os.write(self._file, line)
            # A full disk takes a part without an error, and refuses the rest.
            while n_written < len(line):
                self._line_is_cut = True
                n_written += os.write(self._file, line[n_written:])
        except OSError as error:
            error.filename = str(self.path)
            raise
        self._line_is_cut = False

    def close(self) -> None:
        os.close(self._file)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects in a file of lines; a line that was cut, or is no object, is passed over."""
    entries = [parse_line(line) for line in raw_lines(path)]
    return [entry for entry in entries if entry is not None]


def raw_lines(path: Path) -> list[bytes]:
    """The lines of a file as they are; none when it is missing."""
    try:
        return path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []


def parse_line(line: bytes) -> dict[str, Any] | None:
    """The object in a line; None when it holds none."""
    with suppress(ValueError, RecursionError):
        entry = json.loads(line)
        return entry if isinstance(entry, dict) else None
    return None
