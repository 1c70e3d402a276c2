"""The check `conflicts`: no file, of whatever type, with both sides of a merge or of an update."""

from __future__ import annotations

from pathlib import Path

BEGIN = b"<<<<<<< "
END = b">>>>>>> "


def main(names: list[str]) -> int:
    """Prints where two versions of some lines stand; 1 when there are any, else 0."""
    places = [f"{name}:{line}" for name in names for line in conflicts_in(Path(name).read_bytes())]
    for place in places:
        print(f"{place}: two versions of some lines")
    if places:
        files = " ".join(dict.fromkeys(place.rpartition(":")[0] for place in places))
        print(
            "Open each file. Choose between the lines after <<<<<<< and those before >>>>>>>,\n"
            f"delete the lines of marks, then: git add {files}"
        )
    return 1 if places else 0


def conflicts_in(content: bytes) -> list[int]:
    """The numbers of the lines at which conflicts begin, from 1; none in a binary file."""
    if BEGIN not in content or END not in content or b"\0" in content:
        return []
    lines = content.splitlines()
    last_end = max((n for n, line in enumerate(lines, 1) if line.startswith(END)), default=0)
    return [n for n, line in enumerate(lines, 1) if line.startswith(BEGIN) and n < last_end]
