"""Places of shared data files, named by content: a folder, a folder of a host, storage with the interface of S3."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Any, NotRequired, TypedDict

from ...errors import Failed, require_package
from ...hdf5.file.atomic_file import continue_at, open_part, publish, read_blocks
from ...hdf5.file.errors import DataFileError
from ...machine.disk import require_free_space
from ...record.files.atomic import open_file, sha256
from ...record.files.forms import RelativePath, Sha256, matches
from ..connection import CANNOT_CONNECT, MARK, Connection, Host, Quoted, connect, host_script
from ..pull import BEGINS, find_beginning

NAME = re.compile(r"(?P<sha256>[0-9a-f]{64})-(?P<name>[A-Za-z0-9_][A-Za-z0-9_.-]*)\.h5")
# A folder; or a host as after `ssh`, or a bucket, and a folder there. It becomes words of commands.
PLACE = matches(
    r"(?!-)(?:ssh://(?!-)[\w.:@%\[\]-]+/[^\x00-\x1f\x7f]+"
    r"|s3://[A-Za-z0-9][\w.-]*(?:/[^\x00-\x1f\x7f]*)?"
    r"|(?![A-Za-z][\w+.-]*://)[^\x00-\x1f\x7f]+)",
    "a folder, ssh://HOST/FOLDER or s3://BUCKET/FOLDER",
)
HOME = "~/"  # begins a folder of the home directory there
PART_BYTES = 16 << 20
MAX_PARTS = 1000  # that one answer lists; S3 takes ten times as many


class StoredPart(TypedDict):
    """One of several files of a data set."""

    path: RelativePath  # below a directory of paths.data
    sha256: Sha256


class StoredData(TypedDict):
    """The setting `stored` of a data set: where its files lie, and what they hold."""

    name: Annotated[str, matches(r"[\w.-]+", "the name of a data set")]
    place: Annotated[str, PLACE]
    sha256: Sha256  # of the content, as records hold it
    files: NotRequired[list[StoredPart]]  # where `path` is a folder, pattern or list


@dataclass(frozen=True)
class StoredFile:
    """A data file that lies in a place, complete.

    Args:
        file: its name there: the hash of its content, and the name of the data set.
        changed_s: when it came, in seconds since 1970.
    """

    file: str
    size_bytes: int
    changed_s: float

    @property
    def sha256(self) -> str:
        return self.file[:64]

    @property
    def name(self) -> str:
        return self.file[65:].removesuffix(".h5")


class Store(ABC):
    """A place of data files. A file has its name there only when all of it is there."""

    @abstractmethod
    def files(self) -> list[StoredFile]:
        """All data files; what has another form of name is left out."""

    @abstractmethod
    def push(self, source: Path, file: str, tell: Callable[[int], object]) -> None:
        """Copies `source` there, from where an earlier push was cut.

        Args:
            file: its name there.
            tell: called with each number of bytes that is there now, or was there before.
        """

    @abstractmethod
    def open(self, file: str, start: int) -> AbstractContextManager[IO[bytes]]:
        """The bytes of a file from `start` on."""

    def holds(self, stored: StoredFile, source: Path) -> bool:
        """Whether a file there is what was pushed, as far as the place can be asked."""
        return stored.size_bytes == source.stat().st_size


def stored_files(entries: Iterable[tuple[str, int, float]]) -> list[StoredFile]:
    """The data files among (name, bytes, time of change), in the order of their names."""
    files = [StoredFile(*entry) for entry in entries if NAME.fullmatch(entry[0])]
    return sorted(files, key=lambda file: (file.name, file.changed_s))


def files_by_content(store: Store) -> dict[str, StoredFile]:
    """The files that are there, by the hash of their content."""
    return {file.sha256: file for file in reversed(store.files())}


class FolderStore(Store):
    """Data files in a folder. One that is being copied is there as .NAME.part."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def files(self) -> list[StoredFile]:
        if not self.folder.is_dir():
            return []
        entries = []
        for entry in os.scandir(self.folder):
            if entry.is_file(follow_symlinks=False):
                stat = entry.stat(follow_symlinks=False)
                entries.append((entry.name, stat.st_size, stat.st_mtime))
        return stored_files(entries)

    def push(self, source: Path, file: str, tell: Callable[[int], object]) -> None:
        try:
            self.folder.mkdir(exist_ok=True)  # not its parents: their names may be misspelt
        except (FileExistsError, FileNotFoundError, NotADirectoryError) as error:
            raise Failed(
                f"{self.folder} cannot be made, {error.strerror}. "
                "Name another place: lab data push NAME PLACE"
            ) from error
        part = self.folder / f".{file}.part"
        with open_part(part) as copy, open(source, "rb") as original:
            start = continue_at(copy, os.fstat(original.fileno()).st_size)
            original.seek(start)
            tell(start)
            require_free_space(self.folder, os.fstat(original.fileno()).st_size - start)
            for block in read_blocks(original):
                copy.write(block)
                tell(len(block))
            copy.flush()
            if sha256(part) != sha256(source):
                copy.truncate(0)
                raise Failed(f"{part} does not hold the bytes of {source}. Type the same again")
            part.chmod(0o444 & os.fstat(copy.fileno()).st_mode)
            publish(part, self.folder / file)

    def holds(self, stored: StoredFile, source: Path) -> bool:
        from ...hdf5.file.checksum import fingerprint  # needs NumPy, which a list does without

        try:
            return fingerprint(self.folder / stored.file)["sha256"] == stored.sha256
        except DataFileError:
            return False

    def open(self, file: str, start: int) -> IO[bytes]:
        stream = open_file(self.folder / file)
        stream.seek(start)
        return stream


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


