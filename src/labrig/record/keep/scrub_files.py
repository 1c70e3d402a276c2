"""Replaces texts in the files of a run so that their seals and hashes are right again."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..files.atomic import read_json, sha256, write_json
from ..files.json_lines import read_lines
from ..files.schema import Code
from ..files.seal import KEY, is_sealed, seal, write_sealed
from ..verify.files import LINES
from .contents import holds_any

MASK = "***"
BUNDLE = ".bundle"
LENGTHS_IN_TEXTS = (12,)  # of a commit's beginning
LISTS_BUNDLES = ("run.json", "start.json")


def forms_of(value: str) -> list[str]:
    """A value as it is, and as JSON, YAML, Python and addresses write it; the longest first."""
    forms = {
        value,
        quote(value, safe=""),  # in an address
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        value.replace("'", "''"),
        repr(value)[1:-1],
    }
    return sorted(forms, key=len, reverse=True)


def encoded(forms: list[str]) -> list[bytes]:
    return [form.encode("utf-8", "surrogateescape") for form in forms]


class Replacer:
    """Texts to replace. Hashes and commits that change are added while files are rewritten.

    Args:
        value: the leaked value.
    """

    def __init__(self, value: str) -> None:
        self.forms = forms_of(value)
        self.names: dict[str, str] = {}  # of commits and trees, also the beginnings in texts
        self.codes: dict[str, Code] = {}  # new sections by the old commit
        self.hashes: dict[str, str] = {}  # of files

    def mask(self, text: str) -> str:
        """A text without the value."""
        for form in self.forms:
            text = text.replace(form, MASK)
        return text

    def text(self, text: str) -> str:
        """A text without the value, and with new names in place of old ones."""
        if text in self.hashes:
            return self.hashes[text]
        text = self.mask(text)
        for old, new in self.names.items():
            text = text.replace(old, new)
        return text

    def data(self, value: Any) -> Any:
        """The same for all texts in JSON data."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict) and value.get("commit") in self.codes:
            code = self.codes[value["commit"]]
            # Where the branch was stays a fact, which names no content.
            renewed = {key: code.get(key, entry) for key, entry in value.items()}
            head = {"head": value["head"]} if "head" in value else {}
            return {key: self.data(entry) for key, entry in renewed.items()} | head
        if isinstance(value, dict):
            return {self.text(key): self.data(entry) for key, entry in value.items()}
        if isinstance(value, list):
            return [self.data(entry) for entry in value]
        return value

    def add_code(self, old: Code, new: Code) -> None:
        """Has a scrubbed commit take the place of the old one everywhere."""
        self.codes[old["commit"]] = new
        for key in ("commit", "tree", "package_tree", "trial_tree"):
            if name := old.get(key):
                self.names[str(name)] = str(new.get(key))
        for n in LENGTHS_IN_TEXTS:
            self.names[old["commit"][:n]] = new["commit"][:n]


def record_files(run_dir: Path) -> list[Path]:
    """The files of a run but its checkpoints; links are none of them."""
    paths = [path for path in sorted(run_dir.rglob("*")) if path.is_file()]
    return [
        path
        for path in paths
        if path.relative_to(run_dir).parts[0] != "checkpoints" and not path.is_symlink()
    ]


def files_of_record_with(run_dir: Path, replacer: Replacer) -> tuple[list[str], list[str]]:
    """The files that hold the value or are named after it, by their path from the run directory.

    Returns: those that can be rewritten, and those that cannot: they are binary or compressed.
    """
    forms = encoded(replacer.forms)
    texts = []
    fixed = []
    for path in record_files(run_dir):
        name = path.relative_to(run_dir).as_posix()
        if path.suffix != BUNDLE and holds_any(path, forms):
            (texts if is_text(path, forms) else fixed).append(name)
        elif replacer.mask(name) != name:
            texts.append(name)
    return texts, fixed


def is_text(path: Path, forms: list[bytes]) -> bool:
    """Whether the value can be replaced in a file: the file is a text, and holds it as it is."""
    content = path.read_bytes()
    return b"\0" not in content and any(form in content for form in forms)


def rewrite_record(run_dir: Path, replacer: Replacer) -> None:
    """Rewrites every file, those first whose hashes others hold."""
    for path in sorted(record_files(run_dir), key=place_of):
        if path.suffix == BUNDLE:
            continue
        old_hash = sha256(path)
        if path.name in LINES:
            rewrite_lines(path, replacer)
        elif path.suffix == ".json":
            rewrite_json(path, run_dir, replacer)
        else:
            rewrite_text(path, replacer)
        replacer.hashes[old_hash] = sha256(path)
    rename_files(run_dir, replacer)


def rename_files(run_dir: Path, replacer: Replacer) -> None:
    """Gives files and directories that are named after the value another name, the deepest first."""
    for path in sorted(run_dir.rglob("*"), reverse=True):
        renamed = path.with_name(replacer.mask(path.name))
        is_weights = path.relative_to(run_dir).parts[0] == "checkpoints"
        if renamed != path and not is_weights and not os.path.lexists(renamed):
            path.rename(renamed)


def place_of(path: Path) -> int:
    """The order of rewriting: what holds the hashes of other files comes after them."""
    if path.suffix != ".json":
        return 0
    return {"end.json": 2, "summary.json": 3, "run.json": 4}.get(path.name, 1)


def rewrite_text(path: Path, replacer: Replacer) -> None:
    content = path.read_bytes()
    text = content.decode("utf-8", "surrogateescape")
    if b"\0" in content or replacer.text(text) == text:
        return
    replace_content(path, replacer.text(text).encode("utf-8", "surrogateescape"))


def rewrite_json(path: Path, run_dir: Path, replacer: Replacer) -> None:
    entries = read_json(path)
    if entries is None:  # a list, or not JSON at all
        rewrite_text(path, replacer)
        return
    renewed = replacer.data(entries)
    if replacer.codes and path.name in LISTS_BUNDLES and "files" in entries:
        renewed["files"] = list_bundles(renewed["files"], path.parent, run_dir)
    if renewed == entries:
        return
    if is_sealed(entries):
        write_sealed(path, renewed)
    else:
        write_json(path, renewed)


def list_bundles(files: dict[str, str], folder: Path, run_dir: Path) -> dict[str, str]:
    """The hashes of files, with those of the bundles that are now in `folder`."""
    others = {name: digest for name, digest in files.items() if not name.endswith(BUNDLE)}
    bundles = sorted(folder.glob(f"*{BUNDLE}"))
    return others | {path.relative_to(run_dir).as_posix(): sha256(path) for path in bundles}


def rewrite_lines(path: Path, replacer: Replacer) -> None:
    """Rewrites sealed lines, each of which holds the hash of the one before it."""
    rows = read_lines(path)
    changed = []
    for row in rows:
        renewed = replacer.data(row)
        if KEY in row:
            renewed = seal(renewed)
            # The next line names this one.
            replacer.hashes[row[KEY]] = renewed[KEY]
        changed.append(renewed)
    if changed != rows:
        text = "".join(json.dumps(row) + "\n" for row in changed)
        replace_content(path, text.encode())


def replace_content(path: Path, content: bytes) -> None:
    """Puts bytes at `path` in one step."""
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
