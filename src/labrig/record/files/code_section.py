"""What a `code` section of the record says: its submodules, the library, and whether two are the same."""

from __future__ import annotations

from ...env import FROZEN_LIBRARY
from .schema import Code, Submodule


def checked_out_submodules(code: Code) -> list[Submodule]:
    """The submodules whose code a snapshot holds."""
    return [inner for inner in code.get("submodules", []) if inner.get("commit")]


def folder_name(submodule: Submodule) -> str:
    """The path of a submodule as the name of one folder."""
    return submodule["path"].replace("/", "+")


def library_of(code: Code) -> Submodule | None:
    """The library in a `code` section; None where it was not recorded."""
    found = [inner for inner in checked_out_submodules(code) if inner["path"] == FROZEN_LIBRARY]
    return found[0] if found else None


def same_code(one: Code, other: Code) -> bool:
    """Whether two `code` sections are of the same commit, and of the same library."""
    return one.get("commit") == other.get("commit") and same_library(one, other)


def same_library(one: Code, other: Code) -> bool:
    """Whether two `code` sections are of the same library, or neither says which."""
    commits = [(library_of(code) or {}).get("commit") for code in (one, other)]
    return commits[0] == commits[1]


def library_difference(before: Code, after: Code) -> str | None:
    """`labrig 0.4.1 -> 0.5.0`; None where the library is the same, or one was not recorded."""
    old, new = library_of(before), library_of(after)
    if old is None or new is None or old["commit"] == new["commit"]:
        return None
    if old["version"] != new["version"]:
        return f"labrig {old['version']} -> {new['version']}"
    return f"{library_name(before)} -> {library_name(after)}"


def library_name(code: Code) -> str:
    """`labrig 0.4.1 (1a2b3c4d5e6f)` of a `code` section."""
    library = library_of(code)
    if library is None:
        return "labrig of an unknown version"
    return f"labrig {library['version']} ({library['commit'][:12]})"
