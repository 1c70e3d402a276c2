# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab bench`: the time of a step, a verdict, a forecast. Sweeps, scaling and comparisons are benches in own processes."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from ..config.compose import compose
from ..config.layers import trials
from ..config.overrides import SettingsParser
from ..errors import Failed, LabError, nearest
from ..machine.node import cores
from ..project import LAB, PACKAGE, Project
from ..record.bundle import STORE, directory, materialise, recorded
from ..record.files import read_json, write_json
from ..record.snapshot import Git, NoRepository, snapshot
from ..speed.forecast import SCHEMA, OutOfMemory, bench_path, forecast, peak_tflops, told, verdict

ROUNDS, NEAR_BEST = 3, 0.9


def bench_command(project: Project, args: list[str]) -> None:
    parser = SettingsParser("lab bench", "Where the time of a training step of trial=NAME goes, and what it will take.")
    parser.add_argument(
        "--steps", type=int, default=50, metavar="N", help="optimizer steps to time, after 10 more (50)"
    )
    parser.add_argument("--forecast", action="append", default=[], metavar="WHERE", help="also for 16, 8xH100 or A100")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="draw the curves, as PNG or SVG")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--sweep", metavar="KEY=A..B", help="batch=8..1024 doubles; data.num_workers=0,2,4 takes each")
    kind.add_argument("--scaling", metavar="1,2,…", help="efficiency on these numbers of devices, with DDP")
    kind.add_argument(
        "--compare", nargs=2, metavar=("A", "B"), help="two trials or commits, in turns; . is the code now"
    )
    kind.add_argument("--lr", action="store_true", help="the loss over the learning rate; changes nothing")
    options = parser.read(args)
    if options.steps < 2 or (options.plot and options.plot.suffix not in (".png", ".svg")):
        raise LabError("--steps takes 2 or more, and --plot the name of a file that ends with .png or .svg")
    if options.plot and importlib.util.find_spec("matplotlib") is None:
        raise LabError("--plot needs the package matplotlib: uv add matplotlib, or pip install matplotlib")
    try:
        if options.plot:
            options.plot.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LabError(f"--plot={options.plot}: {error.strerror}: {error.filename}; draw into runs/") from error
    how = {"sweep": sweep, "scaling": scaling, "compare": compare, "lr": lr}
    function = next((function for name, function in how.items() if getattr(options, name)), one)
    found, text, picture = function(project, options)
    if options.plot and found:
        draw(options.plot, **picture)
    if found:  # on the first rank
        print(json.dumps(found) if options.json else text)


def one(project: Project, options: Any) -> tuple[dict | None, str, dict]:
    """One bench in this process, and in those that DDP starts."""
    started_s, made = time.perf_counter(), compose(project, options.overrides)
    places = [re.fullmatch(r"(\d*)x?([A-Za-z].*)?", where) for where in options.forecast]
    if not all(place and any(place.groups()) for place in places):
        raise LabError(
            f"--forecast={options.forecast[-1]}: write how many devices, which GPU, or both: 16, A100, 8xH100"
        )
    config, given, code = made.config, made.config.copy(), frozen(project, made.config)
    path = bench_path(given, code["tree"])
    path.parent.mkdir(parents=True, exist_ok=True)
    from ..speed.chronometer import measure  # torch, only now

    measured = measure(config, path.parent, options.steps, started_s)
    if measured is None:
        return None, "", {}
    series = measured.pop("series_s")
    about = {"schema": SCHEMA, "trial": made.trial, "overrides": made.overrides, "code": code, "host": platform.node()}
    bench = about | {"created": datetime.now().astimezone().isoformat(timespec="seconds")} | measured
    peak = peak_tflops(bench["device"], bench["precision"], bench["matmul_precision"])
    bench["tflops"] = bench["flops_per_step"] / bench["step_s"]["median"] / 1e12
    bench |= {"peak_share": peak and bench["tflops"] / peak, "verdict": verdict(bench, given)}
    bench["forecast"] = [forecast(bench, given)]
    write_json(path, bench)
    bench["forecast"] += [forecast(bench, given, place[1] and int(place[1]), place[2]) for place in places]
    curves = {part: [(i, 1000 * s) for i, s in enumerate(seconds)] for part, seconds in series.items()}
    return bench, screen(bench, path), {"x": "step", "y": "ms", "curves": curves}


