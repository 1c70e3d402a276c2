"""docs/coverage.md: every row has its place, and every path and test that it names is there."""

import ast
import re
from functools import cache

import pytest
from projects import ROOT

PAGE = (ROOT / "docs/coverage.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^(\d+) \| ([^|]*) \| ([^|]*) \| ([^|]*) \| ?(.*)$", PAGE, re.MULTILINE)
N_ROWS = 183
WITHOUT_TEST = ("history; successor: ", "not served: ")


@cache
def functions_in(file):
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_row_is_there_once():
    assert [int(number) for number, *_ in ROWS] == list(range(1, N_ROWS + 1))


@pytest.mark.parametrize(("number", "served", "tests"), [(row[0], row[3], row[4]) for row in ROWS])
def test_a_row_names_what_exists(number, served, tests):
    assert re.match(r"served|history; successor: |not served: ", served)
    named = re.findall(r"`([^`]+)`", tests)
    for name in named:
        file, _, test = name.partition("::")
        assert test in functions_in(file), name
    assert named or served.startswith(WITHOUT_TEST), "a row that is served names a test"
    for path in re.findall(r"`([\w./]+/[\w./]+\.\w+)`", served):
        root = ROOT / "src" if path.startswith("labrig/") else ROOT
        assert (root / path).exists(), path
    if served.startswith("served"):
        assert re.search(
            r"`[^`]+`|\]\(|Lightning|unless asked|directories|no conda|first line", served
        )
