"""Writes docstrings of Python's standard library with their package: python make_docstrings.py FILE.csv"""

import ast
import csv
import sys
import sysconfig
from pathlib import Path

PACKAGES = (
    "asyncio",
    "ctypes",
    "email",
    "http",
    "importlib",
    "logging",
    "multiprocessing",
    "unittest",
)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def docstrings(package: str) -> dict[str, None]:
    """The docstrings of a package without its tests, each once, in their order."""
    found = {}
    for file in sorted(Path(sysconfig.get_path("stdlib"), package).rglob("*.py")):
        if "test" not in file.parts:
            tree = ast.parse(file.read_bytes())
            nodes = [node for node in ast.walk(tree) if isinstance(node, DOCUMENTED)]
            found |= {text: None for text in map(ast.get_docstring, nodes) if text}
    return found


def main(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "w", encoding="utf-8", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow(["package", "text"])
        writer.writerows([package, text] for package in PACKAGES for text in docstrings(package))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
