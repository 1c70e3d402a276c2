"""A folder of a host that ssh reaches."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ...errors import Failed
from ...hdf5.file.part import read_blocks
from ...record.files.atomic import sha256
from ..connection import CANNOT_CONNECT, MARK, Connection, Quoted, connect, host_script
from ..hosts import Host
from ..pull import BEGINS, find_beginning
from .store import Store, StoredFile, stored_files

HOME = "~/"  # begins a folder of the home directory there


@contextmanager
def ssh_store(place: str) -> Iterator[SshStore]:
    """The store at ssh://HOST/FOLDER, over one connection."""
    address, _, folder = place.removeprefix("ssh://").partition("/")
    with connect(Host(address, path=folder)) as connection:
        yield SshStore(connection, folder)


class SshStore(Store):
    """Data files in a folder of a host. One that is being copied is there as .NAME.part.

    Args:
        folder: from the root of the host; ~/ is the home directory.
    """

    def __init__(self, connection: Connection, folder: str) -> None:
        self.connection = connection
        self.folder = Quoted(shlex.quote(f"/{folder}"))
        if folder.startswith(HOME):
            self.folder = Quoted(f'"$HOME"/{shlex.quote(folder.removeprefix(HOME))}')

    def files(self) -> list[StoredFile]:
        return stored_files(self._entries())

    def push(self, source: Path, file: str, tell: Callable[[int], object]) -> None:
        n_bytes = source.stat().st_size
        part = f".{file}.part"
        sizes = {name: size_bytes for name, size_bytes, _ in self._entries()}
        start = sizes.get(part, 0)
        if start > n_bytes:
            start = 0
        script = host_script(
            "store",
            mark=MARK,
            folder=self.folder,
            part=part,
            file=file,
            start=start,
            n_bytes=n_bytes,
            sha256=sha256(source),
        )
        tell(start)
        with open(source, "rb") as original:
            original.seek(start)
            problems = self._send(script, original, tell)
        if problems:
            raise Failed(f"{self.connection.host.name}: {problems[0]}. Type the same again")

    def holds(self, stored: StoredFile, source: Path) -> bool:
        if not super().holds(stored, source):
            return False
        script = f"cd {self.folder} && printf %s {shlex.quote(MARK)} && sha256sum < {shlex.quote(stored.file)}"
        lines = list(self.connection.answers(script))
        return bool(lines) and lines[0].split(" ")[0] == sha256(source)

    @contextmanager
    def open(self, file: str, start: int) -> Iterator[IO[bytes]]:
        name = shlex.quote(file)
        script = (
            f"cd {self.folder} && echo {shlex.quote(BEGINS)} && exec tail -c +{start + 1} -- {name}"
        )
        command = self.connection.command(script)
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            stream = process.stdout
            assert stream is not None  # it is a pipe
            begins = find_beginning(stream)
            if begins:
                yield stream
            stream.close()
        if process.returncode == CANNOT_CONNECT or not begins:
            self.connection.check(process.returncode or CANNOT_CONNECT)

    def _entries(self) -> list[tuple[str, int, float]]:
        """Name, bytes and time of change of each file there, complete or not."""
        entries = []
        for line in self.connection.answers(host_script("stored", mark=MARK, folder=self.folder)):
            words = line.split(" ", 2)
            try:
                entries.append((words[2], int(words[0]), float(words[1])))
            except (IndexError, ValueError):  # a name of several lines
                continue
        return entries

    def _send(self, script: str, source: IO[bytes], tell: Callable[[int], object]) -> list[str]:
        """What a script that reads `source` prints behind MARK."""
        command = self.connection.command(script)
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                for block in read_blocks(source):
                    process.stdin.write(block)
                    tell(len(block))
                process.stdin.close()
            except BrokenPipeError:
                pass  # it has ended: its exit code says why
            output = process.stdout.read().decode(errors="replace")
        self.connection.check(process.returncode)
        lines = output.splitlines()
        return [line.removeprefix(MARK) for line in lines if line.startswith(MARK)]
