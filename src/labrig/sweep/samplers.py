"""The samplers: how the next point of a sweep is chosen."""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable
from typing import Any

from optuna import Study, samplers
from optuna.distributions import BaseDistribution, FloatDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler, RandomSampler
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from ..errors import require_package
from .definition import SweepDefinition

# Nelder and Mead's simplex as a sampler, for several workers that ask and tell in any order.
#
# Nothing is remembered between two questions. The search is played again from the points that are
# told already, up to the first one that is missing; the journal is its only state. Points that may
# be needed next are asked at the same time: all corners of a new simplex, or the four places to
# which a corner may move. When none is left, a worker gets a random point.
#
# J. A. Nelder and R. Mead, A simplex method for function minimization, Computer Journal 7 (1965).

Corner = tuple[float, ...]  # a place in the unit cube
Params = tuple[Any, ...]  # the values of all settings, in the order of the space
ValueOf = Callable[[Corner], Any]  # a number, or None for a corner that is not measured yet
Missing = list[Corner]  # places whose values the search needs next, the most needed one first

EDGE = 0.25  # of the first simplex, as a share of each setting's range
SMALLEST = 1e-3  # edge of a simplex that has converged
MAX_RESTARTS = 50
MAX_MOVES = 10_000  # of one simplex


class NelderMeadSampler(BaseSampler):
    """Proposes the points that Nelder and Mead's search needs next.

    Args:
        space: distributions of numbers, by parameter.
    """

    def __init__(self, space: dict[str, BaseDistribution]) -> None:
        self.space = space
        self.random = RandomSampler()

    def reseed_rng(self) -> None:
        self.random.reseed_rng()

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        return self.space

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        values, pending = self.history(study, trial)
        missing = next_corners(len(self.space), lambda corner: values.get(self.params(corner)))
        free = [self.params(corner) for corner in missing if self.params(corner) not in pending]
        return dict(zip(self.space, free[0], strict=True)) if free else {}

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        return self.random.sample_independent(study, trial, param_name, param_distribution)

    def params(self, corner: Corner) -> Params:
        """The values of the settings at a place in the unit cube."""
        return tuple(map(from_unit, self.space.values(), corner))

    def history(self, study: Study, trial: FrozenTrial) -> tuple[dict[Params, float], set[Params]]:
        """The value to minimize of each point that was told, and the points that others work on."""
        sign = -1 if study.direction == StudyDirection.MAXIMIZE else 1
        values, failed, pending = {}, {}, set()
        for other in study.get_trials(deepcopy=False):
            params = tuple(other.params.get(name) for name in self.space)
            if other.number == trial.number:
                continue
            if other.value is not None:
                values[params] = sign * other.value
            elif other.state == TrialState.FAIL:
                failed[params] = math.inf
            else:
                fixed = other.system_attrs.get("fixed_params", other.params)
                pending.add(tuple(fixed.get(name) for name in self.space))
        failed = {params: value for params, value in failed.items() if params not in pending}
        return failed | values, pending


def from_unit(distribution: BaseDistribution, share: float) -> int | float:
    """The number at a share (0 to 1) of a distribution's range."""
    low, high = distribution.low, distribution.high
    if distribution.log:
        number = math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
    else:
        number = low + share * (high - low)
    number = min(max(number, low), high)
    if distribution.step is None:
        return number
    n_steps = round((number - low) / distribution.step)
    if isinstance(distribution, FloatDistribution):
        return float(f"{low + n_steps * distribution.step:.12g}")
    return low + n_steps * distribution.step


def next_corners(n: int, value_of: ValueOf) -> Missing:
    """Plays the search again, and returns the corners whose values are missing then.

    Args:
        n: number of settings.
        value_of: the value of a corner; None when it is not known yet.

    Returns:
        None of them when even the last restart has converged.
    """
    for restart in range(MAX_RESTARTS):
        missing = search(first_simplex(n, restart), value_of)
        if missing:
            return missing
    return []


def first_simplex(n: int, restart: int) -> list[Corner]:
    """A corner in the middle, or after a restart anywhere, and one next to it for each setting."""
    numbers = random.Random(restart)
    middle = tuple(0.5 if restart == 0 else numbers.random() for _ in range(n))
    corners = [middle]
    for i in range(n):
        step = EDGE if middle[i] + EDGE <= 1 else -EDGE
        corners.append(tuple(x + step if j == i else x for j, x in enumerate(middle)))
    return corners


def search(simplex: list[Corner], value_of: ValueOf) -> Missing:
    """The missing corners of one search; none when it has converged."""
    for _ in range(MAX_MOVES):
        missing = [corner for corner in simplex if value_of(corner) is None]
        if missing:
            return missing
        if edge_of(simplex) < SMALLEST:
            return []
        simplex = sorted(simplex, key=value_of)
        moved = move(simplex, value_of)
        if isinstance(moved, list):
            return moved
        simplex = shrunk(simplex) if moved is None else [*simplex[:-1], moved]
    return []


def move(simplex: list[Corner], value_of: ValueOf) -> Corner | Missing | None:
    """Where the worst corner of a sorted simplex goes.

    Returns:
        The new corner; None when the simplex must shrink; or the missing corners as a list.
    """
    worst = simplex[-1]
    reflected, expanded, outside, inside = (
        along(simplex, share) for share in (1.0, 2.0, 0.5, -0.5)
    )
    value = value_of(reflected)
    if value is None:
        candidates = (reflected, expanded, outside, inside)
        return [corner for corner in candidates if value_of(corner) is None]
    if value < value_of(simplex[0]):
        if value_of(expanded) is None:
            return [expanded]
        return expanded if value_of(expanded) < value else reflected
    if value < value_of(simplex[-2]):
        return reflected
    contracted = outside if value < value_of(worst) else inside
    if value_of(contracted) is None:
        return [contracted]
    return contracted if value_of(contracted) < min(value, value_of(worst)) else None


def along(simplex: list[Corner], share: float) -> Corner:
    """The place beyond the middle of the other corners, seen from the worst one."""
    others = simplex[:-1]
    place = []
    for i, x in enumerate(simplex[-1]):
        middle = sum(corner[i] for corner in others) / len(others)
        place.append(min(max(middle + share * (middle - x), 0.0), 1.0))
    return tuple(place)


def shrunk(simplex: list[Corner]) -> list[Corner]:
    """All corners half way to the best one."""
    best = simplex[0]
    return [tuple((x + y) / 2 for x, y in zip(corner, best, strict=True)) for corner in simplex]


def edge_of(simplex: list[Corner]) -> float:
    """The largest extent of a simplex along one setting."""
    return max(max(column) - min(column) for column in zip(*simplex, strict=True))


NEEDS = {"cmaes": ["cmaes"], "gp": ["scipy", "torch"]}  # packages, next to optuna


def sampler_of(definition: SweepDefinition) -> BaseSampler:
    """The sampler of a sweep.

    Raises:
        LabError: a package that it needs is not installed.
    """
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
    if name == "neldermead":
        return NelderMeadSampler({each.name: each.distribution for each in definition.settings})
    # The points of a grid are all known, and wait in the journal.
    return samplers.RandomSampler()