class S3Store(Store):
    """Data files below s3://BUCKET/FOLDER.

    An upload in parts shows nothing until it is completed. Keys and the address of the server are
    those of Amazon's own programs: ~/.aws, AWS_PROFILE, AWS_ENDPOINT_URL.
    """

    def __init__(self, place: str) -> None:
        require_package("s3fs", place)
        from s3fs import S3FileSystem  # optional

        self.place = place
        self.bucket, _, folder = place.removeprefix("s3://").partition("/")
        self.prefix = f"{folder.strip('/')}/" if folder.strip("/") else ""
        self.system: Any = S3FileSystem(use_listings_cache=False, skip_instance_cache=True)

    def files(self) -> list[StoredFile]:
        with self.explain_errors():
            try:
                entries = self.system.ls(f"{self.bucket}/{self.prefix}", detail=True)
            except FileNotFoundError:  # a bucket has no empty folders
                return []
        below = f"{self.bucket}/{self.prefix}"
        return stored_files(
            (entry["name"].removeprefix(below), entry["size"], entry["LastModified"].timestamp())
            for entry in entries
            if entry["type"] == "file"
        )

    def push(self, source: Path, file: str, tell: Callable[[int], object]) -> None:
        n_bytes = source.stat().st_size
        part_bytes = max(PART_BYTES, -(-n_bytes // MAX_PARTS))
        with self.explain_errors(), open(source, "rb") as original:
            upload = {"Bucket": self.bucket, "Key": self.prefix + file}
            upload["UploadId"] = self.begun_upload(upload) or self.begin_upload(upload)
            listed = self.system.call_s3("list_parts", **upload).get("Parts", [])
            there = {(part["PartNumber"], part["ETag"]) for part in listed}
            parts = []
            while block := original.read(part_bytes):
                number = len(parts) + 1
                tag = f'"{hashlib.md5(block, usedforsecurity=False).hexdigest()}"'
                if (number, tag) not in there:
                    sent = self.system.call_s3(
                        "upload_part", PartNumber=number, Body=block, **upload
                    )
                    tag = sent["ETag"]
                parts.append({"PartNumber": number, "ETag": tag})
                tell(len(block))
            self.system.call_s3(
                "complete_multipart_upload", MultipartUpload={"Parts": parts}, **upload
            )

    def begun_upload(self, upload: dict[str, str]) -> str | None:
        """The id of the last upload of this file that was cut; None without one."""
        answer = self.system.call_s3(
            "list_multipart_uploads", Bucket=upload["Bucket"], Prefix=upload["Key"]
        )
        ids = [
            each["UploadId"] for each in answer.get("Uploads", []) if each["Key"] == upload["Key"]
        ]
        return ids[-1] if ids else None

    def begin_upload(self, upload: dict[str, str]) -> str:
        return self.system.call_s3("create_multipart_upload", **upload)["UploadId"]

    @contextmanager
    def open(self, file: str, start: int) -> Iterator[IO[bytes]]:
        with (
            self.explain_errors(),
            self.system.open(f"{self.bucket}/{self.prefix}{file}", "rb", PART_BYTES) as stream,
        ):
            stream.seek(start)
            yield stream

    @contextmanager
    def explain_errors(self) -> Iterator[None]:
        """Raises Failed, with one line, for whatever the server or its address is not right in."""
        from botocore.exceptions import BotoCoreError, ClientError  # comes with s3fs

        try:
            yield
        except (BotoCoreError, ClientError, PermissionError, FileNotFoundError) as error:
            raise Failed(
                f"{self.place}: {first_line(error)}. Its keys and its server are those of ~/.aws, or "
                "of the variables AWS_PROFILE and AWS_ENDPOINT_URL"
            ) from error


def first_line(error: Any) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
