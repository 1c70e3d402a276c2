# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab bench`: where the time of a step goes, and how long a training takes."""

from __future__ import annotations

import importlib.util
import json
import platform
import re
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from ..config.compose import compose
from ..config.overrides import SettingsParser
from ..errors import LabError
from ..project import Project
from ..record.atomic import write_json
from .compare import compare_codes
from .forecast import SCHEMA, bench_path, forecast, peak_tflops
from .learning_rate import find_learning_rate
from .plot import draw
from .run_bench import format_bench, frozen_bench
from .scaling import scaling
from .sweep import sweep
from .verdict import verdict


def bench_command(project: Project, args: list[str]) -> None:
    parser = SettingsParser(
        "lab bench", "Where the time of a training step of trial=NAME goes, and what it will take."
    )
    parser.add_argument(
        "--steps",
        type=int,
        default=50,
        metavar="N",
        help="optimizer steps to time, after 10 more (50)",
    )
    parser.add_argument(
        "--forecast",
        action="append",
        default=[],
        metavar="WHERE",
        help="also for 16, 8xH100 or A100",
    )
    parser.add_argument(
        "--plot", type=Path, metavar="FILE.png", help="draw the curves, as PNG or SVG"
    )
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument(
        "--sweep",
        metavar="KEY=A..B",
        help="batch=8..1024 doubles; data.num_workers=0,2,4 takes each",
    )
    kind.add_argument(
        "--scaling", metavar="1,2,…", help="efficiency on these numbers of devices, with DDP"
    )
    kind.add_argument(
        "--compare",
        nargs=2,
        metavar=("A", "B"),
        help="two trials or commits, in turns; . is the code now",
    )
    kind.add_argument(
        "--lr", action="store_true", help="the loss over the learning rate; changes nothing"
    )
    options = parser.read(args)
    if options.steps < 2 or (options.plot and options.plot.suffix not in (".png", ".svg")):
        raise LabError(
            "--steps takes 2 or more, and --plot the name of a file that ends with .png or .svg"
        )
    if options.plot and importlib.util.find_spec("matplotlib") is None:
        raise LabError(
            "--plot needs the package matplotlib: uv add matplotlib, or pip install matplotlib"
        )
    try:
        if options.plot:
            options.plot.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LabError(
            f"--plot={options.plot}: {error.strerror}: {error.filename}; draw into runs/"
        ) from error
    how = {"sweep": sweep, "scaling": scaling, "compare": compare_codes, "lr": find_learning_rate}
    function = next(
        (function for name, function in how.items() if getattr(options, name)), run_single
    )
    found, text, picture = function(project, options)
    if options.plot and found:
        draw(options.plot, **picture)
    if found:  # on the first rank
        print(json.dumps(found) if options.json else text)


def run_single(project: Project, options: Any) -> tuple[dict | None, str, dict]:
    """One bench in this process, and in those that DDP starts."""
    started_s, made = time.perf_counter(), compose(project, options.overrides)
    places = [re.fullmatch(r"(\d*)x?([A-Za-z].*)?", where) for where in options.forecast]
    if not all(place and any(place.groups()) for place in places):
        raise LabError(
            f"--forecast={options.forecast[-1]}: write how many devices, which GPU, or both: 16, A100, 8xH100"
        )
    config, given, code = made.config, made.config.copy(), frozen_bench(project, made.config)
    path = bench_path(given, code["tree"])
    path.parent.mkdir(parents=True, exist_ok=True)
    from .measure import measure  # torch, only now

    measured = measure(config, path.parent, options.steps, started_s)
    if measured is None:
        return None, "", {}
    series = measured.pop("series_s")
    about = {
        "schema": SCHEMA,
        "trial": made.trial,
        "overrides": made.overrides,
        "code": code,
        "host": platform.node(),
    }
    bench = (
        about | {"created": datetime.now().astimezone().isoformat(timespec="seconds")} | measured
    )
    peak = peak_tflops(bench["device"], bench["precision"], bench["matmul_precision"])
    bench["tflops"] = bench["flops_per_step"] / bench["step_s"]["median"] / 1e12
    bench |= {"peak_share": peak and bench["tflops"] / peak, "verdict": verdict(bench, given)}
    bench["forecast"] = [forecast(bench, given)]
    write_json(path, bench)
    bench["forecast"] += [
        forecast(bench, given, place[1] and int(place[1]), place[2]) for place in places
    ]
    curves = {
        part: [(i, 1000 * s) for i, s in enumerate(seconds)] for part, seconds in series.items()
    }
    return bench, format_bench(bench, path), {"x": "step", "y": "ms", "curves": curves}
