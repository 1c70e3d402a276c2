"""A new project: every file can be read by its tool, whatever was answered."""

from __future__ import annotations

import ast
import json
import subprocess
import tomllib
from itertools import zip_longest
from pathlib import PurePath
from typing import Any

import yaml

from .changelog import names_path
from .projects import Files, Projects, described
from .questions import Questions
from .repository import ReleaseError
from .seeds import listed

MARK = b"Template's file: "  # in the first line of each of the template's files, which an update merges
HEAD_BYTES = 200


def answers_to_try(questions: Questions) -> list[dict[str, Any]]:
    """The defaults, each choice of every question (one of each at a time), and other texts."""
    choices = {name: questions.offered(name) for name in questions.asked if questions.offered(name)}
    rows = zip_longest(*choices.values())
    named = [dict(zip(choices, row, strict=True)) for row in rows]
    answered = [{name: choice for name, choice in row.items() if choice} for row in named]
    return [{}, *answered, questions.other_answers()]


def check_all(projects: Projects, questions: Questions) -> list[str]:
    """Renders the project of each set of answers and parses what it holds."""
    problems: list[str] = []
    for answers in answers_to_try(questions):
        try:
            files = projects.fresh(answers)
        except ReleaseError as error:
            problems.append(str(error))
            continue
        for path, content in files.items():
            if reason := unreadable(path, content):
                problem = f"{path} of a project with {described(answers)}: {reason}"
                if not any(path in earlier for earlier in problems):
                    problems.append(problem)
    return problems


def unreadable(path: str, content: bytes) -> str:
    """Why the tool of a file cannot read it; empty when it can."""
    try:
        match PurePath(path).suffix:
            case ".py":
                ast.parse(content)
            case ".toml":
                tomllib.loads(content.decode())
            case ".json":
                json.loads(content)
            case ".yaml" | ".yml" | ".cff":
                yaml.safe_load(content)
            case ".sh":
                return _shell_error(content)
    except (ValueError, SyntaxError, yaml.YAMLError) as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
    return ""


def _shell_error(content: bytes) -> str:
    done = subprocess.run(["bash", "-n"], input=content, capture_output=True)
    return done.stderr.decode(errors="replace").strip()


def is_template(content: bytes) -> bool:
    return MARK in content[:HEAD_BYTES]


def check_owners(before: Files, fresh: Files, questions: Questions, entry: str) -> list[str]:
    """Headers that were lost since the last release, and new paths that may be the user's already."""
    problems = [
        f"{path} has lost its first line, which says that it is the template's"
        for path, content in before.items()
        if is_template(content) and path in fresh and not is_template(fresh[path])
    ]
    for path in fresh:
        if path in before or listed(questions, path) or names_path(entry, path):
            continue
        problems.append(
            f"{path} is new, and users may have a file of this name. List it as a seed, or name it\n"
            "  in the changelog entry; better: let the library do what it does"
        )
    return problems
