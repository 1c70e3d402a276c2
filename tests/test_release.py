"""Each rule of hooks/check_release.py lets a good release pass and stops a bad one."""

import sys

import pytest
from conftest import ROOT, call, commit

sys.path.insert(0, str(ROOT / "hooks"))
import check_release

HEADER = '# Template\'s file: replaced by "copier update".\n'


@pytest.fixture
def template(tmp_path):
    """A tiny template with the tag 0.1.0 and one commit on top, ready to become 0.2.0."""
    write(tmp_path, "copier.yml", "_subdirectory: template\nname: {type: str, default: x}\n")
    write(
        tmp_path,
        "template/{{ _copier_conf.answers_file }}.jinja",
        "{{ _copier_answers | to_nice_yaml }}",
    )
    write(tmp_path, "template/seed.txt", "the user's\n")
    write(tmp_path, "template/lab/own.py", HEADER)
    write(tmp_path, "CHANGELOG.md", "# Changes\n\n## 0.1.0\n\nThe first.\n")
    commit(tmp_path, "first")
    call(tmp_path, "git", "tag", "0.1.0")
    write(tmp_path, "CHANGELOG.md", "# Changes\n\n## 0.2.0\n\nMore.\n\n## 0.1.0\n\nThe first.\n")
    commit(tmp_path, "second")
    return tmp_path


def write(folder, name, text):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def test_a_good_release_passes(template, capsys):
    assert check_release.main(["0.2.0", "--repository", str(template)]) == 0
    assert capsys.readouterr().out == "0.2.0 can be tagged\n"


def test_a_first_release_passes(template):
    call(template, "git", "tag", "-d", "0.1.0")
    assert check_release.check(template, "0.2.0") == []


def test_problems_are_printed_and_fail(template, capsys):
    assert check_release.main(["0.1.0", "--repository", str(template)]) == 1
    assert capsys.readouterr().out == "0.1.0 is not newer than the last tag, 0.1.0\n"


@pytest.mark.parametrize("version", ["release-2", "v", "1.2.x", ""])
def test_a_version_that_copier_ignores(template, version):
    assert "PEP 440" in check_release.check(template, version)[0]


def test_versions_are_compared_as_versions(template):
    call(template, "git", "tag", "0.10.0", "HEAD~1")
    assert check_release.check(template, "0.2.0") == [
        "0.2.0 is not newer than the last tag, 0.10.0"
    ]


def test_a_commit_has_one_tag(template):
    call(template, "git", "tag", "nice")
    assert "one commit has one tag" in check_release.check(template, "0.2.0")[0]


def test_no_changelog_entry(template):
    assert "CHANGELOG.md has no entry" in check_release.check(template, "0.3.0")[0]
    write(template, "CHANGELOG.md", "# Changes\n\n## 0.3.0\n\n## 0.1.0\n\nThe first.\n")
    commit(template, "an empty entry")
    assert "CHANGELOG.md has no entry" in check_release.check(template, "0.3.0")[0]


def test_uncommitted_work(template):
    write(template, "template/new.txt", "")
    assert "new.txt" in check_release.check(template, "0.2.0")[0]


@pytest.mark.parametrize("key", ["_tasks", "_migrations", "_jinja_extensions"])
def test_what_needs_trust(template, key):
    write(
        template,
        "copier.yml",
        f"_subdirectory: template\n{key}: []\nname: {{type: str, default: x}}\n",
    )
    commit(template, "tasks")
    assert f"copier.yml has {key}" in check_release.check(template, "0.2.0")[0]


def test_a_dropped_path_needs_a_tombstone(template):
    (template / "template/seed.txt").unlink()
    commit(template, "drop")
    assert check_release.check(template, "0.2.0") == [
        "an update from 0.1.0 deletes seed.txt in projects. Add it to the tombstones in copier.yml"
    ]
    tombstone = "_exclude:\n  - \"{% if _copier_operation == 'update' %}seed.txt{% endif %}\"\n"
    write(template, "copier.yml", (template / "copier.yml").read_text() + tombstone)
    commit(template, "tombstone")
    assert check_release.check(template, "0.2.0") == []


def test_a_dropped_file_of_the_template_is_named_in_the_changelog(template):
    (template / "template/lab/own.py").unlink()
    commit(template, "drop")
    assert "deletes lab/own.py" in check_release.check(template, "0.2.0")[0]
    text = (template / "CHANGELOG.md").read_text()
    write(template, "CHANGELOG.md", text.replace("More.", "`lab/own.py` is gone."))
    commit(template, "say so")
    assert check_release.check(template, "0.2.0") == []
