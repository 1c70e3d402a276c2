"""Copies of the template, and projects rendered from them: the fixtures of tests/template and tests/update."""

import re
import shutil
from pathlib import Path

import copier
import pytest
import yaml
from projects import ROOT
from repositories import commit, git

COPIER = yaml.safe_load((ROOT / "copier.yml").read_text(encoding="utf-8"))
QUESTIONS = {  # that are asked
    name: question
    for name, question in COPIER.items()
    if not name.startswith("_") and "when" not in question
}
JOB_PARTS = "src/labrig/cluster/job"  # which jobs/*.sh.jinja is made of
LIBRARY = (
    "src",
    "docs",
    "mkdocs.yml",
    "pyproject.toml",
    "README.md",
    "LICENSE",
)  # what pip builds labrig from
SMALL_LIBRARY = {  # in place of labrig, whose wheel takes seconds
    "pyproject.toml": """\
[project]
name = "labrig"
version = "0.1.0"
[project.optional-dependencies]
train = []
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[tool.hatch.build.targets.wheel]
packages = ["src/labrig"]
""",
    "src/labrig/__init__.py": "STATE = 'of the pin'\n",
}
IGNORED = shutil.ignore_patterns("__pycache__", ".*_cache")
# What a rendering has of the place of the template: the pin, the address and the release
VOLATILE = {
    "pyproject.toml": [
        (
            r'"labrig\[train\][^"]*"',
            f'"labrig[train] @ git+https://forge.example/template.git@{"0" * 40}"',
        ),
        (r'(?m)^template = ".*"$', 'template = "0.1.0"'),
    ],
    ".copier-answers.yml": [
        (r"(?m)^_commit: .*\n", ""),
        (
            r"(?m)^_src_path: .*$",
            "_commit: 0.1.0\n_src_path: https://forge.example/template.git",
        ),
    ],
}


def copy_template(folder, library=False):
    """The template as it lies here, uncommitted edits too, outside git.

    Args:
        library: with the files of labrig, which a project of it then installs.
    """
    folder.mkdir(parents=True)
    for name in ("copier.yml", "template", *(LIBRARY if library else [JOB_PARTS])):
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, place, ignore=IGNORED)
        else:
            shutil.copy(ROOT / name, place)
    return folder


def release(folder, tag):
    """Commits everything in a copy of the template, with a tag."""
    commit(folder, tag)
    git(folder, "tag", tag)


def render_template(template, folder, *, vcs_ref=None, **answers):
    """A project as a user makes it: no trust, else defaults."""
    assert set(answers) <= set(QUESTIONS), "copier ignores answers to questions that do not exist"
    copier.run_copy(
        str(template),
        folder,
        data=answers,
        vcs_ref=vcs_ref,
        defaults=True,
        unsafe=False,
        quiet=True,
    )
    return Path(folder)


def without_place(name, content):
    """A rendered file as tests/project has it: wherever the template lies, and whatever its release."""
    for pattern, fixed in VOLATILE.get(name, []):
        content = re.sub(pattern, lambda match, fixed=fixed: fixed, content.decode()).encode()
    return content


@pytest.fixture(scope="session")
def template(tmp_path_factory):
    """The template as it lies here, as the release 0.1.0. Shared: render it, do not change it."""
    folder = copy_template(tmp_path_factory.mktemp("template") / "template")
    release(folder, "0.1.0")
    return folder


@pytest.fixture(scope="session")
def render(template):
    """render(folder, **answers): a project as a user makes it: no trust, else defaults."""
    return lambda folder, **answers: render_template(template, folder, **answers)


@pytest.fixture(scope="session")
def render_answers(tmp_path_factory):
    """The same without git, and only the files that answers are written into: in half of the time."""
    small = copy_template(tmp_path_factory.mktemp("answers") / "template")
    for path in (small / "template").rglob("*"):
        if path.is_file() and path.suffix != ".jinja":
            path.unlink()
    return lambda folder, **answers: render_template(small, folder, **answers)
