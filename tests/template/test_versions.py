"""The library and a project promise the versions that were tried, by make test-newest and make test-lowest."""

import re
import tomllib

from projects import LIBRARY, PROJECT, ROOT

DEPENDENCIES, OF_PROJECT = (
    tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for folder in (ROOT, PROJECT)
)
PAGE = (ROOT / "docs/setup.md").read_text(encoding="utf-8")
TRIED = dict(re.findall(r"^(3\.\d+) \| (.+)$", PAGE, re.M))


def lowest(name):
    lists = DEPENDENCIES["optional-dependencies"].values()
    entry = next(text for texts in lists for text in texts if re.match(rf"{name}[>=]", text))
    return re.search(r">=([\d.]+)", entry)[1]


def test_the_lowest_versions_are_those_of_the_page():
    row = next(row for row in TRIED.values() if "lowest" in row)
    for name, shown in (("torch", "torch"), ("lightning", "lightning"), ("numpy", "NumPy")):
        assert f"{shown} {lowest(name)}" in row
    for project in (DEPENDENCIES, OF_PROJECT):
        assert project["requires-python"] == f">={min(TRIED)}"
    named = {text.rpartition(" ")[2] for text in DEPENDENCIES["classifiers"] if ":: 3." in text}
    assert named >= set(TRIED)


def test_lightning_is_capped_where_its_private_parts_were_read():
    internals = (LIBRARY / "training/lightning_internals.py").read_text()
    major, minor = re.search(r'TESTED = \(.*"(\d+)\.(\d+)",\)', internals).groups()
    extra = DEPENDENCIES["optional-dependencies"]["train"]
    assert f"lightning>=2.6,<{major}.{int(minor) + 1}" in extra


def test_the_workflow_runs_a_python_that_was_tried():
    workflow = (PROJECT / ".github/workflows/check.yml").read_text(encoding="utf-8")
    assert re.search(r'python-version: "(3\.\d+)"', workflow)[1] in TRIED


def test_both_ways_run_every_week():
    weekly = (ROOT / ".github/workflows/versions.yml").read_text(encoding="utf-8")
    assert re.findall(r"which: (\w+)", weekly).count("lowest") == 1
    for version in TRIED:
        assert f'python: "{version}"' in weekly


def test_what_no_change_waits_for_runs_every_week():
    weekly = (ROOT / ".github/workflows/weekly.yml").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "    - cron: " in weekly
    for marker in ("release", "updates"):
        assert re.search(rf"target: \[.*\btest-{marker}\b", weekly)
        assert re.search(rf"^test-{marker}: .*\n(?:\t.*\n)*\t.* -m {marker}\b", makefile, re.M)
