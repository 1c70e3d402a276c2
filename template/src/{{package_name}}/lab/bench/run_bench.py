# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Runs `lab bench` in a process of its own, so that one bench leaves nothing behind for the next."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from ..errors import Failed
from ..project import LAB, PACKAGE, Project
from ..record.frozen import frozen_code, frozen_directory
from ..record.git import NoRepository
from ..record.snapshot import snapshot
from .forecast import OutOfMemory, format_forecast

ROUNDS, NEAR_BEST = 3, 0.9


def frozen_bench(project: Project, config: DictConfig) -> dict[str, Any]:
    """Commit and tree of the code that runs; None where there is no repository."""
    try:
        code = (
            frozen_code()
            if frozen_directory()
            else snapshot(project.root, max_file_mb=config.record.max_file_mb)
        )
    except NoRepository:
        code = {}
    return {key: code.get(key) for key in ("commit", "tree", "dirty")}


def format_bench(bench: dict[str, Any], path: Path) -> str:
    """The result on 80 columns."""
    lines = [
        f"{bench['trial']} on {bench['world_size']} x {bench['device']} in {bench['precision']}"
    ]
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
    texts += [
        f"{one['name']}: {one['why']}" + f". Try: {one['try']}" * bool(one["try"])
        for one in bench["verdict"]
    ]
    texts += [f"whole training: {format_forecast(one)}" for one in bench["forecast"] if one] + [
        os.path.relpath(path)
    ]
    lines += [
        textwrap.fill(text, 80, subsequent_indent="  ", break_on_hyphens=False) for text in texts
    ]
    return "\n".join(lines)


def bench_of(
    project: Project, options: Any, name: str, overrides: list[str], **variables: str
) -> dict:
    """A bench in a process of its own, and a line about it.

    Raises:
        OutOfMemory, Failed: as it says.
    """
    command = [
        sys.executable,
        "-m",
        f"{PACKAGE}.lab",
        "bench",
        *overrides,
        f"--steps={options.steps}",
        "--json",
    ]
    path = {
        "PYTHONPATH": os.pathsep.join(
            filter(None, (str(LAB.parents[1]), os.environ.get("PYTHONPATH")))
        )
    }
    done = subprocess.run(
        command, cwd=project.root, env=os.environ | path | variables, capture_output=True, text=True
    )
    if done.returncode:
        said = done.stderr.strip().rpartition("lab: ")[2]
        raise (OutOfMemory if said.startswith("out of memory") else Failed)(f"{name}: {said}")
    bench = json.loads(done.stdout.splitlines()[-1])
    ms, load, peak = (
        1000 * bench["step_s"]["median"],
        bench["shares"]["load"],
        bench["memory_bytes"]["peak"],
    )
    line = f"{name:>12}{bench['samples_per_s']:>12,.0f} samples/s{ms:>10.2f} ms a step{load:>6.0%} load"
    print(
        line + (f"{peak / 1e6:>9,.0f} MB" if peak else ""),
        file=sys.stderr if options.json else None,
        flush=True,
    )
    return bench
