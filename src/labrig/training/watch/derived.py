"""Metrics that are no means, computed from means at the end: a perplexity is exp(loss)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import CodeType

import numpy as np

from ...errors import Failed, Refused

FUNCTIONS = {"exp": np.exp, "log": np.log, "sqrt": np.sqrt}


class Derived:
    """The metrics of `log.derived`.

    Args:
        formulas: {"rmse": "sqrt(mse)"}, in Python's notation, of names that a step returns.

    Raises:
        Refused: a formula cannot be read.
    """

    def __init__(self, formulas: Mapping[str, str]) -> None:
        self.codes = {name: compiled(name, text) for name, text in formulas.items()}

    def added_to(
        self, means: dict[str, float], prefix: str, loaders: Sequence[str]
    ) -> dict[str, float]:
        """The means, as <prefix>/<name><loader>, and what can be derived from those of each loader.

        Args:
            loaders: what the names of each loader end with; "" where there is one.

        Raises:
            Failed: a step returns a metric of that name itself.
        """
        metrics = dict(means)
        for loader in loaders:
            for name, code in self.codes.items():
                if f"{prefix}/{name}{loader}" in means:
                    raise Failed(
                        f"log.derived.{name}: a step returns {name} too, and only one of both can be "
                        f"{prefix}/{name}. Choose another name"
                    )
                sources = {source: f"{prefix}/{source}{loader}" for source in sources_of(code)}
                if sources and all(key in means for key in sources.values()):
                    values = {source: np.float64(means[key]) for source, key in sources.items()}
                    metrics[f"{prefix}/{name}{loader}"] = value_of(code, values)
        return metrics


def compiled(name: str, text: str) -> CodeType:
    try:
        code = compile(text, f"log.derived.{name}", "eval")
        value_of(code, dict.fromkeys(sources_of(code), np.float64(1)))
    except Exception as error:  # whatever Python raises for it
        raise Refused(
            f"log.derived.{name}={text!r} is no formula: {error}. Write it in Python's notation, "
            f"with {', '.join(FUNCTIONS)} and names that a step returns, such as exp(loss)."
        ) from error
    return code


def sources_of(code: CodeType) -> list[str]:
    """The metrics that a formula is made of."""
    return [name for name in code.co_names if name not in FUNCTIONS]


def value_of(code: CodeType, values: Mapping[str, np.float64]) -> float:
    """NaN or infinite where Python would raise an error: a training ends at its loss."""
    with np.errstate(all="ignore"):
        return float(eval(code, {"__builtins__": {}} | FUNCTIONS, values))
