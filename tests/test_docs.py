"""The documentation in a project: it is there, its links lead somewhere, and it names commands that exist."""

import re

import pytest
from conftest import PROJECT, ROOT
from myproj.lab import cli, errors
from myproj.lab.docs import pages
from myproj.lab.project import Project

PAGES = sorted((PROJECT / "docs/lab").glob("*.md"))
# `lab NAME` in plain text that is no command
NO_COMMAND = {"reads", "is", "of", "or", "and", "has", "on", "in", "rows", "command", "that", "to"}


def test_pages_are_listed_and_shown(monkeypatch, capsys):
    monkeypatch.setattr(pages.pydoc, "pager", print)
    project = Project(PROJECT, "myproj")
    pages.docs_command(project, [])
    listed = capsys.readouterr().out
    for path in PAGES:
        assert re.search(rf"^lab docs {path.stem} +\w", listed, re.M)
    pages.docs_command(project, ["record.md"])
    assert capsys.readouterr().out.startswith("# The record\n")
    with pytest.raises(errors.LabError, match="did you mean: training"):
        pages.docs_command(project, ["trainin"])


def test_pages_can_be_brought_back(tmp_path):
    with pytest.raises(errors.LabError, match="git checkout HEAD -- docs/lab"):
        pages.docs_command(Project(tmp_path, "myproj"), [])


def test_no_text_tells_to_do_what_loses_lines():
    """`copier recopy` takes the lines of the user out of merged files; `commit -a` leaves new files out."""
    folders = [ROOT / "docs", ROOT / "template", ROOT / "hooks"]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    for path in [*files, *ROOT.glob("*.md"), ROOT / "copier.yml"]:
        text = path.read_text(encoding="utf-8", errors="replace")
        assert not re.search(r"(:|^) *copier recopy", text, re.M), path
        assert not re.search(r"git commit (-\w*a|--all)", text), path


@pytest.mark.parametrize("path", [PROJECT / "README.md", *PAGES], ids=lambda path: path.name)
def test_links_lead_somewhere_in_a_project(path):
    text = path.read_text(encoding="utf-8")
    targets = [target for target in re.findall(r"\]\(([^)\s#]+)", text) if ":" not in target]
    assert [target for target in targets if not (path.parent / target).exists()] == []


def test_every_page_belongs_to_the_template():
    assert len(PAGES) >= 8
    for path in PAGES:
        first = path.read_text(encoding="utf-8").splitlines()[0]
        assert first.startswith("<!-- Template's file: updated by"), path
    assert (ROOT / "docs/lab").resolve() == ROOT / "template/docs/lab"


def test_only_commands_that_exist_are_named():
    groups = {command.group for command in cli.list_commands()} | {"rank"}
    files = [*(PROJECT / "src/myproj/lab").rglob("*.py"), PROJECT / "README.md", *PAGES]
    for path in files:
        text = path.read_text(encoding="utf-8")
        for name in re.findall(r"[`\"'(:]lab ([a-z]+)\b", text):
            assert name in groups | NO_COMMAND, f"{path}: lab {name}"
