"""`lab bench`: where the time of a step goes, and how long a training takes.

`lab bench --compare`: two trials, commits or edits in turns.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from omegaconf import DictConfig

from .. import env
from ..config.compose import compose
from ..config.overrides import SettingsParser
from ..config.trial_names import trial_names
from ..errors import LabError, nearest, require_package
from ..machine.own_output import refuse_to_overwrite
from ..machine.resources import cores
from ..project import Project
from ..record.files.atomic import write_json
from ..record.files.schema import Code
from ..record.freeze.bundle import STORE
from ..record.freeze.frozen import unpack_code, with_library
from ..record.freeze.git import Git
from .forecast import forecast_training, peak_of, require_comparable_device
from .report import BenchReport, Picture, draw, list_findings, report_bench
from .result import BenchResult, bench_path, code_that_runs, read_bench
from .run_bench import BenchRunner
from .sweep import sweep


def bench_command(project: Project, args: list[str]) -> None:
    options = build_parser().read(args)
    check_options(options)
    report = run_mode(project, options)
    if report is None:  # not the first rank
        return
    if options.plot:
        draw(options.plot, report.picture)
    print(json.dumps(report.content) if options.json else report.text)


def build_parser() -> SettingsParser:
    parser = SettingsParser(
        "lab bench", "Where the time of a training step of trial=NAME goes, and what it will take."
    )
    add = parser.add_argument
    steps = "optimizer steps to time, after 10 more (50)"
    add("--steps", type=int, default=50, metavar="N", help=steps)
    places = "also for 16, 8xH100 or A100"
    add("--forecast", action="append", default=[], metavar="WHERE", help=places)
    add("--plot", type=Path, metavar="FILE.png", help="draw the curves, as PNG or SVG")
    add("--json", action="store_true", help="print the result as one JSON object")

    modes = parser.add_mutually_exclusive_group()
    values = "batch=8..1024 doubles; data.num_workers=0,2,4 takes each"
    modes.add_argument("--sweep", metavar="KEY=A..B", help=values)
    numbers = "efficiency on these numbers of devices, with DDP"
    modes.add_argument("--scaling", metavar="1,2,…", help=numbers)
    codes = "two trials or commits, in turns; . is the code now"
    modes.add_argument("--compare", nargs=2, metavar=("A", "B"), help=codes)
    curve = "the loss over the learning rate; changes nothing"
    modes.add_argument("--lr", action="store_true", help=curve)
    return parser


def check_options(options: argparse.Namespace) -> None:
    """Finds what is wrong before anything slow, and makes the directory of the plot."""
    if options.steps < 2:
        raise LabError(f"--steps={options.steps}: it takes 2 or more")
    if options.forecast and (options.sweep or options.scaling or options.compare or options.lr):
        raise LabError(
            "--forecast does not go with --sweep, --scaling, --compare or --lr. Leave one out"
        )
    if options.plot is None:
        return
    if options.plot.suffix not in (".png", ".svg"):
        raise LabError(f"--plot={options.plot}: it takes a file that ends with .png or .svg")
    require_package("matplotlib", "--plot")
    refuse_to_overwrite(options.plot)
    try:
        options.plot.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LabError(
            f"--plot={options.plot}: {error.strerror}: {error.filename}. Save plots below runs/"
        ) from error


def run_mode(project: Project, options: argparse.Namespace) -> BenchReport | None:
    progress = sys.stderr if options.json else sys.stdout
    runner = BenchRunner(project, options.steps, progress)
    if options.sweep:
        return sweep(runner, options.overrides, options.sweep)
    if options.scaling:
        return measure_scaling(runner, options.overrides, options.scaling)
    if options.compare:
        return compare_codes(runner, options.overrides, *options.compare)
    if options.lr:
        from .measure import find_learning_rate  # torch, only now

        return find_learning_rate(project, options.overrides, options.steps)
    return run_single(project, options)


def run_single(project: Project, options: argparse.Namespace) -> BenchReport | None:
    """One bench in this process and those that DDP starts; None on other ranks than the first."""
    started_s = time.perf_counter()
    composition = compose(project, options.overrides)
    places = [parse_place(text) for text in options.forecast]
    config = composition.config
    if any(place.gpu for place in places):
        require_comparable_device(config.trainer.accelerator)
    code = code_that_runs(project, config)
    path = bench_path(config, code["tree"])
    path.parent.mkdir(parents=True, exist_ok=True)

    from .measure import measure  # torch, only now

    measured = measure(config, path.parent, options.steps, started_s)
    if measured is None:
        return None
    bench = BenchResult(
        trial=composition.trial,
        overrides=composition.overrides,
        code=code,
        host=platform.node(),
        created=datetime.now().astimezone().isoformat(timespec="seconds"),
        measured=measured,
        verdict=list_findings(measured, config),
    )
    bench = replace(bench, forecast=[forecast_training(bench, config)])
    write_json(path, bench.as_json())
    # Forecasts for other places are printed, but not kept
    elsewhere = [forecast_training(bench, config, place.n_devices, place.gpu) for place in places]
    bench = replace(bench, forecast=[*bench.forecast, *elsewhere])
    return report_bench(bench, path)


@dataclass(frozen=True)
class ForecastPlace:
    """Where a forecast is made for; None: as the bench."""

    n_devices: int | None
    gpu: str | None


def parse_place(text: str) -> ForecastPlace:
    """16 is a number of devices, A100 another GPU, 8xH100 both."""
    match = re.fullmatch(r"(\d*)x?([A-Za-z].*)?", text)
    if match is None or not any(match.groups()):
        raise LabError(
            f"--forecast={text}: write how many devices, which GPU, or both: 16, A100, 8xH100"
        )
    n_devices, gpu = match.groups()
    if gpu:
        peak_of(gpu)
    return ForecastPlace(int(n_devices) if n_devices else None, gpu)


# `lab bench --scaling`: rates for several numbers of processes.

LOW_EFFICIENCY = 0.7  # below it, the report names settings to try


def measure_scaling(runner: BenchRunner, overrides: list[str], text: str) -> BenchReport:
    """A bench on each number of devices.

    The rates are kept with the bench of these settings, for forecasts.

    Args:
        text: the numbers, such as "1,2,4".
    """
    numbers = parse_numbers(text)
    config = compose(runner.project, overrides).config
    tree = code_that_runs(runner.project, config)["tree"]
    # Read now: a bench on several devices has a file of the same name
    earlier = read_bench(config, tree)
    overrides = [*overrides, *equal_threads(config, max(numbers))]
    benches = {n: runner.run(f"{n} devices", [*overrides, f"trainer.devices={n}"]) for n in numbers}
    rates = {n: bench.measured.samples_per_s for n, bench in benches.items()}
    scaling = {str(n): rate for n, rate in rates.items()}
    bench = replace(earlier or benches[1], scaling=scaling)
    write_json(bench_path(config, tree), bench.as_json())
    shares = efficiencies(rates)
    curves = {
        "measured": list(rates.items()),
        "perfect": [(n, n * rates[1]) for n in numbers],
    }
    return BenchReport(
        content={
            "samples_per_s": scaling,
            "efficiency": {str(n): share for n, share in shares.items()},
        },
        text=format_efficiency(shares),
        picture=Picture("devices", "samples/s", curves),
    )


def parse_numbers(text: str) -> list[int]:
    """The numbers in `text`, such as "2,4", sorted; 1 is always among them."""
    if not re.fullmatch(r"[1-9]\d*(,[1-9]\d*)*", text):
        raise LabError(f"--scaling={text}: write numbers of devices, such as 1,2,4")
    return sorted({1, *map(int, text.split(","))})


def equal_threads(config: DictConfig, n_processes: int) -> list[str]:
    """The setting that gives each process the threads that it has among `n_processes`."""
    if config.trainer.threads != "auto":
        return []
    return [f"trainer.threads={max(1, cores() // n_processes)}"]


def efficiencies(rates: dict[int, float]) -> dict[int, float]:
    """The rate of each device, as a share of that of one alone."""
    return {n: rate / n / rates[1] for n, rate in rates.items()}


def format_efficiency(shares: dict[int, float]) -> str:
    text = "efficiency: " + ", ".join(f"{share:.0%} on {n}" for n, share in shares.items())
    if min(shares.values()) < LOW_EFFICIENCY:
        text += (
            f". Below {LOW_EFFICIENCY:.0%}: try data.batch_size, trainer.accumulate_grad_batches"
        )
    return text


ROUNDS = 3


@dataclass(frozen=True)
class ComparedCode:
    """How one of the two is benched."""

    overrides: list[str]
    environment: dict[str, str] = field(default_factory=dict)


def compare_codes(runner: BenchRunner, overrides: list[str], a: str, b: str) -> BenchReport:
    """Measures `a` and `b` in turns, so that other work of the machine slows both.

    Args:
        a, b: each a trial, a commit, or . for the code as it is.
    """
    rates: dict[str, list[float]] = {"A": [], "B": []}
    with tempfile.TemporaryDirectory(prefix="lab-bench-") as folder:
        codes = {
            "A": code_to_compare(runner.project, a, overrides, Path(folder, "A")),
            "B": code_to_compare(runner.project, b, overrides, Path(folder, "B")),
        }
        for _ in range(ROUNDS):
            for name, code in codes.items():
                bench = runner.run(name, code.overrides, code.environment)
                rates[name].append(bench.measured.samples_per_s)
    ratios = [rate_a / rate_b for rate_a, rate_b in zip(rates["A"], rates["B"], strict=True)]
    text = (
        f"{b} takes {statistics.median(ratios):.3f} of the time per sample of {a} "
        f"({min(ratios):.3f} to {max(ratios):.3f} in {ROUNDS} rounds in turns)"
    )
    curves = {a: list(enumerate(rates["A"])), b: list(enumerate(rates["B"]))}
    return BenchReport(
        content={"samples_per_s": rates, "ratios": ratios},
        text=text,
        picture=Picture("round", "samples/s", curves),
    )


def code_to_compare(
    project: Project, name: str, overrides: list[str], folder: Path
) -> ComparedCode:
    """Settings and environment with which `name` is benched.

    Args:
        name: a trial, a commit, or . for the code as it is.
        folder: the code of a commit is written here.
    """
    names = trial_names(project)
    if name.partition("/")[0] in names:
        return ComparedCode([*overrides, f"trial={name}"])
    git = Git(project.root)
    revision = "HEAD" if name == "." else name
    hashes = git.run(
        "log", "-1", "--format=%H %T", "--end-of-options", revision, "--"
    ).stdout.split()
    has_trial = any(override.startswith("trial=") for override in overrides)
    if not hashes or not has_trial:
        raise LabError(
            f"--compare: {name!r} is no trial{nearest(name, names)} "
            f"({', '.join(names)}); for a commit, or . for the code as it is, add trial=NAME"
        )
    if name == ".":
        return ComparedCode(overrides)
    commit, tree = hashes
    prefix = git("rev-parse", "--show-prefix")
    code: Code = {
        "commit": commit,
        "tree": tree,
        "head": commit,
        "dirty": False,
        "remote": None,
        "prefix": prefix,
    }
    store = project.paths.runs / STORE
    unpack_code(with_library(code, store), project.root, store, folder)
    return ComparedCode(overrides, env.frozen_environment(folder, prefix, project.root, commit))
