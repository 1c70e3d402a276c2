"""hooks/check_release.py: tags, work tree, changelog and questions. Each rule stops its planted mistake."""

import shutil
import sys

import pytest
from projects import ROOT
from release_history import QUESTIONS, add_entry, copier_yml, record_tags, two_releases
from repositories import commit, git, write

sys.path.insert(0, str(ROOT / "hooks"))
import check_release
from release import changelog, questions, tags, worktree
from release.questions import Questions
from release.repository import ReleaseError, Repository


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    return two_releases(tmp_path_factory.mktemp("history"))


@pytest.fixture
def template(history, tmp_path):
    """Two releases and a commit that can become 0.3.0, to be spoilt."""
    return shutil.copytree(history, tmp_path / "template")


def head(folder):
    return Questions(Repository(folder), "HEAD")


def tag_problems(folder, version="0.3.0"):
    repository = Repository(folder)
    return "\n".join(tags.check_version(repository, version) + tags.check_tags(repository))


@pytest.mark.slow
def test_a_first_release_passes(template, capsys):
    git(template, "tag", "-d", "0.1.0", "0.2.0")
    assert check_release.main(["0.3.0", "--repository", str(template)]) == 0
    assert capsys.readouterr().out == "0.3.0 can be tagged\n"


def test_problems_are_printed_and_fail(template, capsys):
    write(template, {"copier.yml": "name: !include other.yml\n"})
    commit(template, "no plain YAML")
    assert check_release.main(["0.2.0", "--repository", str(template)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "the tag 0.2.0 exists already; a tag is never moved or used again"
    assert lines[1].startswith("src/labrig/version.py says 0.3.0")
    assert "copier.yml of HEAD is not plain YAML" in lines[2]


@pytest.mark.parametrize(
    "version",
    ["release-2", "v", "1.2.x", "", "0.3.0rc1", "v0.3.0", "0.3.0+lab", "1!0.3.0", "0.3.0.dev1", "03.1"],
)  # fmt: skip
def test_a_version_that_is_not_plain(history, version):
    assert "no plain version" in tag_problems(history, version)


def test_versions_are_compared_as_versions_and_forks_have_their_own(template):
    git(template, "tag", "0.10.0", "HEAD~1")
    assert "0.3.0 is not newer than the last tag, 0.10.0" in tag_problems(template)
    git(template, "tag", "-d", "0.10.0")
    assert tag_problems(template, "0.2.0.post1") == ""


def test_a_commit_has_one_tag(template):
    git(template, "tag", "nice")
    assert "one commit has one tag" in tag_problems(template)


def test_a_tag_that_was_moved_or_never_listed(template):
    write(template, {"hooks/releases.txt": ""})
    commit(template, "forget")
    assert "lacks a release; add the line: 0.1.0 " in tag_problems(template)
    record_tags(template)
    commit(template, "list")
    assert tag_problems(template) == ""
    git(template, "tag", "-f", "0.2.0", "HEAD~2")
    assert "the tag 0.2.0 was moved" in tag_problems(template)


def test_a_tag_that_is_not_plain_or_of_another_line(template):
    git(template, "tag", "v0.2.1", "HEAD~1")
    assert "reads the tag v0.2.1 as a version" in tag_problems(template)
    git(template, "checkout", "-q", "--orphan", "upstream")
    git(template, "commit", "-q", "-m", "upstream's")
    git(template, "tag", "0.2.2")
    git(template, "checkout", "-q", "main")
    assert "0.2.2 is not in the history of HEAD" in tag_problems(template)


def test_a_commit_next_to_the_main_line(template):
    git(template, "switch", "-q", "-c", "idea")
    git(template, "commit", "-q", "--allow-empty", "-m", "idea")
    assert "HEAD is not on the main line (main)" in tag_problems(template)
    git(template, "switch", "-q", "main")
    git(template, "merge", "-q", "idea")
    assert "main line" not in tag_problems(template)


def test_tags_of_the_remote(template, tmp_path):
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", template, clone)
    assert tag_problems(clone) == ""
    git(clone, "tag", "-d", "0.2.0")
    assert "only origin has the tag 0.2.0" in tag_problems(clone)
    git(clone, "tag", "-a", "-m", "elsewhere", "0.2.0", "HEAD~2")
    assert "0.2.0 is another commit at origin" in tag_problems(clone)


def test_a_shallow_clone(template, tmp_path):
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{template}", "clone")
    assert "is shallow" in tag_problems(tmp_path / "clone")


def test_what_is_no_repository(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("GIT_DISCOVERY_ACROSS_FILESYSTEM", "1")  # /tmp may be a disk of its own
    assert check_release.main(["0.3.0", "--repository", str(tmp_path)]) == 1
    assert "not a git repository" in capsys.readouterr().out


def test_the_work_tree(template):
    write(template, {"template/new.txt": "", ".gitignore": "*.h5\n", "template/data/x.h5": ""})
    write(template, {"template/src/__pycache__/x.pyc": "", ".git/info/exclude": "__pycache__\n"})
    write(template, {"src/labrig/small.h5": "", "docs/small.h5": "", "build/small.h5": ""})
    problems = "\n".join(worktree.check_worktree(Repository(template)))
    assert "template/new.txt" in problems
    for path in ("template/data/x.h5", "src/labrig/small.h5", "docs/small.h5"):
        assert f"git ignores {path}" in problems
    assert "build/small.h5" not in problems
    assert "__pycache__" not in problems


@pytest.mark.parametrize("heading", ["## 0.3.1", "## 0.4.0.1\n\nText.", "## 0.4.0\n"])
def test_no_changelog_entry(template, heading):
    write(template, {"CHANGELOG.md": f"# Changes\n\n{heading}\n## 0.1.0\n\nThe first.\n"})
    commit(template, "no entry")
    assert "has no entry" in changelog.check_entry(Repository(template), "0.4.0")[0]


def test_a_higher_python_or_copier_is_in_the_changelog(template):
    pyproject = "template/pyproject.toml.jinja"
    write(template, {pyproject: (template / pyproject).read_text().replace("3.11", "3.14")})
    write(template, {"pyproject.toml": '[project]\nrequires-python = ">=3.14"\n'})
    write(template, {"copier.yml": copier_yml(more='_min_copier_version: "9.19.0"\n')})
    commit(template, "raise all")
    problems = "\n".join(changelog.check_entry(Repository(template), "0.3.0"))
    assert f"{pyproject} asks for Python >=3.14 (before: >=3.11)" in problems
    assert "\npyproject.toml asks for Python >=3.14 (before: None)" in problems
    assert "asks for copier 9.19.0 (before: None)" in problems
    add_entry(template, "0.4.0", "It needs Python 3.14, and copier 9.19.0.")
    commit(template, "say so")
    assert changelog.check_entry(Repository(template), "0.4.0") == []


@pytest.mark.parametrize(
    "key", ["_tasks", "_migrations", "_jinja_extensions", "_external_data"]
)  # fmt: skip
def test_what_needs_trust(template, key):
    write(template, {"copier.yml": copier_yml(more=f"{key}: []\n")})
    commit(template, "tasks")
    assert f"copier.yml has {key}" in questions.check_form(head(template))[0]


def test_a_question_without_default(template):
    write(template, {"copier.yml": copier_yml(QUESTIONS + "topic: {type: str}\n")})
    commit(template, "ask")
    assert "topic has no default" in questions.check_form(head(template))[0]


def test_settings_of_copier_that_are_no_yaml(template):
    write(template, {"copier.yml": "a: [\n"})
    commit(template, "break")
    with pytest.raises(ReleaseError, match="not plain YAML"):
        questions.check_form(head(template))


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("length > 20", "length > 10", "name no longer takes 'aaaaaaaaaaa'"),
        ("name | length > 20", "name in ['einops']", "name no longer takes 'einops'"),
        ("name | length > 20", "'-' in name or name | length > 20", "no longer takes 'ab-cd'"),
        ("licence: {type: str, default: MIT, choices: [MIT, Apache-2.0]}",
         "licence: {type: str, default: MIT, choices: [MIT]}", "the choice Apache-2.0 of licence"),
        ("author: {type: str, default: nobody}\n", "", "the question author of 0.2.0 is gone"),
    ],
)  # fmt: skip
def test_answers_that_are_no_longer_taken(template, old, new, problem):
    assert old in QUESTIONS
    write(template, {"copier.yml": copier_yml(QUESTIONS.replace(old, new))})
    commit(template, "stricter")
    before = Questions(Repository(template), "0.2.0")
    assert questions.check_answers(before, before, "", set()) == []
    (found,) = questions.check_answers(head(template), before, "", set())
    assert problem in found
    if "question author" in problem:
        assert questions.check_answers(head(template), before, "`author` is gone", set()) == []


def test_a_choice_may_go_when_another_takes_its_place(template):
    write(template, {"copier.yml": copier_yml(QUESTIONS.replace("[desk, lanta]", "[desk]"))})
    commit(template, "without lanta")
    before = Questions(Repository(template), "0.2.0")
    assert len(questions.check_answers(head(template), before, "", set())) == 1
    assert questions.check_answers(head(template), before, "", {"site/lanta"}) == []


def test_a_withdrawn_choice_is_still_an_answer_and_not_offered(template):
    withdrawn = "{Desk: desk, Old: {value: lanta, validator: 'is gone'}}"
    write(template, {"copier.yml": copier_yml(QUESTIONS.replace("[desk, lanta]", withdrawn))})
    commit(template, "withdraw lanta")
    before = Questions(Repository(template), "0.2.0")
    assert questions.check_answers(head(template), before, "", set()) == []
    assert head(template).offered("site") == ["desk"]
    assert head(template).other_answers()["site"] == "desk"
