"""The samplers: how the next point of a sweep is chosen."""

from __future__ import annotations

from optuna import samplers
from optuna.samplers import BaseSampler

from .definition import SweepDefinition

MOST_RANDOM = 10  # points that tpe and gp draw at random first, as in Optuna
LARGEST_POPULATION = 50  # of nsga2, as in Optuna


def sampler_of(definition: SweepDefinition, n_points: int) -> BaseSampler:
    """A new sampler of a sweep.

    Args:
        n_points: of the sweep. At most a quarter of them is drawn at random.
    """
    name = definition.sampler
    quarter = max(1, n_points // 4)
    n_random = min(MOST_RANDOM, quarter)
    if name == "tpe":
        # Without it, workers that ask at the same time get points next to each other.
        return samplers.TPESampler(constant_liar=True, n_startup_trials=n_random)
    if name == "gp":
        return samplers.GPSampler(n_startup_trials=n_random)
    if name == "cmaes":
        return samplers.CmaEsSampler()
    if name == "nsga2":
        return samplers.NSGAIISampler(
            population_size=max(2, min(LARGEST_POPULATION, quarter)),
            # Of each setting; as Optuna has it, but that one alone would always be drawn at random.
            mutation_prob=1 / max(2, len(definition.space)),
        )
    # The points of a grid are all known, and wait in the journal.
    return samplers.RandomSampler()
