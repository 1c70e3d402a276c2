"""What a sweep searches: settings in Hydra's sweep syntax and the section `sweep`, as Optuna's distributions."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass
from functools import cached_property
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
from ..config.compose import Composition, check_packages, compose
from ..config.overrides import parse_overrides
from ..config.resolve import plain_values
from ..config.setting import read_section
from ..errors import LabError, require_package
from ..machine.text_formats import counted
from ..project import Project
from ..record.files.schema import Code
from ..record.freeze.frozen_files import is_readme
from ..record.freeze.git import Git
from ..record.read.ranking import DEFAULT_METRIC, require_mode, split_mode
from ..record.read.settings import as_text
from .sections import SweepSettings

DIRECTIONS = {"min": "minimize", "max": "maximize"}
# Sections that say where and how long a sweep runs, not what it searches
PLACE = ("sweep", "job", "site", "paths")
NEEDS = {"cmaes": ["cmaes"], "gp": ["scipy", "torch"]}  # packages of a sampler, next to optuna
FEWEST_GENERATIONS = 3  # of cmaes: the first is drawn at random
MAX_CHECKED = 20  # values of a list that are composed before the start
SYNTAX = (
    "Write a,b,c or choice(a,b,c), range(1,10), interval(0,1), int(interval(1,9)),\n"
    "or with a logarithmic scale tag(log,interval(1e-5,1e-1))"
)


@dataclass(frozen=True)
class SweepDefinition:
    """What makes two sweeps the same.

    Attributes:
        overrides: the settings that all points have.
        space: the settings that differ, each as KEY=VALUES in Hydra's sweep syntax.
        metrics: one, or two for nsga2.
        directions: of each metric, minimize or maximize.
        sampler, pruner: as in SweepSettings.
    """

    trial: str
    overrides: list[str]
    space: list[str]
    metrics: list[str]
    directions: list[str]
    sampler: str
    pruner: str | None

    @property
    def searches_data(self) -> bool:
        """Whether its points read other data by their settings."""
        return any(setting.name.partition(".")[0] == "data" for setting in self.settings)

    @cached_property
    def settings(self) -> list[Setting]:
        return [parse_setting(line) for line in self.space]

    def sweep_id(self, code_hash: str, data_sha256: str | None = None) -> str:
        """TRIAL-HASH: the same for the same search with the same code and data."""
        identity = asdict(self)
        identity["overrides"] = sorted(line for line in self.overrides if not is_place(line))
        identity["space"] = sorted(self.space)
        of_data = [data_sha256] if data_sha256 else []
        text = json.dumps([identity, code_hash, *of_data], sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()
        return f"{self.trial.replace('/', '+')}-{digest[:8]}"


def is_place(line: str) -> bool:
    """Whether an override says where or for how long something runs."""
    return line.lstrip("+~").replace("=", ".").partition(".")[0] in PLACE


def define_sweep(project: Project, arguments: list[str]) -> tuple[SweepDefinition, Composition]:
    """The sweep of a command line, and the composed configuration that its points share."""
    typed = parse_overrides(arguments, one_run=False)
    searched, fixed = [], []
    for line, override in zip(arguments, typed, strict=True):
        (searched if override.is_sweep_override() else fixed).append(line)
    base = compose(project, fixed)
    check_packages(base.config)
    section = read_section(SweepSettings, plain_values(base.config.sweep), "sweep.")
    settings = space_of(section.space, searched, fixed)
    monitor = base.config.checkpoint.monitor or DEFAULT_METRIC
    typed = [split_mode(text) for text in as_list(section.metric) or [monitor]]
    metrics = [metric for metric, _ in typed]
    definition = SweepDefinition(
        trial=base.trial,
        overrides=[line for line in fixed if not line.lstrip("+").startswith("sweep.")],
        space=[f"{setting.key}={setting.text}" for setting in settings],
        metrics=metrics,
        directions=directions_of(typed, as_list(section.direction), base),
        sampler=section.sampler or usual_sampler(settings, metrics),
        pruner=section.pruner,
    )
    check_definition(definition, section.points)
    for line in lines_to_check(settings):
        compose(project, [*definition.overrides, line])
    return definition, base


def space_of(written: list[str], searched: list[str], fixed: list[str]) -> list[Setting]:
    """The settings of a sweep: those that the configuration names, and those that were typed.

    Args:
        written: `sweep.space`.
        searched: typed settings with several values; they win over `written`.
        fixed: typed settings with one value, which are not searched.
    """
    typed_keys = {line.partition("=")[0] for line in fixed}
    lines = [line for line in written if line.partition("=")[0].lstrip("+") not in typed_keys]
    settings = {setting.name: setting for setting in map(parse_setting, [*lines, *searched])}
    if not settings:
        raise LabError(
            f"nothing to search: no setting has several values.\n{SYNTAX}.\n"
            "For example: lab sweep trial=baseline 'optimizer.lr=interval(1e-4,1e-2)'"
        )
    if "trial" in settings:
        raise LabError("one sweep searches in one trial. For several: lab submit trial=a,b")
    return list(settings.values())


def as_list(value: Any) -> list[Any]:
    """A value, several or none, as a list."""
    if value is None:
        return []
    return [value] if isinstance(value, str) else list(value)


def directions_of(
    typed: list[tuple[str, str | None]], written: list[str], base: Composition
) -> list[str]:
    """Whether each metric is minimized or maximized: as written, else as `known_mode` says.

    Args:
        typed: `sweep.metric`, of which `val/fid:min` says it too.
        written: `sweep.direction`.
    """
    directions = written
    if not written:
        settings = [plain_values(base.config)]
        modes = [
            mode or require_mode(metric, settings, f"sweep.metric={metric}:max")
            for metric, mode in typed
        ]
        directions = [DIRECTIONS[mode] for mode in modes]
    elif any(mode for _, mode in typed):
        raise LabError(
            "sweep.metric says which values are better, and so does sweep.direction; write one"
        )
    if len(directions) != len(typed) or set(directions) - {"minimize", "maximize"}:
        raise LabError(
            f"sweep.direction={written} for {counted(len(typed), 'metric')}; "
            "write minimize or maximize for each"
        )
    return directions


def usual_sampler(settings: list[Setting], metrics: list[str]) -> str:
    """nsga2 for two metrics, grid for lists and ranges, tpe where there is an interval."""
    if len(metrics) > 1:
        return "nsga2"
    return "grid" if all(setting.is_discrete for setting in settings) else "tpe"


def check_definition(definition: SweepDefinition, n_points: int) -> None:
    """Makes sure that the sampler and the pruner fit the space, the metrics and the points."""
    sampler, n_metrics = definition.sampler, len(definition.metrics)
    for package in NEEDS.get(sampler, []):
        require_package(package, f"sweep.sampler={sampler}")
    if n_metrics > 1 and sampler == "cmaes":
        raise LabError(f"sweep.sampler={sampler} takes one metric. For two: sweep.sampler=nsga2")
    if n_metrics > 1 and definition.pruner:
        raise LabError("points can be pruned by one metric only. For two: sweep.pruner=null")
    lists = [setting.name for setting in definition.settings if setting.is_list]
    if sampler == "cmaes" and lists:
        raise LabError(
            f"sweep.sampler={sampler} searches numbers, but {lists[0]} is a list. "
            "Write interval(low,high), or take sweep.sampler=tpe"
        )
    if sampler == "cmaes" and len(definition.space) < 2:
        raise LabError("sweep.sampler=cmaes needs two settings at least. For one: sweep.sampler=gp")
    generation = 4 + math.floor(3 * math.log(len(definition.space)))  # points, as CMA-ES has it
    if sampler == "cmaes" and n_points < FEWEST_GENERATIONS * generation:
        raise LabError(
            f"sweep.points={n_points}: cmaes learns after each {generation} points. Write at least "
            f"sweep.points={FEWEST_GENERATIONS * generation}, or take sweep.sampler=tpe"
        )
    intervals = [setting.name for setting in definition.settings if not setting.is_discrete]
    if sampler == "grid" and intervals:
        raise LabError(
            f"sweep.sampler=grid needs lists, but {intervals[0]} is an interval. "
            "Write a,b,c or range(low,high,step), or take sweep.sampler=tpe"
        )


def lines_to_check(settings: list[Setting]) -> list[str]:
    """Overrides that show every mistake in the space: the choices of lists, the ends of ranges."""
    lines = []
    for setting in settings:
        ends = [] if setting.is_list else [setting.distribution.low, setting.distribution.high]
        values = setting.distribution.choices[:MAX_CHECKED] if setting.is_list else ends
        lines += [setting.override(value) for value in values]
    return lines


def hash_of_code(project: Project, code: Code, trial: str) -> str:
    """A hash of the code that the points of a trial run: the package without the other trials, and
    without conf/data, into which `lab` writes too.

    It is "" where git cannot record the code. READMEs do not count.
    """
    if not code.get("commit"):
        return ""
    package = f"{code['prefix']}src/{project.package}"
    own_trial = f"{package}/trials/{trial.partition('/')[0]}/"
    tree = ("ls-tree", "-r", "-z", "--full-tree", code["commit"], "--", package)
    code_lines = []
    for line in Git(project.root).paths(*tree):
        path = line.partition("\t")[2]
        # trials/common.py is of all trials; trials/other/model.py of that one alone.
        of_trials = path.removeprefix(f"{package}/trials/")
        is_other_trial = of_trials != path and "/" in of_trials and not path.startswith(own_trial)
        is_of_data = path.startswith(f"{package}/conf/data/")  # compared by what the points read
        if not (is_other_trial or is_of_data or is_readme(path)):
            code_lines.append(line)
    return hashlib.sha256("\n".join(code_lines).encode()).hexdigest()


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
