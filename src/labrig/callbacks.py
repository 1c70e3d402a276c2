"""Callbacks that a configuration may name, next to all of lightning.pytorch.callbacks."""

from .sweep.pruning import Pruning
from .training.learning_rates import LearningRates
from .training.overfit import Overfit
from .training.pictures import Pictures

__all__ = ["LearningRates", "Overfit", "Pictures", "Pruning"]
