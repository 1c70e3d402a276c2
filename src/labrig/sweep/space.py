"""The space that a sweep searches: settings in Hydra's sweep syntax, as Optuna's distributions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hydra.core.override_parser.types import IntervalSweep, Override
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import Trial

from ..config.check_typed import plain_value
from ..config.overrides import parse_overrides
from ..errors import LabError
from ..record.read.settings import as_text

SYNTAX = (
    "Write a,b,c or choice(a,b,c), range(1,10), interval(0,1), int(interval(1,9)),\n"
    "or with a logarithmic scale tag(log,interval(1e-5,1e-1))"
)


@dataclass(frozen=True)
class Setting:
    """One setting that a sweep changes.

    Attributes:
        key: as in an override, with the + of a new key.
        text: its values as typed.
        distribution: the same for Optuna. The choices of a list are texts in Hydra's grammar.
        values: what the texts of a list mean; empty for numbers of a range.
    """

    key: str
    text: str
    distribution: BaseDistribution
    values: tuple[Any, ...] = ()

    @property
    def name(self) -> str:
        """The dotted key in a configuration, and the parameter's name in Optuna."""
        return self.key.lstrip("+")

    @property
    def is_list(self) -> bool:
        return isinstance(self.distribution, CategoricalDistribution)

    @property
    def is_discrete(self) -> bool:
        """Whether its values can be counted: a list, or a range with steps."""
        return self.is_list or "interval(" not in self.text

    def override(self, value: Any) -> str:
        """The override that sets one value."""
        return f"{self.key}={value}"

    def suggest(self, trial: Trial) -> Any:
        """The value of this setting for a point, chosen by the sampler."""
        distribution = self.distribution
        if isinstance(distribution, CategoricalDistribution):
            return trial.suggest_categorical(self.name, distribution.choices)
        limits = {"log": distribution.log, "step": distribution.step}
        if isinstance(distribution, IntDistribution):
            return trial.suggest_int(self.name, distribution.low, distribution.high, **limits)
        return trial.suggest_float(self.name, distribution.low, distribution.high, **limits)

    def grid_values(self) -> list[Any]:
        """Every value, in order; of a list or a range."""
        distribution = self.distribution
        if isinstance(distribution, CategoricalDistribution):
            return list(distribution.choices)
        n_steps = round((distribution.high - distribution.low) / distribution.step)
        return [value_at(distribution, n) for n in range(n_steps + 1)]

    def parameter_of(self, value: Any) -> Any:
        """The parameter that means `value` of a recorded configuration."""
        if self.is_list:
            return self.distribution.choices[self.values.index(value)]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{value!r} is no number")
        if not self.distribution.low <= value <= self.distribution.high:
            raise ValueError(f"{value!r} is outside of {self.text}")
        return value


def value_at(distribution: BaseDistribution, n: int) -> int | float:
    """The n-th value of a range, without the noise of adding decimal fractions."""
    if isinstance(distribution, IntDistribution):
        return distribution.low + n * distribution.step
    return float(f"{distribution.low + n * distribution.step:.12g}")


def parse_setting(argument: str) -> Setting:
    """A setting of the space, such as optimizer.lr=tag(log,interval(1e-5,1e-1))."""
    (override,) = parse_overrides([argument], one_run=False)
    if not override.is_sweep_override():
        raise LabError(f"{argument!r} has one value, so there is nothing to search.\n{SYNTAX}")
    key, text = override.get_key_element(), override.get_value_string()
    if text.startswith("glob("):
        raise LabError(f"{argument!r}: a sweep takes no glob().\n{SYNTAX}")
    if override.is_choice_sweep():
        return list_of(override, key, text)
    sweep: Any = override.value()
    log = "log" in sweep.tags
    try:
        if isinstance(sweep, IntervalSweep):
            return Setting(key, text, interval(sweep, log))
        values: Any = override.sweep_iterator()
        numbers = sorted(values)
        return Setting(key, text, steps(numbers, abs(sweep.step), log))
    except ValueError as error:
        reason = str(error).rstrip(".")
        raise LabError(f"{argument!r} cannot be searched: {reason}.\n{SYNTAX}") from error


def list_of(override: Override, key: str, text: str) -> Setting:
    """A setting with a list of values. Of equal ones, such as 1e-3 and 0.001, the first counts."""
    words = list(override.sweep_string_iterator())
    parsed = parse_overrides([f"{key}={word}" for word in words])
    values: dict[str, Any] = {}  # by what equal ones share
    texts: dict[str, str] = {}
    for word, each in zip(words, parsed, strict=True):
        value = plain_value(each.value())
        values.setdefault(as_text(value), value)
        texts.setdefault(as_text(value), word)
    if len(texts) < len(words):
        text = f"choice({','.join(texts.values())})"
    return Setting(key, text, CategoricalDistribution(list(texts.values())), tuple(values.values()))


def interval(sweep: IntervalSweep, log: bool) -> BaseDistribution:
    """Any number between two; whole numbers after int(...)."""
    start, end = sweep.start, sweep.end
    assert start is not None
    assert end is not None
    if isinstance(start, int) and isinstance(end, int):
        return IntDistribution(start, end, log=log)
    return FloatDistribution(float(start), float(end), log=log)


def steps(numbers: list[Any], step: float, log: bool) -> BaseDistribution:
    """The numbers of a range."""
    if not numbers:
        raise ValueError("the range is empty")
    if all(isinstance(number, int) for number in numbers):
        return IntDistribution(numbers[0], numbers[-1], log=log, step=int(step))
    return FloatDistribution(numbers[0], numbers[-1], log=log, step=step)
