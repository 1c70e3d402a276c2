"""The committed table: one line for each site, with a test that reaches it."""

from __future__ import annotations

import json
import re
from pathlib import Path

from .sites import Code, Site

Key = tuple[str, str, str]
BETWEEN = " | "


def read_table(path: Path) -> dict[Key, str]:
    """Site -> test, as tests/test_x.py::test_y."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    rows = [line.split(BETWEEN) for line in lines if not line.startswith("#")]
    return {(file, function, BETWEEN.join(text)): test for test, file, function, *text in rows}


def write_table(path: Path, table: dict[Key, str]) -> None:
    head = (
        "# Every message of lab and a test that reaches it: test | file | function | how it begins.\n"
        "# Written by hooks/error_catalogue.py TESTS, from a run of these tests.\n"
    )
    lines = [BETWEEN.join((table[key], *key)) + "\n" for key in sorted(table)]
    path.write_text(head + "".join(lines), encoding="utf-8")


def reached_by(reached: Path, code: Code) -> dict[Key, str]:
    """The sites that tests reached, each with one of the tests."""
    by_file: dict[str, list[Site]] = {}
    for site in code.sites:
        by_file.setdefault(site.file, []).append(site)
    makers = {maker_place(maker.module, maker.function.name) for maker in code.makers.values()}
    found: dict[Key, list[str]] = {}
    for line in reached.read_text(encoding="utf-8").splitlines():
        test, _, frames, _ = json.loads(line)
        while frames and maker_place(frames[0][0], frames[0][1]) in makers:
            frames = frames[1:]
        if not frames or not test:
            continue
        file, function, number = frames[0]
        for site in by_file.get(file, []):
            if site.function == function and site.first_line <= number <= site.last_line:
                found.setdefault(site.key, []).append(re.sub(r"\[.*", "", test))
    return {key: min(tests, key=preference) for key, tests in found.items()}


def maker_place(file: str, function: str) -> tuple[str, str]:
    return file, function.rpartition(".")[2]


def preference(test: str) -> tuple[int, str]:
    """The test of the least number of letters: short names stand for small tests."""
    return len(test), test
