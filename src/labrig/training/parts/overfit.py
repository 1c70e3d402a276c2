"""The callback of +debug=overfit: every step sees the first batch."""

from __future__ import annotations

from typing import Any

from .around_step import AroundStep, Step


class Overfit(AroundStep):
    """Gives `training_step` the first batch of the training in place of each batch."""

    def around(self, step: Step) -> Step:
        first: list[Any] = []

        def step_on_first(batch: Any, *arguments: Any) -> Any:
            first[:] = first or [batch]
            return step(first[0], *arguments)

        return step_on_first
