"""The tour in CONTRIBUTING.md: every file and name of it exists, and each step follows from one before."""

import ast
import re

from projects import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
TOUR = TEXT.partition("## A tour in thirty minutes")[2].partition("\n## ")[0]
STEPS = re.findall(r"^`([^`]+)` \| ([^|]+) \| \S", TOUR, re.MULTILINE)
LIBRARY = ROOT / "src/labrig"


def names_in(file):
    """Functions and classes at the top of a file."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def test_the_tour_goes_from_the_command_to_the_list_of_runs():
    assert len(STEPS) > 20
    assert STEPS[0][0] == "cli.py"
    assert STEPS[-1][0] == "record/read/rows.py"


def test_a_step_names_what_exists():
    for file, names in STEPS:
        assert set(re.findall(r"`(\w+)`", names)) <= names_in(LIBRARY / file), file


def test_a_file_of_the_tour_exists():
    files = re.findall(r"`([\w/]+\.(?:py|sh))`", TOUR)
    assert [file for file in files if not (LIBRARY / file).is_file()] == []
