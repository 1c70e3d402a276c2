"""`lab bench --compare`: two trials, commits or edits in turns."""

from __future__ import annotations

import statistics
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from .. import env
from ..config.trial_names import trial_names
from ..errors import LabError, nearest
from ..project import Project
from ..record.files.schema import Code
from ..record.freeze.bundle import STORE
from ..record.freeze.frozen import unpack_code, with_library
from ..record.freeze.git import Git
from .plot import Picture
from .report import BenchReport
from .run_bench import BenchRunner

ROUNDS = 3


@dataclass(frozen=True)
class ComparedCode:
    """How one of the two is benched."""

    overrides: list[str]
    environment: dict[str, str] = field(default_factory=dict)


def compare_codes(runner: BenchRunner, overrides: list[str], a: str, b: str) -> BenchReport:
    """Measures `a` and `b` in turns, so that other work of the machine slows both.

    Args:
        a, b: each a trial, a commit, or . for the code as it is.
    """
    rates: dict[str, list[float]] = {"A": [], "B": []}
    with tempfile.TemporaryDirectory(prefix="lab-bench-") as folder:
        codes = {
            "A": code_to_compare(runner.project, a, overrides, Path(folder, "A")),
            "B": code_to_compare(runner.project, b, overrides, Path(folder, "B")),
        }
        for _ in range(ROUNDS):
            for name, code in codes.items():
                bench = runner.run(name, code.overrides, code.environment)
                rates[name].append(bench.measured.samples_per_s)
    ratios = [rate_a / rate_b for rate_a, rate_b in zip(rates["A"], rates["B"], strict=True)]
    text = (
        f"{b} takes {statistics.median(ratios):.3f} of the time per sample of {a} "
        f"({min(ratios):.3f} to {max(ratios):.3f} in {ROUNDS} rounds in turns)"
    )
    curves = {a: list(enumerate(rates["A"])), b: list(enumerate(rates["B"]))}
    return BenchReport(
        content={"samples_per_s": rates, "ratios": ratios},
        text=text,
        picture=Picture("round", "samples/s", curves),
    )


def code_to_compare(
    project: Project, name: str, overrides: list[str], folder: Path
) -> ComparedCode:
    """Settings and environment with which `name` is benched.

    Args:
        name: a trial, a commit, or . for the code as it is.
        folder: the code of a commit is written here.
    """
    names = trial_names(project)
    if name.partition("/")[0] in names:
        return ComparedCode([*overrides, f"trial={name}"])
    git = Git(project.root)
    revision = "HEAD" if name == "." else name
    hashes = git.run(
        "log", "-1", "--format=%H %T", "--end-of-options", revision, "--"
    ).stdout.split()
    has_trial = any(override.startswith("trial=") for override in overrides)
    if not hashes or not has_trial:
        raise LabError(
            f"--compare: {name!r} is no trial{nearest(name, names)} "
            f"({', '.join(names)}); for a commit, or . for the code as it is, add trial=NAME"
        )
    if name == ".":
        return ComparedCode(overrides)
    commit, tree = hashes
    prefix = git("rev-parse", "--show-prefix")
    code: Code = {
        "commit": commit,
        "tree": tree,
        "head": commit,
        "dirty": False,
        "remote": None,
        "prefix": prefix,
    }
    store = project.paths.runs / STORE
    unpack_code(with_library(code, store), project.root, store, folder)
    return ComparedCode(overrides, env.frozen_environment(folder, prefix, project.root, commit))
