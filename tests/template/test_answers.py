"""An answer survives in every format it lands in, or is refused with words; nothing between."""

import re

import hypothesis
import hypothesis.strategies as st
import pytest
from nasty_answers import (
    BAD_PACKAGES,
    GOOD_PACKAGES,
    MORE_LINES,
    NO_TEXTS,
    NUMBERS,
    PLAIN_LINES,
    REFUSED_LINES,
    accepted,
    environment,
)
from project_files import check_project
from rendering import QUESTIONS

TEXTS = ("project_name", "description", "author")
CHOICES = ("site", "license")


def assert_fits(error):
    """The question shows it below the answer, in one line of a terminal."""
    assert len(str(error).partition(": ")[2]) <= 80, error


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.parametrize("text", PLAIN_LINES)
def test_any_line_of_text_survives(render_answers, tmp_path, text):
    folder = render_answers(tmp_path / "p", project_name=text, description=text, author=text)
    assert check_project(folder, project_name=text, description=text, author=text)


@pytest.mark.release
@pytest.mark.slow
def test_more_lines_survive(render_answers, tmp_path):
    """Each in one question; the test above has shown that the three are alike."""
    for i in range(0, len(MORE_LINES), 3):
        answers = dict(zip(TEXTS, MORE_LINES[i : i + 3], strict=False))
        assert check_project(render_answers(tmp_path / str(i), **answers), **answers), answers


def test_at_least_sixty_answers_were_tried():
    assert len({*PLAIN_LINES, *MORE_LINES, *REFUSED_LINES}) >= 60
    assert len({*BAD_PACKAGES, *GOOD_PACKAGES}) >= 60


@pytest.mark.parametrize("question", TEXTS)
def test_texts_that_are_refused(question):
    for text, why in REFUSED_LINES.items():
        with pytest.raises(ValueError, match=why) as refused:
            accepted(question, text)
        assert_fits(refused.value)
    for answer in NO_TEXTS:
        with pytest.raises((ValueError, TypeError)):
            accepted(question, answer)
    for number, text in NUMBERS.items():
        assert accepted(question, number) == text


def test_package_names_that_are_refused():
    for name in [*BAD_PACKAGES, *NUMBERS]:
        with pytest.raises(
            ValueError, match=r"The package name (must|is already taken)"
        ) as refused:
            accepted("package_name", name)
        assert_fits(refused.value)


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.parametrize("question", CHOICES)
def test_choices_that_do_not_exist_are_refused(question):
    choices = QUESTIONS[question]["choices"]
    labels = list(choices)
    for answer in [*PLAIN_LINES, *MORE_LINES, *REFUSED_LINES, *NUMBERS, *BAD_PACKAGES, *labels]:
        with pytest.raises(ValueError, match=f"Invalid choice for '{question}'|must be"):
            accepted(question, answer)
    assert [accepted(question, answer) for answer in choices.values()] == list(choices.values())


@pytest.mark.parametrize(
    ("question", "answer", "why"),
    [
        ("project_name", "a\tb", "control character"),
        ("package_name", "nul", "is already taken; try nul_research"),
        ("package_name", "nets_", "must not end with _"),
        ("site", "moon", "'moon' is not in"),
    ],
)
def test_a_refused_answer_makes_no_project(render_answers, tmp_path, question, answer, why):
    with pytest.raises(ValueError, match=why):
        render_answers(tmp_path / "p", **{question: answer})
    assert not (tmp_path / "p").exists()


@pytest.mark.slow
def test_package_names_that_are_accepted(render_answers, tmp_path):
    assert [accepted("package_name", name) for name in GOOD_PACKAGES] == GOOD_PACKAGES
    for name in GOOD_PACKAGES[:4]:
        folder = render_answers(tmp_path / name, package_name=name)
        assert check_project(folder) == name, "YAML may misread it"


@pytest.mark.parametrize(
    ("folder", "package"),
    [
        ("Wide Nets!", "wide_nets"),
        ("2026-study", "study"),
        ("2026", "my_research"),
        ("日本語", "my_research"),
        ("torch", "torch_research"),
        ("Con", "con_research"),
        ("x", "x_research"),
        ("n" * 200, "my_project"),  # too long for a name, so the name is "my project"
    ],
)
def test_package_name_from_the_folder(render_answers, tmp_path, folder, package):
    rendered = render_answers(tmp_path / folder)
    assert check_project(rendered) == package


line = st.text(st.characters(codec="utf-8"), max_size=70)


@pytest.mark.release
@pytest.mark.slow
@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(name=line, description=line)
def test_names_and_descriptions_are_refused_by_name_or_read_back(
    render_answers, tmp_path_factory, name, description
):
    folder = tmp_path_factory.mktemp("any") / "p"
    try:
        render_answers(folder, project_name=name, description=description)
    except ValueError as error:
        refusal = str(error)
    else:
        refusal = None
        check_project(folder, project_name=name, description=description)
    if refusal is not None:
        assert re.search("The (project's name|description) (must|has|contains|begins)", refusal)
        assert not folder.exists()


@pytest.mark.slow
@hypothesis.settings(max_examples=300, deadline=None)
@hypothesis.given(st.text(max_size=60))
def test_any_name_of_a_project_gives_a_package_name_that_is_accepted(name):
    macros = environment().get_template("template/answers.jinja").module
    package = str(macros.package_from(name)).strip()
    assert accepted("package_name", package) == package