def frozen(project: Project, config: DictConfig) -> dict[str, Any]:
    """Commit and tree of the code that runs; None where there is no repository."""
    try:
        code = recorded() if directory() else snapshot(project.root, max_file_mb=config.record.max_file_mb)
    except NoRepository:
        code = {}
    return {key: code.get(key) for key in ("commit", "tree", "dirty")}


def screen(bench: dict[str, Any], path: Path) -> str:
    """The result on 80 columns."""
    lines = [f"{bench['trial']} on {bench['world_size']} x {bench['device']} in {bench['precision']}"]
    lines += [f"{'ms':<12}{'median':>10}{'min':>10}{'spread':>10}   of {bench['n_steps']} steps"]
    for part, seconds in [*bench["parts_s"].items(), ("step", bench["step_s"])]:
        cells = "".join(f"{1000 * seconds[key]:>10.3f}" for key in ("median", "min", "spread"))
        lines.append(f"{part:<12}{cells}{bench['shares'].get(part, 1):>9.0%}")
    peak = f" ({bench['peak_share']:.0%} of the peak)" if bench["peak_share"] else ""
    rate = f"{bench['samples_per_s']:,.0f} samples/s, {bench['samples_per_step']} a step, {bench['tflops']:.3g} TFLOP/s{peak}"
    kept = [f"{name} {n / 1e6:,.1f}" for name, n in bench["memory_bytes"].items() if n is not None]
    texts = [rate, f"{bench['n_parameters']:,} parameters; memory in MB: {', '.join(kept)}"]
    if bench["power_w"]:
        texts.append(f"{bench['power_w']:.0f} W a GPU, {bench['joules_per_sample']:.3g} J a sample")
    texts += [f"{one['name']}: {one['why']}" + f". Try: {one['try']}" * bool(one["try"]) for one in bench["verdict"]]
    texts += [f"whole training: {told(one)}" for one in bench["forecast"] if one] + [os.path.relpath(path)]
    lines += [textwrap.fill(text, 80, subsequent_indent="  ", break_on_hyphens=False) for text in texts]
    return "\n".join(lines)


def bench_of(project: Project, options: Any, name: str, overrides: list[str], **variables: str) -> dict:
    """A bench in a process of its own, and a line about it.

    Raises:
        OutOfMemory, Failed: as it says.
    """
    command = [sys.executable, "-m", f"{PACKAGE}.lab", "bench", *overrides, f"--steps={options.steps}", "--json"]
    path = {"PYTHONPATH": os.pathsep.join(filter(None, (str(LAB.parents[1]), os.environ.get("PYTHONPATH"))))}
    done = subprocess.run(command, cwd=project.root, env=os.environ | path | variables, capture_output=True, text=True)
    if done.returncode:
        said = done.stderr.strip().rpartition("lab: ")[2]
        raise (OutOfMemory if said.startswith("out of memory") else Failed)(f"{name}: {said}")
    bench = json.loads(done.stdout.splitlines()[-1])
    ms, load, peak = 1000 * bench["step_s"]["median"], bench["shares"]["load"], bench["memory_bytes"]["peak"]
    line = f"{name:>12}{bench['samples_per_s']:>12,.0f} samples/s{ms:>10.2f} ms a step{load:>6.0%} load"
    print(line + (f"{peak / 1e6:>9,.0f} MB" if peak else ""), file=sys.stderr if options.json else None, flush=True)
    return bench


