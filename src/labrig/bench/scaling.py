"""`lab bench --scaling`: rates for several numbers of processes."""

from __future__ import annotations

import re
from dataclasses import replace

from omegaconf import DictConfig

from ..config.compose import compose
from ..errors import LabError
from ..machine.cpu import cores
from ..record.atomic import write_json
from .bench_file import bench_path, code_that_runs, read_bench
from .plot import Picture
from .report import Report
from .run_bench import BenchRunner

LOW_EFFICIENCY = 0.7  # below it, the report names settings to try


def measure_scaling(runner: BenchRunner, overrides: list[str], text: str) -> Report:
    """A bench on each number of devices.

    The rates are kept with the bench of these settings, for forecasts.

    Args:
        text: the numbers, such as "1,2,4".

    Raises:
        LabError: `text` is something else.
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
    shares = {n: rate / n / rates[1] for n, rate in rates.items()}
    curves = {
        "measured": list(rates.items()),
        "perfect": [(n, n * rates[1]) for n in numbers],
    }
    return Report(
        content={
            "samples_per_s": scaling,
            "efficiency": {str(n): share for n, share in shares.items()},
        },
        text=format_efficiency(shares),
        picture=Picture("devices", "samples/s", curves),
    )


def parse_numbers(text: str) -> list[int]:
    """The numbers in `text`, such as "2,4", sorted; 1 is always among them.

    Raises:
        LabError: `text` is something else.
    """
    if not re.fullmatch(r"[1-9]\d*(,[1-9]\d*)*", text):
        raise LabError(f"--scaling={text}: write numbers of devices, such as 1,2,4")
    return sorted({1, *map(int, text.split(","))})


def equal_threads(config: DictConfig, n_processes: int) -> list[str]:
    """The setting that gives each process the threads that it has among `n_processes`."""
    if config.trainer.threads != "auto":
        return []
    return [f"trainer.threads={max(1, cores() // n_processes)}"]


def format_efficiency(shares: dict[int, float]) -> str:
    text = "efficiency: " + ", ".join(f"{share:.0%} on {n}" for n, share in shares.items())
    if min(shares.values()) < LOW_EFFICIENCY:
        text += (
            f". Below {LOW_EFFICIENCY:.0%}: try data.batch_size, trainer.accumulate_grad_batches"
        )
    return text
