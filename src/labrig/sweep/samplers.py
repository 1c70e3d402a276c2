"""The samplers: how the next point of a sweep is chosen."""

from __future__ import annotations

import warnings
from importlib.util import find_spec

from optuna import samplers
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler

from ..errors import LabError
from .definition import Definition
from .nelder_mead import NelderMeadSampler

NEEDS = {"cmaes": ["cmaes"], "gp": ["scipy", "torch"]}  # packages, next to optuna


def sampler_of(definition: Definition) -> BaseSampler:
    """The sampler of a sweep.

    Raises:
        LabError: a package that it needs is not installed.
    """
    name = definition.sampler
    for package in NEEDS.get(name, []):
        if find_spec(package) is None:
            raise LabError(
                f"sweep.sampler={name} needs the package {package}: make add PACKAGE={package}"
            )
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
    if name == "neldermead":
        return NelderMeadSampler({each.name: each.distribution for each in definition.settings})
    # The points of a grid are all known, and wait in the journal.
    return samplers.RandomSampler()