def sweep(project: Project, options: Any) -> tuple[dict, str, dict]:
    """A bench of each value, up to the first that does not fit; from there back to the largest that does."""
    key, _, text = options.sweep.partition("=")
    key, ends = {"batch": "data.batch_size"}.get(key, key), [int(end) for end in text.split("..") if end.isdecimal()]
    doubles = len(ends) == 2 and 0 < ends[0] < ends[1]
    if not text or (".." in text and not doubles):
        raise LabError(f"--sweep={options.sweep}: write batch=8..1024, which doubles, or KEY=VALUE,VALUE")
    values = [ends[0] << n for n in range(64) if ends[0] << n <= ends[1]] if doubles else text.split(",")
    rates: dict[Any, float] = {}

    def fits(value: Any) -> bool:
        try:
            bench = bench_of(project, options, str(value), [*options.overrides, f"{key}={value}"])
            rates[value] = bench["samples_per_s"]
        except OutOfMemory as error:
            print(error, file=sys.stderr)
        return value in rates

    refused = next((value for value in values if not fits(value)), None)
    while doubles and rates and refused and refused - max(rates) > max(8, max(rates) // 8):
        middle = (max(rates) + refused) // 2
        refused = refused if fits(middle) else middle
    if not rates:
        raise Failed(f"{key}={values[0]} does not fit into the memory")
    rates = dict(sorted(rates.items())) if doubles else rates
    knee = next(value for value, rate in rates.items() if rate >= NEAR_BEST * max(rates.values()))
    words = f"knee: {key}={knee}, the first within {1 - NEAR_BEST:.0%} of the best"
    words += f"; largest that fits: {max(rates)}{'' if refused else ' or more'}" if doubles else ""
    found = {"key": key, "samples_per_s": {str(value): rate for value, rate in rates.items()}, "knee": knee}
    curve = list(rates.items()) if doubles else list(enumerate(rates.values()))
    picture = {"x": key, "y": "samples/s", "curves": {"measured": curve}, "marked": knee if doubles else None}
    return found | {"largest": max(rates) if doubles else None, "refused": refused}, words, picture


def scaling(project: Project, options: Any) -> tuple[dict, str, dict]:
    """A bench on each number of devices; the result is kept with the bench of these settings, for forecasts."""
    if not re.fullmatch(r"[1-9]\d*(,[1-9]\d*)*", options.scaling):
        raise LabError(f"--scaling={options.scaling}: write numbers of devices, such as 1,2,4")
    numbers, config = sorted({1, *map(int, options.scaling.split(","))}), compose(project, options.overrides).config
    path = bench_path(config, frozen(project, config)["tree"])
    kept = read_json(path)  # before those of several devices, which go by the same name
    given = [*options.overrides]  # and as many threads for each process as it will have among the most
    given += [f"trainer.threads={max(1, cores() // numbers[-1])}"] if config.trainer.threads == "auto" else []
    benches = [bench_of(project, options, f"{n} devices", [*given, f"trainer.devices={n}"]) for n in numbers]
    rates = {str(n): bench["samples_per_s"] for n, bench in zip(numbers, benches, strict=True)}
    shares = {n: rate / int(n) / rates["1"] for n, rate in rates.items()}
    write_json(path, (kept or benches[0]) | {"scaling": rates})
    words = "efficiency: " + ", ".join(f"{share:.0%} on {n}" for n, share in shares.items())
    words += ". Below 70 %: try data.batch_size, trainer.accumulate_grad_batches" * (min(shares.values()) < 0.7)
    curves = {"measured": [(n, rates[str(n)]) for n in numbers], "perfect": [(n, n * rates["1"]) for n in numbers]}
    return {"samples_per_s": rates, "efficiency": shares}, words, {"x": "devices", "y": "samples/s", "curves": curves}


def compare(project: Project, options: Any) -> tuple[dict, str, dict]:
    """Two trials or commits in turns, so that what else the machine does falls on both."""
    (a, b), rates = options.compare, {"A": [], "B": []}
    with tempfile.TemporaryDirectory(prefix="lab-bench-") as folder:
        sides = {"A": side(project, a, options.overrides, Path(folder, "A"))}
        sides |= {"B": side(project, b, options.overrides, Path(folder, "B"))}
        for name in "AB" * ROUNDS:
            given, place = sides[name]
            rates[name].append(bench_of(project, options, name, given, **place)["samples_per_s"])
    ratios = [x / y for x, y in zip(rates["A"], rates["B"], strict=True)]
    words = f"{b} takes {statistics.median(ratios):.3f} of the time per sample of {a}"
    words += f" ({min(ratios):.3f} to {max(ratios):.3f} in {ROUNDS} rounds in turns)"
    curves = {a: list(enumerate(rates["A"])), b: list(enumerate(rates["B"]))}
    return {"samples_per_s": rates, "ratios": ratios}, words, {"x": "round", "y": "samples/s", "curves": curves}


def side(project: Project, word: str, overrides: list[str], folder: Path) -> tuple[list[str], dict[str, str]]:
    """Settings and environment of one side: a trial; a commit, whose code is written to `folder`; `.`, the code as it is."""
    known, git = trials(project), Git(project.root)
    if word.partition("/")[0] in known:
        return [*overrides, f"trial={word}"], {}
    found = git.run("log", "-1", "--format=%H %T", "HEAD" if word == "." else word, "--").stdout.split()
    if not found or not any(override.startswith("trial=") for override in overrides):
        advice = f"no trial{nearest(word, known)} ({', '.join(known)}); for a commit, or . for the code as it is, add trial=NAME"
        raise LabError(f"--compare: {word!r} is {advice}")
    if word == ".":
        return overrides, {}
    commit, tree = found
    code = {"commit": commit, "tree": tree, "head": commit, "dirty": False, "remote": None}
    code["prefix"] = git("rev-parse", "--show-prefix")
    materialise(code, project.root, project.paths["runs"] / STORE, folder)
    place = {"PYTHONPATH": str(folder / code["prefix"] / "src"), "PYTHONSAFEPATH": "1", "LAB_SNAPSHOT_COMMIT": commit}
    return overrides, place | {"LAB_FROZEN": str(folder), "LAB_PROJECT": str(project.root)}


def lr(project: Project, options: Any) -> tuple[dict, str, dict]:
    config = compose(project, options.overrides).config
    from ..speed.chronometer import lr_curve  # torch, only now

    found = lr_curve(config, max(100, options.steps))
    curve, best = list(zip(found["lr"], found["loss"], strict=True)), found["suggestion"]
    words = "\n".join(["        lr  loss", *[f"{rate:>10.1e}  {loss:.4f}" for rate, loss in curve[::6]]])
    words += f"\nsteepest fall: {best:.1e}. Nothing was changed; to try it: optimizer.lr={best:.1e}"
    return found, words, {"x": "learning rate", "y": "loss", "curves": {"loss": curve}, "marked": best}


def draw(path: Path, x: str, y: str, curves: dict[str, list[tuple[float, float]]], marked: float | None = None) -> None:
    """Curves as a PNG or SVG; a horizontal axis that spans decades is logarithmic; `marked` is a place on it."""
    from matplotlib.figure import Figure

    axes = (picture := Figure(figsize=(6.4, 4), layout="constrained")).subplots()
    for name, curve in curves.items():
        axes.plot(*zip(*curve, strict=True), label=name)
    left, right = axes.dataLim.intervalx
    axes.set(xlabel=x, ylabel=y, xscale="log" if left > 0 and right / left >= 16 else "linear", ylim=(0, None))
    if marked is not None:
        axes.axvline(marked, linestyle="--", color="gray", label=f"{marked:.3g}")
    axes.legend()
    picture.savefig(path, dpi=150)
