"""Whose each file is, as the table of docs/update.md says it, and what an update then does to an edit of it."""

import re

import pytest
from pathspec import PathSpec
from project_files import files
from projects import PROJECT, ROOT
from rendering import COPIER, copy_template, release, render_template
from repositories import commit, git
from update_rules import ANSWERS, contents, update

PAGE = (ROOT / "docs/update.md").read_text(encoding="utf-8")
MARK = b"Template's file: "
MINE, NEWER = b"# mine\n", b"# newer\n"


def owners():
    """Whose -> the patterns of the files, from the table."""
    table = PAGE.partition("files | whose")[2].partition("\n\n")[0]
    rows = re.findall(r"^(`.*`) \| ([\w']+)", table, re.M)
    return {
        whose: [f"/{name.replace('<package>', '*')}" for name in re.findall(r"`([^`]+)`", names)]
        for names, whose in rows
    }


def owner_of(name):
    """Who the table says owns a file of a project; it names each file once."""
    (owner,) = (
        whose
        for whose, patterns in owners().items()
        if PathSpec.from_lines("gitignore", patterns).match_file(name)
    )
    return owner


def files_of(whose):
    return {name for name in files(PROJECT) if owner_of(name) == whose}


def test_the_table_names_every_file_once():
    assert list(owners()) == ["yours", "both", "the", "copier's"]
    assert all(files_of(whose) for whose in owners())
    assert files_of("copier's") == {ANSWERS}


def test_yours_are_the_seeds_in_both_lists_of_copier():
    assert sorted(owners()["yours"]) == sorted(COPIER["_skip_if_exists"])
    kept = next(entry for entry in COPIER["_exclude"] if "/README.md" in entry)
    assert [line for line in kept.split("\n") if line.startswith("/")] == COPIER["_skip_if_exists"]


def test_the_files_of_the_template_say_so_and_no_others():
    marked = {name for name in files(PROJECT) if MARK in (PROJECT / name).read_bytes()[:200]}
    assert marked == files_of("the")


def change_every_file(template):
    """Writes a new line at the top of each, in the job script by its part in the library."""
    job = template / "src/labrig/cluster/job/job.sh"
    paths = [path for path in (template / "template").rglob("*") if path.is_file()]
    for path in [job, *paths]:
        if path.parent.name == "jobs" or "answers" in path.name:
            continue
        first, newline, rest = path.read_bytes().partition(b"\n")
        lines = [first + newline, NEWER] if first.startswith(b"{%") else [NEWER, first + newline]
        path.write_bytes(b"".join([*lines, rest]))


@pytest.fixture(scope="module")
def updated(tmp_path_factory):
    """What a project held before and after an update, when the user and the template changed every file."""
    folder = tmp_path_factory.mktemp("owners")
    template = copy_template(folder / "template")
    release(template, "0.1.0")
    project = render_template(template, folder / "myproj")
    for name in files(project):
        if name != ANSWERS:
            (project / name).write_bytes((project / name).read_bytes() + MINE)
    commit(project, "Mine")
    before = contents(project)
    change_every_file(template)
    release(template, "0.2.0")
    update(project, "0.2.0")
    assert git(project, "ls-files", "-u") == ""
    return before, contents(project)


def test_yours_are_never_touched(updated):
    before, after = updated
    for name in files_of("yours"):
        assert after[name] == before[name]


@pytest.mark.parametrize("whose", ["both", "the"])
def test_the_others_are_merged(updated, whose):
    before, after = updated
    for name in files_of(whose):
        assert NEWER in after[name][:200], name
        lines = after[name].replace(NEWER, b"", 1)
        assert lines.endswith(MINE), name
        if name != "pyproject.toml":  # its pin and release are new
            assert lines == before[name]


def test_copier_writes_the_version(updated):
    before, after = updated
    assert b"_commit: 0.1.0\n" in before[ANSWERS]
    assert after[ANSWERS] == before[ANSWERS].replace(b"_commit: 0.1.0\n", b"_commit: 0.2.0\n")
    assert {*before} == {*after}
