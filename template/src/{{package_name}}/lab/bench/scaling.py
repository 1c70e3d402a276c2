# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab bench --scaling`: rates for several numbers of processes."""

from __future__ import annotations

import re
from typing import Any

from ..config.compose import compose
from ..errors import LabError
from ..machine.cpu import cores
from ..project import Project
from ..record.atomic import read_json, write_json
from .forecast import bench_path
from .run_bench import bench_of, frozen_bench


def scaling(project: Project, options: Any) -> tuple[dict, str, dict]:
    """A bench on each number of devices; the result is kept with the bench of these settings, for forecasts."""
    if not re.fullmatch(r"[1-9]\d*(,[1-9]\d*)*", options.scaling):
        raise LabError(f"--scaling={options.scaling}: write numbers of devices, such as 1,2,4")
    numbers, config = (
        sorted({1, *map(int, options.scaling.split(","))}),
        compose(project, options.overrides).config,
    )
    path = bench_path(config, frozen_bench(project, config)["tree"])
    kept = read_json(path)  # before those of several devices, which go by the same name
    given = [
        *options.overrides
    ]  # and as many threads for each process as it will have among the most
    given += (
        [f"trainer.threads={max(1, cores() // numbers[-1])}"]
        if config.trainer.threads == "auto"
        else []
    )
    benches = [
        bench_of(project, options, f"{n} devices", [*given, f"trainer.devices={n}"])
        for n in numbers
    ]
    rates = {str(n): bench["samples_per_s"] for n, bench in zip(numbers, benches, strict=True)}
    shares = {n: rate / int(n) / rates["1"] for n, rate in rates.items()}
    write_json(path, (kept or benches[0]) | {"scaling": rates})
    words = "efficiency: " + ", ".join(f"{share:.0%} on {n}" for n, share in shares.items())
    words += ". Below 70 %: try data.batch_size, trainer.accumulate_grad_batches" * (
        min(shares.values()) < 0.7
    )
    curves = {
        "measured": [(n, rates[str(n)]) for n in numbers],
        "perfect": [(n, n * rates["1"]) for n in numbers],
    }
    return (
        {"samples_per_s": rates, "efficiency": shares},
        words,
        {"x": "devices", "y": "samples/s", "curves": curves},
    )
