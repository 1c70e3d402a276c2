# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab bench --compare`: two trials, commits or edits in turns."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import Any

from .. import env
from ..config.trial_names import trial_names
from ..errors import LabError, nearest
from ..project import Project
from ..record.bundle import STORE
from ..record.frozen import unpack_code
from ..record.git import Git
from .run_bench import ROUNDS, bench_of


def compare_codes(project: Project, options: Any) -> tuple[dict, str, dict]:
    """Two trials or commits in turns, so that what else the machine does falls on both."""
    (a, b), rates = options.compare, {"A": [], "B": []}
    with tempfile.TemporaryDirectory(prefix="lab-bench-") as folder:
        sides = {"A": code_to_compare(project, a, options.overrides, Path(folder, "A"))}
        sides |= {"B": code_to_compare(project, b, options.overrides, Path(folder, "B"))}
        for name in "AB" * ROUNDS:
            given, place = sides[name]
            rates[name].append(bench_of(project, options, name, given, **place)["samples_per_s"])
    ratios = [x / y for x, y in zip(rates["A"], rates["B"], strict=True)]
    words = f"{b} takes {statistics.median(ratios):.3f} of the time per sample of {a}"
    words += f" ({min(ratios):.3f} to {max(ratios):.3f} in {ROUNDS} rounds in turns)"
    curves = {a: list(enumerate(rates["A"])), b: list(enumerate(rates["B"]))}
    return (
        {"samples_per_s": rates, "ratios": ratios},
        words,
        {"x": "round", "y": "samples/s", "curves": curves},
    )


def code_to_compare(
    project: Project, word: str, overrides: list[str], folder: Path
) -> tuple[list[str], dict[str, str]]:
    """Settings and environment of one side: a trial; a commit, whose code is written to `folder`; `.`, the code as it is."""
    known, git = trial_names(project), Git(project.root)
    if word.partition("/")[0] in known:
        return [*overrides, f"trial={word}"], {}
    found = git.run(
        "log", "-1", "--format=%H %T", "HEAD" if word == "." else word, "--"
    ).stdout.split()
    if not found or not any(override.startswith("trial=") for override in overrides):
        advice = f"no trial{nearest(word, known)} ({', '.join(known)}); for a commit, or . for the code as it is, add trial=NAME"
        raise LabError(f"--compare: {word!r} is {advice}")
    if word == ".":
        return overrides, {}
    commit, tree = found
    code = {"commit": commit, "tree": tree, "head": commit, "dirty": False, "remote": None}
    code["prefix"] = git("rev-parse", "--show-prefix")
    unpack_code(code, project.root, project.paths["runs"] / STORE, folder)
    return overrides, env.frozen_environment(folder, code["prefix"], project.root, commit)
