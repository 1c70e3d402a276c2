"""Each rule of hooks/check_release.py lets a good release pass and stops a bad one."""

import sys

import pytest
from conftest import ROOT
from repositories import commit, git, write

sys.path.insert(0, str(ROOT / "hooks"))
import check_release

HEADER = '# Template\'s file: replaced by "copier update".\n'


@pytest.fixture
def template(tmp_path):
    """A tiny template with the tag 0.1.0 and one commit on top, ready to become 0.2.0."""
    answers = "template/{{ _copier_conf.answers_file }}.jinja"
    write(
        tmp_path,
        {
            "copier.yml": "_subdirectory: template\nname: {type: str, default: x}\n",
            answers: "{{ _copier_answers | to_nice_yaml }}",
            "template/seed.txt": "the user's\n",
            "template/lab/own.py": HEADER,
            "CHANGELOG.md": "# Changes\n\n## 0.1.0\n\nThe first.\n",
        },
    )
    commit(tmp_path, "first")
    git(tmp_path, "tag", "0.1.0")
    write(tmp_path, {"CHANGELOG.md": "# Changes\n\n## 0.2.0\n\nMore.\n\n## 0.1.0\n\nThe first.\n"})
    commit(tmp_path, "second")
    return tmp_path


def test_a_good_release_passes(template, capsys):
    assert check_release.main(["0.2.0", "--repository", str(template)]) == 0
    assert capsys.readouterr().out == "0.2.0 can be tagged\n"


def test_a_first_release_passes(template):
    git(template, "tag", "-d", "0.1.0")
    assert check_release.check(template, "0.2.0") == []


def test_problems_are_printed_and_fail(template, capsys):
    assert check_release.main(["0.1.0", "--repository", str(template)]) == 1
    assert capsys.readouterr().out == "0.1.0 is not newer than the last tag, 0.1.0\n"


@pytest.mark.parametrize("version", ["release-2", "v", "1.2.x", ""])
def test_a_version_that_copier_ignores(template, version):
    assert "PEP 440" in check_release.check(template, version)[0]


def test_versions_are_compared_as_versions(template):
    git(template, "tag", "0.10.0", "HEAD~1")
    assert check_release.check(template, "0.2.0") == [
        "0.2.0 is not newer than the last tag, 0.10.0"
    ]


def test_a_commit_has_one_tag(template):
    git(template, "tag", "nice")
    assert "one commit has one tag" in check_release.check(template, "0.2.0")[0]


def test_no_changelog_entry(template):
    assert "CHANGELOG.md has no entry" in check_release.check(template, "0.3.0")[0]
    write(template, {"CHANGELOG.md": "# Changes\n\n## 0.3.0\n\n## 0.1.0\n\nThe first.\n"})
    commit(template, "an empty entry")
    assert "CHANGELOG.md has no entry" in check_release.check(template, "0.3.0")[0]


def test_uncommitted_work(template):
    write(template, {"template/new.txt": ""})
    assert "new.txt" in check_release.check(template, "0.2.0")[0]


@pytest.mark.parametrize("key", ["_tasks", "_migrations", "_jinja_extensions"])
def test_what_needs_trust(template, key):
    settings = f"_subdirectory: template\n{key}: []\nname: {{type: str, default: x}}\n"
    write(template, {"copier.yml": settings})
    commit(template, "tasks")
    assert f"copier.yml has {key}" in check_release.check(template, "0.2.0")[0]


def test_a_dropped_path_needs_a_tombstone(template):
    (template / "template/seed.txt").unlink()
    commit(template, "drop")
    assert check_release.check(template, "0.2.0") == [
        "an update from 0.1.0 deletes seed.txt in projects. Add it to the tombstones in copier.yml"
    ]
    tombstone = "_exclude:\n  - \"{% if _copier_operation == 'update' %}seed.txt{% endif %}\"\n"
    write(template, {"copier.yml": (template / "copier.yml").read_text() + tombstone})
    commit(template, "tombstone")
    assert check_release.check(template, "0.2.0") == []


def test_a_dropped_file_of_the_template_is_named_in_the_changelog(template):
    (template / "template/lab/own.py").unlink()
    commit(template, "drop")
    assert "deletes lab/own.py" in check_release.check(template, "0.2.0")[0]
    text = (template / "CHANGELOG.md").read_text()
    write(template, {"CHANGELOG.md": text.replace("More.", "`lab/own.py` is gone.")})
    commit(template, "say so")
    assert check_release.check(template, "0.2.0") == []
