"""Seeds: files that are written once are listed twice, and tombstones cover nothing that lives."""

from __future__ import annotations

from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import SandboxedEnvironment
from pathspec import PathSpec

from .questions import Questions
from .repository import ReleaseError


def seeds_of(questions: Questions) -> list[str]:
    return [str(pattern) for pattern in questions.settings.get("_skip_if_exists") or []]


def kept_from_updates(questions: Questions) -> list[str]:
    """The patterns of _exclude that hold at updates only: seeds and tombstones."""
    entries = questions.settings.get("_exclude") or []
    at_copy = [line for entry in entries for line in _lines(entry, "copy")]
    at_update = [line for entry in entries for line in _lines(entry, "update")]
    return [line for line in at_update if line not in at_copy]


def _lines(entry: str, operation: str) -> list[str]:
    try:
        text = (
            SandboxedEnvironment(undefined=StrictUndefined)
            .from_string(entry)
            .render(_copier_operation=operation)
        )
    except TemplateError as error:
        raise ReleaseError(
            f"an entry of _exclude fails ({error}); it may use _copier_operation, no answers"
        ) from None
    return [line.strip() for line in text.splitlines() if line.strip()]


def matches(patterns: list[str], path: str) -> bool:
    return PathSpec.from_lines("gitignore", patterns).match_file(path)


def check_lists(new: Questions) -> list[str]:
    """The two lists name the same seeds."""
    seeds = seeds_of(new)
    kept = kept_from_updates(new)
    return [
        f"the seed {seed} is not in the update-time block of _exclude; list it there too"
        for seed in seeds
        if seed not in kept
    ]


def check_paths(new: Questions, old: Questions, rendered: set[str]) -> list[str]:
    """Against the paths that a new project gets: no seed is taken back, nothing alive is kept away."""
    seeds = seeds_of(new)
    problems = []
    for pattern in kept_from_updates(new):
        if pattern not in seeds:
            living = sorted(path for path in rendered if matches([pattern], path))
            if living:
                problems.append(
                    f"_exclude keeps {pattern} from updates, but the template writes {living[0]}.\n"
                    "  For a seed, list it in _skip_if_exists too; else take it out"
                )
    taken_back = [
        path for path in rendered if matches(seeds_of(old), path) and not matches(seeds, path)
    ]
    return problems + [
        f"{path} was a seed in {old.ref}, so it is the user's for ever; list it twice again"
        for path in sorted(taken_back)
    ]


def listed(new: Questions, path: str) -> bool:
    """Whether a path is a seed."""
    return matches(seeds_of(new), path)
