"""Files that the user names with -o: one that a command did not make is never overwritten."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..errors import Refused
from .text_formats import printable

MARK = "Written by lab"  # in every file that a command writes where the user says
END_BYTES = 1 << 20
PICTURE_FACTS = {"Creator": MARK}  # metadata that PNG, SVG and PDF of matplotlib can hold


def is_marked(content: bytes) -> bool:
    return MARK.encode() in content


def refuse_to_overwrite(file: Path, is_own: Callable[[bytes], bool] = is_marked) -> None:
    """Makes sure that a file may be written: there is none, or an empty one, or one of `lab`'s own.

    Args:
        is_own: tells by the content of a file, of a large one by its ends, whether the command has
            made it.
    """
    if not file.exists():
        return
    try:
        content = ends_of(file) if file.is_file() else None
    except OSError:
        content = None
    if content is None or (content and not is_own(content)):
        raise Refused(
            f"{printable(file)} is there already, and this command did not make it. "
            "Name another file, or delete it first"
        )


def ends_of(file: Path) -> bytes:
    """The first and the last bytes of a file; all of a small one."""
    with open(file, "rb") as opened:
        head = opened.read(END_BYTES)
        opened.seek(max(len(head), file.stat().st_size - END_BYTES))
        return head + opened.read()
