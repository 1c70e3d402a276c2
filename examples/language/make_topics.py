"""Writes the texts of Python's `help("topics")` into one file: python make_topics.py FILE."""

import sys
from pathlib import Path
from pydoc_data.topics import topics


def main(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(topics[name] for name in sorted(topics)), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
