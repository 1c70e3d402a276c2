"""Run after a change in a message of lab: error_catalogue.py [TEST ...]. It writes docs/errors.md.

With tests (as pytest takes them) it runs them, and writes into tests/golden/errors.txt which messages they reach.
A message that no test reaches fails `make test`: write a test, then name its file here.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from errors.page import page
from errors.sites import Code
from errors.table import Key, reached_by, read_table, write_table

ROOT = Path(__file__).resolve().parents[1]
LIBRARY = ROOT / "src/labrig"
BOOTSTRAP = ROOT / "template/tools/bootstrap.py"
PAGE = ROOT / "docs/errors.md"
TABLE = ROOT / "tests/golden/errors.txt"
WATCH = ROOT / "tests/helpers/reached"


def main(tests: list[str]) -> int:
    """Writes the page, and the table with what the tests reach; 1 when a message has no test."""
    code = read_code()
    PAGE.write_text(page(code.sites), encoding="utf-8")
    keys = {site.key for site in code.sites}
    table = {key: test for key, test in read_table(TABLE).items() if key in keys}
    if tests:
        table |= run(tests, code)
    write_table(TABLE, table)
    lacking = sorted(keys - set(table))
    for file, function, text in lacking:
        print(f"no test reaches {file} {function}: {text}")
    print(f"{PAGE.relative_to(ROOT)} and {TABLE.relative_to(ROOT)} are written")
    return int(bool(lacking))


def read_code() -> Code:
    return Code(LIBRARY, BOOTSTRAP)


def run(tests: list[str], code: Code) -> dict[Key, str]:
    """The messages that tests reach."""
    with tempfile.TemporaryDirectory() as folder, watched_pythons():
        reached = Path(folder) / "reached.txt"
        reached.touch()
        subprocess.run(
            [sys.executable, "-m", "pytest", *tests],
            cwd=ROOT,
            env=os.environ | {"REACHED_ERRORS": str(reached), "PYTHONPATH": str(WATCH)},
            check=False,
        )
        return reached_by(reached, code)


@contextmanager
def watched_pythons() -> Iterator[None]:
    """Each Python of this environment imports reached_errors.py when it starts, whatever its PYTHONPATH is.

    It does nothing where REACHED_ERRORS is not set. Other Pythons find it along PYTHONPATH.
    An environment that a test makes, and starts without PYTHONPATH, is not watched.
    """
    file = Path(sysconfig.get_paths()["purelib"], f"reached-errors-{os.getpid()}.pth")
    file.write_text(f"{WATCH}\nimport reached_errors\n", encoding="utf-8")
    try:
        yield
    finally:
        file.unlink()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
