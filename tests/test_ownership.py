"""hooks/ownership.yaml says whose each file is: the files, copier.yml and the docs agree with it."""

import re
import shutil
import sys

import pytest
import yaml
from conftest import ROOT, call
from repositories import git

sys.path.append(str(ROOT / "hooks"))
from ownership import (
    HASHES,
    hash_list,
    owners_of,
    read_table,
    rendered_path,
    template_sources,
)

TEMPLATE = ROOT / "template"
COPIER = yaml.safe_load((ROOT / "copier.yml").read_text(encoding="utf-8"))
HYDRAS_OWN_FIRST_LINE = "# @package _global_\n"  # Hydra reads it nowhere else
MARK = 'Template\'s file: updated by "copier update".'


def test_every_file_has_one_owner():
    owners = {
        str(source): owners_of(rendered_path(source)) for source in template_sources(TEMPLATE)
    }
    assert len(owners) > 100
    assert {path: owner for path, owner in owners.items() if len(owner) != 1} == {}


def test_every_pattern_holds_a_file():
    paths = [rendered_path(source) for source in template_sources(TEMPLATE)]
    for owner, patterns in read_table().items():
        for pattern in patterns:
            start = re.escape(pattern.lstrip("/")).replace(r"\*", "[^/]*")
            assert any(re.match(start, path) for path in paths), f"{owner}: {pattern}"


def test_the_template_s_files_say_so_in_their_first_line_and_no_other_does():
    for source in template_sources(TEMPLATE):
        text = (TEMPLATE / source).read_text(encoding="utf-8")
        first_line = text.removeprefix(HYDRAS_OWN_FIRST_LINE).partition("\n")[0]
        is_template = owners_of(rendered_path(source)) == ["template"]
        assert (MARK in first_line) == is_template, source


def test_copier_yml_leaves_the_users_files_alone():
    update_block = next(entry for entry in COPIER["_exclude"] if "/README.md" in entry)
    users = read_table()["user"]
    assert COPIER["_skip_if_exists"] == users
    assert update_block.split("\n")[1:-2] == users


def test_the_docs_name_the_same_files():
    text = (ROOT / "docs/update.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^((?:`[^`|]+`(?:, )?)+) \| (yours|both|the template's|copier's)", text, re.M
    )
    listed = {owner: re.findall("`([^`]+)`", files) for files, owner in rows}
    words = {"user": "yours", "merged": "both", "template": "the template's", "copier": "copier's"}
    expected = {
        words[owner]: [
            pattern.lstrip("/").replace("src/*/", "src/<package>/", 1) for pattern in patterns
        ]
        for owner, patterns in read_table().items()
    }
    assert listed == expected


def test_the_hashes_are_those_of_the_files(request):
    path = TEMPLATE / HASHES
    if request.config.getoption("--regenerate"):
        path.write_text(hash_list(TEMPLATE), encoding="utf-8")
    assert path.read_text(encoding="utf-8") == hash_list(TEMPLATE), (
        "type: python hooks/ownership.py, or run it again with --regenerate"
    )


def test_doctor_names_edited_moved_and_deleted_files(own_project):
    assert "ok     all are as the template wrote them" in examine(own_project)
    lab = own_project / "src/myproj/lab"
    with open(lab / "conf/lab.yaml", "a") as file:
        file.write("# mine\n")
    with open(own_project / "docs/lab/data.md", "a") as file:
        file.write("mine\n")
    git(own_project, "mv", "src/myproj/lab/hdf5/images.py", "src/myproj/images.py")
    (lab / "bench/plot.py").unlink()
    crlf = lab / "errors.py"
    crlf.write_bytes(crlf.read_bytes().replace(b"\n", b"\r\n"))
    (lab / "mine.py").write_text("A = 1\n")
    text = examine(own_project)
    assert all(len(line) <= 80 for line in text.splitlines())
    words = " ".join(text.split())
    for sentence in (
        "src/myproj/lab/conf/lab.yaml was edited -> write its keys into conf/config.yaml",
        "docs/lab/data.md was edited -> write a page of your own in docs/",
        "src/myproj/lab/hdf5/images.py was moved to src/myproj/images.py -> updates no longer",
        "src/myproj/lab/bench/plot.py was deleted -> it stays deleted",
    ):
        assert sentence in words
    assert sum(words.count(f" was {state}") for state in ("edited", "moved", "deleted")) == 4


@pytest.mark.slow
def test_doctor_sees_a_package_that_was_renamed_by_hand(own_project):
    shutil.move(own_project / "src/myproj", own_project / "src/nova")
    words = " ".join(examine(own_project, "nova").split())
    assert "the package is nova, but .copier-answers.yml says myproj" in words
    assert "lab rename nova" in words


DOCTOR = """
from {package}.lab.cluster.doctor import findings_of, format_finding
from {package}.lab.cluster.doctor_template import template_files
from {package}.lab.project import Project
for finding in findings_of(template_files, Project.find()):
    print(format_finding(finding))
"""


def examine(project, package="myproj"):
    """The part of `lab doctor` on the template's files; all of it needs torch."""
    return call(project, "python", "-c", DOCTOR.format(package=package))


@pytest.mark.parametrize(
    "name", ["torch", "class", "Wide", "json", "tests", "wide-net", "a", "wide_", "jax", "aux"]
)
def test_a_name_that_no_package_can_have_is_refused(own_project, name):
    text = call(own_project, "lab", "rename", name, rc=2)
    assert repr(name) in text
    assert git(own_project, "status", "--porcelain") == ""


def test_renaming_with_uncommitted_work_is_refused(own_project):
    (own_project / "notes.txt").write_text("mine\n")
    text = call(own_project, "lab", "rename", "nova", rc=4)
    assert "?? notes.txt" in text
    assert "git add --all && git commit" in text
    assert (own_project / "src/myproj").is_dir()
