"""The samplers: how the next point of a sweep is chosen."""

from __future__ import annotations

import warnings

from optuna import samplers
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler

from ..errors import require_package
from .definition import SweepDefinition

NEEDS = {"cmaes": ["cmaes"], "gp": ["scipy", "torch"]}  # packages, next to optuna


def sampler_of(definition: SweepDefinition) -> BaseSampler:
    """The sampler of a sweep."""
    name = definition.sampler
    for package in NEEDS.get(name, []):
        require_package(package, f"sweep.sampler={name}")
    warnings.simplefilter("ignore", ExperimentalWarning)
    if name == "tpe":
        # Without it, workers that ask at the same time get points next to each other.
        return samplers.TPESampler(constant_liar=True)
    if name == "gp":
        return samplers.GPSampler()
    if name == "cmaes":
        return samplers.CmaEsSampler()
    if name == "nsga2":
        return samplers.NSGAIISampler()
    # The points of a grid are all known, and wait in the journal.
    return samplers.RandomSampler()
