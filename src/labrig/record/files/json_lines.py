"""Files of one JSON object a line, appended to by one process."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from ...errors import LabError
from .atomic import OBJECT, Damaged, open_file, parse_json, plain_json
from .forms import problem_in

PART_BYTES = 2**20  # of a file that is read a part at a time
LONGEST_LINE_BYTES = 2**28


class JsonLines:
    """A file of JSON objects to append to.

    Each line is one write, so that processes that write at the same time lose nothing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        # A record that somebody sent may have a link here, to a file of this machine.
        flags = os.O_CREAT | os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW
        self._file = os.open(path, flags, 0o666)
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            os.close(self._file)
            raise LabError(f"{path} is no file, but a pipe or a device. Remove it: rm {path}")
        size = os.lseek(self._file, 0, os.SEEK_END)
        # A killed process or a full disk left half a line: the next object begins on a line of its own.
        self._line_is_cut = size > 0 and os.pread(self._file, 1, size - 1) != b"\n"

    def add(self, entry: Mapping[str, Any]) -> None:
        """Appends one line.

        Raises:
            OSError: the disk took none of it, or only a part, which readers pass over.
        """
        self.write(self.line_of(entry))

    def line_of(self, entry: Mapping[str, Any]) -> bytes:
        """What `add` appends."""
        line = (json.dumps(plain_json(entry)) + "\n").encode()
        return b"\n" + line if self._line_is_cut else line

    def write(self, line: bytes) -> None:
        """Appends what `line_of` gave.

        Raises:
            OSError: as `add`.
        """
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

    def sync(self) -> None:
        """Waits until the disk has all lines."""
        os.fsync(self._file)

    def close(self) -> None:
        os.close(self._file)


def read_lines(path: Path, form: Any = OBJECT) -> list[Any]:
    """The objects in a file of lines; a line that was cut, or is not of the form, is passed over."""
    entries = [parse_line(line) for line in raw_lines(path)]
    return [entry for entry in entries if entry is not None and not problem_in(entry, form)]


def raw_lines(path: Path) -> list[bytes]:
    """The lines of a file as they are; none when it is missing, a link or no file."""
    with opened(path) as file:
        return file.read().split(b"\n")


def parts_of(path: Path) -> Iterator[bytes]:
    """The file in parts of whole lines; none when it is missing, a link or no file."""
    with opened(path) as file:
        while part := file.read(PART_BYTES):
            yield part + file.readline(LONGEST_LINE_BYTES)


def lines_from_end(path: Path) -> Iterator[bytes]:
    """The lines of a file, the last one first; none when it is missing, a link or no file."""
    with opened(path) as file:
        end = file.seek(0, os.SEEK_END)
        begun = b""  # a line whose beginning lies before
        while end > 0:
            start = max(0, end - PART_BYTES)
            file.seek(start)
            begun, *lines = (file.read(end - start) + begun[:LONGEST_LINE_BYTES]).split(b"\n")
            yield from reversed(lines)
            end = start
        yield begun


def opened(path: Path) -> BinaryIO:
    """A file of lines to read; an empty one in place of one that is missing, a link or no file."""
    try:
        return BufferedReader(open_file(path))
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EINVAL, errno.ENXIO):
            return BytesIO()
        raise


def parse_line(line: bytes) -> dict[str, Any] | None:
    """The object in a line; None when it holds none."""
    with suppress(Damaged):
        entry = parse_json(line)
        return entry if isinstance(entry, dict) else None
    return None
