"""Callbacks that a configuration may name, next to all of lightning.pytorch.callbacks."""

from .sweep.pruning import Pruning
from .training.parts.overfit import Overfit
from .training.parts.schedule import LearningRates
from .training.pictures.pictures import Pictures

__all__ = ["LearningRates", "Overfit", "Pictures", "Pruning"]
