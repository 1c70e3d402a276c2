"""Downloads public raw data once: resumed when it was cut, and refused unless it has its hash."""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.parse import unquote, urlsplit

from ...errors import Failed, LabError
from ...machine.progress import byte_progress
from ...project import this_project
from ...record.files.atomic import sha256 as hash_of
from ...record.files.forms import FileName, Sha256, problem_in
from ..file.atomic_file import explain_write_errors, one_at_a_time, open_part, publish, read_blocks
from ..file.find import writable_directory
from ..file.hashes import keep_hash, read_hash, version_key

RAW = "raw"  # below a directory of paths.data
TIMEOUT_S = 60
PARTIAL = 206  # the answer of a server that begins where it was asked to
NOTHING_LEFT = 416
SHOWN_DIGITS = 12
UNKNOWN = "?"  # in place of a hash


def fetch(url: str, sha256: str, name: str | None = None) -> Path:
    """The file at `url`, in raw/ of a directory of paths.data; it is downloaded the first time only.

    Args:
        url: http or https.
        sha256: of its bytes, 64 digits. Unknown? Write "?": the error says it.
        name: what it is called here; None: as in the address.

    Raises:
        LabError: an address, hash or name that is none.
        Failed: no network, a download that was cut, or other bytes than those of the hash.
    """
    name = unquote(PurePosixPath(urlsplit(url).path).name) if name is None else name
    check_arguments(url, sha256, name)
    project = this_project()
    for directory in project.paths.data:
        if (directory / RAW / name).is_file():
            return require_hash(directory / RAW / name, sha256, url)
    target = writable_directory(project) / RAW / name
    with explain_write_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    with one_at_a_time(target.parent):  # other ranks wait
        if not target.is_file():
            download(url, sha256, target)
    return require_hash(target, sha256, url)


def fetch_raw(section: Mapping[str, Any]) -> Path | None:
    """The raw file that the settings `url` and `sha256` of a data set name; None without them."""
    url, sha256 = section.get("url"), section.get("sha256")
    if url is None:
        return None
    if not isinstance(sha256, str):
        raise LabError(
            'the data have a line url, but none for its sha256. Unknown? Write: sha256: "?"'
        )
    return fetch(str(url), sha256)


def check_arguments(url: str, sha256: str, name: str) -> None:
    """Raises LabError unless all three have their form."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise LabError(f"{url!r} is no address of a file; expected one such as https://HOST/a.tar")
    problem = None if sha256 == UNKNOWN else problem_in(sha256, Sha256)
    if problem:
        raise LabError(
            f'the sha256 of {url}: {problem}. Unknown? Write "?": the next error says it'
        )
    problem = problem_in(name or "/", FileName)
    if problem:
        raise LabError(f"{url}: the name here: {problem}. Name it: fetch(url, sha256, NAME)")


def require_hash(path: Path, sha256: str, url: str) -> Path:
    """The path of a file that has the hash; one that was not changed since is not read again."""
    key = f"{version_key(path)}-bytes"
    found = read_hash(key)
    if found is None:
        found = hash_of(path)
        keep_hash(key, found)
    if found != sha256:
        raise Failed(
            f"{path} has sha256 {found}, expected {sha256} for {url}. Is the hash right? "
            f"Else remove the file: rm {path}"
        )
    return path


def download(url: str, sha256: str, target: Path) -> None:
    """Downloads to `target`, by a hidden file next to it that the next download continues."""
    part = part_of(target, sha256)
    with open_part(part) as copy:
        with explain_network_errors(url), ask(url, os.fstat(copy.fileno()).st_size) as answer:
            if answer is not None:
                write_answer(answer, copy, target.name)
        copy.flush()
        found = hash_of(part)
        if sha256 == UNKNOWN:
            part.rename(part_of(target, found))  # the next call need not download it again
            raise Failed(f"{url} has sha256 {found}. Write it in place of the question mark")
        if found != sha256:
            part.unlink()
            raise Failed(
                f"{url} has sha256 {found}, expected {sha256}: another file, or a damaged one. "
                "Nothing was kept. If it is the right one, write this hash"
            )
        publish(part, target)
    print(f"lab: {target} is downloaded", file=sys.stderr)


def part_of(target: Path, sha256: str) -> Path:
    return target.with_name(f".{target.name}.{sha256[:SHOWN_DIGITS]}.part")


@contextmanager
def ask(url: str, start: int) -> Iterator[HTTPResponse | None]:
    """The answer of the server, from `start` on; None when nothing is left of the file."""
    request = urllib.request.Request(url, headers={"User-Agent": "labrig"})
    if start:
        request.add_header("Range", f"bytes={start}-")
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            yield answer
    except urllib.error.HTTPError as error:
        if error.code != NOTHING_LEFT or not start:
            raise
        yield None


def write_answer(answer: Any, copy: IO[bytes], name: str) -> None:
    """Appends what the server sends; a server that begins at the first byte replaces all."""
    if answer.status != PARTIAL:
        copy.truncate(0)
    start = os.fstat(copy.fileno()).st_size
    n_bytes = None if answer.length is None else start + answer.length
    with byte_progress(f"downloading {name}", n_bytes) as bar:
        bar.update(start)
        for block in read_blocks(answer):
            copy.write(block)
            bar.update(len(block))
    copy.flush()
    there = os.fstat(copy.fileno()).st_size
    if n_bytes is not None and there < n_bytes:
        raise Failed(
            f"the download of {name} was cut: {there} of {n_bytes} bytes. Type the same again"
        )


@contextmanager
def explain_network_errors(url: str) -> Iterator[None]:
    """Raises Failed, with the reason in one line, when the server or the network fails."""
    try:
        yield
    except (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError) as error:
        reason = getattr(error, "reason", None) or error
        raise Failed(
            f"{url} cannot be downloaded: {reason}. What came is kept: type the same again. "
            "Where nodes have no network, on the login node: lab prefetch trial=NAME"
        ) from error
