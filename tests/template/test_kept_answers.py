"""What a project has answered stays at an update, or the update stops with words."""

import copier
import pytest
import yaml
from nasty_answers import accepted
from rendering import QUESTIONS, copy_template
from repositories import commit, git

ANSWERS = {
    "project_name": "Nets",
    "package_name": "nets_a",
    "description": "Wide nets",
    "author": "Ann Bee",
    "site": "lanta",
    "license": "Apache-2.0",
}
OPTIONS = {"defaults": True, "quiet": True, "unsafe": False}
# Some project has each of these since the first release: no rule and no list of choices may lose one.
ACCEPTED_FOR_EVER = {
    "project_name": ["x", "x" * 60, "名前 🎲", '"', "\\", "{{ x }}", "- x", "null", "\u200b"],
    "package_name": ["a1", "x" * 40, "a__b", "no", "null", "match", "nets_2026"],
    "description": ["x", "x" * 200, "a: b # c", "`x` $HOME"],
    "author": ["x", "x" * 100, "Ann Bee <ann@example.org>", "O'Neil & Söhne"],
    "site": [
        "workstation", "slurm", "jean_zay_h100", "jean_zay_a100", "jean_zay_v100",
        "abci3", "tsubame4", "wisteria_a", "lanta", "miyabi_g", "miyabi_c", "wisteria_o", "lsf",
        "perlmutter", "alliance", "mila",
        "lumi_g", "juwels_booster", "leonardo_booster", "marenostrum5_acc", "alps_clariden", "alps_daint",
        "snellius_a100", "snellius_h100",
    ],
    "license": ["MIT", "Apache-2.0", "BSD-3-Clause", "none"],
}  # fmt: skip


def test_what_was_accepted_once_is_accepted_for_ever():
    assert list(ACCEPTED_FOR_EVER) == list(QUESTIONS)
    for question, answers in ACCEPTED_FOR_EVER.items():
        assert [accepted(question, answer) for answer in answers] == answers


@pytest.fixture
def template(tmp_path):
    """A repository of the template at release 0.1.0."""
    folder = copy_template(tmp_path / "template")
    release(folder, "0.1.0")
    return folder


@pytest.fixture
def project(template, tmp_path):
    """A project of 0.1.0 with answers of its own."""
    folder = tmp_path / "nets"
    copier.run_copy(str(template), folder, data=ANSWERS, **OPTIONS)
    commit(folder, "Start")
    return folder


def release(folder, version, *, file=None, old="", new=""):
    if file:
        text = (folder / file).read_text(encoding="utf-8")
        assert old in text
        (folder / file).write_text(text.replace(old, new, 1), encoding="utf-8")
    commit(folder, version)
    git(folder, "tag", version)


def update(project, **data):
    copier.run_update(project, overwrite=True, data=data, **OPTIONS)


def recorded(project):
    answers = yaml.safe_load((project / ".copier-answers.yml").read_text(encoding="utf-8"))
    return {name: answers[name] for name in QUESTIONS}


STRICTER = {  # what a release must not do -> the words in which each update stops
    "a name more is refused": (
        "template/answers.jinja",
        '".split() -%}',
        'nets_a ".split() -%}',
        "The package name is already taken",
    ),
    "a choice is removed": (
        "copier.yml",
        '    "Apache 2.0: the same, with a patent grant": Apache-2.0\n',
        "",
        "'Apache-2.0' is not in",
    ),
    "a text must be shorter": (
        "copier.yml",
        "text_problem(author, 100)",
        "text_problem(author, 5)",
        "The author's name has 7 characters; at most 5 are allowed",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("mistake", STRICTER)
def test_an_answer_that_a_release_refuses_is_not_dropped(template, project, mistake):
    *change, words = STRICTER[mistake]
    release(template, "0.2.0", **dict(zip(("file", "old", "new"), change, strict=True)))
    with pytest.raises(ValueError, match=words):
        update(project)
    assert git(project, "status", "--porcelain") == ""
    assert recorded(project) == ANSWERS


@pytest.mark.slow
def test_a_withdrawn_choice_stays_with_those_who_have_it(template, project):
    withdrawn = (
        """{value: lanta, validator: "{{ 'is gone' if site | default('') != 'lanta' }}"}\n"""
    )
    release(template, "0.2.0", file="copier.yml", old="A100: lanta\n", new=f"A100: {withdrawn}")
    update(project)
    assert recorded(project) == ANSWERS
    assert "_commit: 0.2.0" in (project / ".copier-answers.yml").read_text()
    question = yaml.safe_load((template / "copier.yml").read_text(encoding="utf-8"))["site"]
    with pytest.raises(ValueError, match="is gone"):
        accepted("site", "lanta", question)


@pytest.mark.slow
def test_the_name_of_the_package_is_not_changed_by_an_update(template, project):
    """It would move half of the package."""
    release(template, "0.2.0", file="template/answers.jinja", old="Markdown", new="markdown")
    with pytest.raises(ValueError, match="stays at an update; to change it: lab docs update"):
        update(project, package_name="nova")
    assert git(project, "status", "--porcelain") == ""
    update(project, author="Bo Lee")
    assert recorded(project) == ANSWERS | {"author": "Bo Lee"}
