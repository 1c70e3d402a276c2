# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Text from elsewhere, such as a file's name, as it may stand in a line on a terminal."""

from __future__ import annotations

from pathlib import Path


def printable(text: str | Path) -> str:
    r"""`text` with everything that is not a printable character escaped, such as \x1b and \n.

    So it can neither control the terminal nor forge a line.
    """
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in str(text)
    )
