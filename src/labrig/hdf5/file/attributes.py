"""The attributes of a data file: what they may hold, and the seal over all of them."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import DataFileError, damaged

if TYPE_CHECKING:
    from .layout import Array

# Of an array: the hash of its bytes. Of the file: its seal.
HASH = "sha256"
COMPLETE = "complete"
STRUCTURE = ("format", "version", "n", COMPLETE, HASH)  # what only the writer sets
# Where the data come from. All others say what they mean, and are part of the fingerprint.
ORIGIN = ("created", "command", "host", "packages", "git_commit", "git_changed", "seed", "source")
ORIGIN += (
    "packer",
    "skipped",
    "follows",
    "groups",
    "run",
    "checkpoint",
    "checkpoint_sha256",
    "data",
    "data_sha256",
)


def plain_values(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes as h5py reads them, numbers as Python's."""
    plain = {}
    for key, value in attrs.items():
        plain[key] = value.item() if isinstance(value, np.generic) else value
    return plain


def storable(where: str, attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes that HDF5 can store."""
    checked = {}
    for key, value in attrs.items():
        if key in STRUCTURE or not key:
            raise DataFileError(
                f"{where}: {key!r} cannot name an attribute, since the file has one of its own. "
                "Use another name."
            )
        array = _as_array(value)
        if array.dtype.kind not in "biufcUS" or array.dtype.char in "gG":  # long double
            raise DataFileError(
                f"{where}: attribute {key} is {value!r}. Give a text, a number or a list of them; "
                "for anything else json.dumps(...)."
            )
        checked[key] = _utf8(array.tolist()) if array.dtype.kind == "U" else value
    return checked


def _as_array(value: Any) -> np.ndarray:
    try:
        return np.asarray(value)
    except ValueError:  # lists of different lengths
        return np.empty(0, object)


def _utf8(value: Any) -> Any:
    """Texts as HDF5 takes them: a byte of a file name that is no UTF-8 is escaped, and a zero."""
    if isinstance(value, list):
        return [_utf8(item) for item in value]
    return value.replace("\0", "\\0").encode(errors="backslashreplace").decode()


def check_json(path: Path, field: str, attrs: Mapping[str, Any]) -> None:
    """Raises DataFileError when an attribute that the library reads as JSON is something else."""
    has_vocabulary = attrs.get("tokenizer") in ("characters", "words")  # of others it is a text
    for key in ("classes", "vocabulary") if has_vocabulary else ("classes",):
        texts = _parsed(attrs.get(key, "[]"))
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise damaged(path, f"attribute {key} of field {field!r} is no JSON list of texts")
    if not isinstance(attrs.get("n_tokens", 0), int):
        raise damaged(path, f"attribute n_tokens of field {field!r} is no whole number")
    if "categories" in attrs:
        categories = _parsed(attrs["categories"])
        lists = categories.values() if isinstance(categories, dict) else [None]
        if not all(isinstance(texts, list) for texts in lists):
            raise damaged(path, f"attribute categories of field {field!r} is no JSON dict of lists")


def _parsed(text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return None


def seal_of(attrs: Mapping[str, Any], arrays: Mapping[str, "Array"]) -> str:
    """The hash of all that a file says of its arrays, which have hashes of their own.

    Args:
        attrs: attributes of the file.
        arrays: by their paths in the file.
    """
    told = {key: value for key, value in attrs.items() if key not in (HASH, COMPLETE)}
    lines = attribute_lines("/", told)
    for name, array in sorted(arrays.items()):
        lines.append(f"{name} {array.dtype.str} {array.shape} {array.sha256}")
        lines += attribute_lines(name, array.attrs)
    return hashlib.sha256("\n".join(lines).encode(errors="backslashreplace")).hexdigest()


def meaning_lines(attrs: Mapping[str, Any], arrays: Mapping[str, "Array"]) -> list[str]:
    """A line for each attribute that says what the data mean, such as the names of the classes."""
    meaning = {key: value for key, value in attrs.items() if key not in STRUCTURE + ORIGIN}
    lines = attribute_lines("/", meaning)
    for name, array in sorted(arrays.items()):
        lines += attribute_lines(name, array.attrs)
    return lines


def attribute_lines(where: str, attrs: Mapping[str, Any]) -> list[str]:
    return [f"{where} {json.dumps(key)} {_text_of(attrs[key])}" for key in sorted(attrs)]


def _text_of(value: Any) -> str:
    """One text for one value; only the type of what the writer never writes."""
    if isinstance(value, str):
        return json.dumps(value)
    array = np.asarray(value)
    if array.dtype.kind in "biufcS":
        return f"{array.dtype.str} {array.shape} {array.tobytes().hex()}"
    if all(isinstance(item, str) for item in array.flat):
        return json.dumps(array.tolist())
    return type(value).__name__
