"""The documentation: `lab docs` shows it, its links lead somewhere, and it names commands and pages that exist."""

import re
import subprocess
import sys
import tarfile
import zipfile

import pytest
from labrig import cli, errors
from labrig.docs import pages
from projects import LIBRARY, PROJECT, ROOT

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
# `lab NAME` in plain text that is no command
NO_COMMAND = {"reads", "is", "of", "or", "and", "has", "on", "in", "rows", "command", "that", "to"}


def files_in(*folders):
    """The files below folders, without what Python and ruff keep there."""
    paths = [path for folder in folders for path in folder.rglob("*")]
    return [path for path in paths if path.is_file() and "cache" not in str(path.parent)]


def test_pages_are_listed_and_shown(monkeypatch, capsys):
    monkeypatch.setattr(pages.pydoc, "pager", print)
    pages.docs_command(None, [])
    listed = capsys.readouterr().out
    assert len(PAGES) > 40
    for path in PAGES:
        assert re.search(rf"^  lab docs {path.stem} +\w", listed, re.M)
    pages.docs_command(None, ["record.md"])
    assert capsys.readouterr().out.startswith("# The record\n")
    with pytest.raises(errors.LabError, match="did you mean: training"):
        pages.docs_command(None, ["trainxng"])


@pytest.mark.parametrize(
    ("wish", "page"),
    [
        ("freeze", "recipes"),
        ("class weights", "recipes"),
        ("subset", "recipes"),
        ("ensemble", "recipes"),
        ("early stopping", "recipes"),
        ("warm-up", "recipes"),
        ("k-fold", "recipes"),
        ("own metric", "recipes"),
        ("own optimizer", "recipes"),
        ("gradient clipping", "recipes"),
        ("confidence interval", "recipes"),
        ("curriculum", "recipes"),
        ("two data sets", "recipes"),
        ("order of samples", "recipes"),
        ("forecast", "speed"),
        ("loss", "recipes"),
        ("--search glossary", "glossary"),
    ],
)
def test_a_word_that_is_no_page_is_searched_best_first(capsys, wish, page):
    pages.docs_command(None, wish.split())
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith(f"lab docs {page} ")


def test_pages_are_shown_outside_of_a_project(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["docs", "cite"]) == 0
    assert capsys.readouterr().out.strip() == (DOCS / "cite.md").read_text(encoding="utf-8").strip()


@pytest.mark.slow
def test_pages_come_with_the_wheel(tmp_path, monkeypatch):
    """`lab docs` finds them in it, where there is no checkout around the library."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    subprocess.run([*command, "--directory", tmp_path], cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.stat().st_size < 1_500_000, "fewer words?"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    installed = tmp_path / pages.OF_WHEEL.relative_to(LIBRARY.parent)
    monkeypatch.setattr(pages, "OF_WHEEL", installed)
    monkeypatch.setattr(pages, "OF_CHECKOUT", tmp_path / "no checkout/docs")
    assert "recipes" in pages.themes_of()["Guide"]
    assert sorted(path.name for path in pages.page_files()) == [path.name for path in PAGES]
    for path in PAGES:
        assert (installed / path.name).read_bytes() == path.read_bytes()


@pytest.mark.slow
def test_a_wheel_is_built_of_the_sdist(tmp_path):
    """As an installer does, and the index that checks it."""
    build = [sys.executable, "-m", "hatchling", "build", "--directory", tmp_path / "built"]
    subprocess.run([*build, "--target", "sdist"], cwd=ROOT, check=True, capture_output=True)
    with tarfile.open(next((tmp_path / "built").glob("*.tar.gz"))) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.glob("labrig-*")
    subprocess.run([*build, "--target", "wheel"], cwd=source, check=True, capture_output=True)
    (wheel,) = (tmp_path / "built").glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        assert {"labrig/cli.py", "labrig/docs/data.md"} <= set(opened.namelist())


def test_a_library_without_its_pages_is_installed_again(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "OF_WHEEL", tmp_path / "docs")
    monkeypatch.setattr(pages, "OF_CHECKOUT", tmp_path / "docs")
    with pytest.raises(errors.LabError, match=r"has no pages\. Install labrig again: make setup"):
        pages.docs_command(None, [])


def test_no_text_tells_to_do_what_loses_lines():
    """`copier recopy` takes the lines of the user out of merged files; `commit -a` leaves new files out."""
    files = files_in(DOCS, ROOT / "template", ROOT / "hooks", LIBRARY)
    for path in [*files, *ROOT.glob("*.md"), ROOT / "copier.yml"]:
        text = path.read_text(encoding="utf-8", errors="replace")
        assert not re.search(r"(:|^) *copier recopy", text, re.M), path
        assert not re.search(r"git commit (-\w*a|--all)", text), path


def test_links_lead_somewhere():
    """Those of a page stay in docs/: in an installed library there is nothing around it."""
    for path in [PROJECT / "README.md", *PAGES]:
        text = path.read_text(encoding="utf-8")
        targets = [target for target in re.findall(r"\]\(([^)\s#]+)", text) if ":" not in target]
        found = [(path.parent / target).resolve() for target in targets]
        assert [place for place in found if not place.exists()] == [], path
        assert [place for place in found if not place.is_relative_to(path.parent)] == [], path


def test_only_commands_that_exist_are_named():
    groups = {command.group for command in cli.list_commands()} | {"rank"}
    files = [*LIBRARY.rglob("*.py"), PROJECT / "README.md", *PAGES]
    for path in files:
        text = path.read_text(encoding="utf-8")
        for name in re.findall(r"[`\"'(:]lab ([a-z]+(?:-[a-z]+)*)\b", text):
            assert name in groups | NO_COMMAND, f"{path}: lab {name}"


def test_only_pages_that_exist_are_named():
    names = {path.stem for path in PAGES}
    for path in files_in(LIBRARY, ROOT / "template", PROJECT, DOCS, ROOT / "examples"):
        text = path.read_text(encoding="utf-8", errors="replace")
        for name in re.findall(r"\blab docs ([a-z][\w-]*(?:\.[a-z]+\b)?)", text):
            assert name in names, f"{path}: lab docs {name}"
        assert "docs/lab/" not in text, path
