"""Time per training step on a GPU: `lab train` against loops by hand with the same settings, in turns.

    python benchmarks/gpu_step.py [ROUNDS] [--cpu]

Three cases: ResNet-18 on 32x32 images, a transformer of two layers, and the smallest useful step:
linear layers, so many that the loop takes 3 ms. bf16-mixed where the GPU has it, channels-last for
images, torch.compile for the first two.
One process for each contender and round, interleaved. The time is that of whole epochs without the
first, which compiles, from the first batch to the last; checkpoints are written between them.
A ratio is the median over the rounds of the two times of a round.
A run whose network fell back to the uncompiled one is not counted: the benchmark ends, and says why.
The figures of all rounds, with GPU, driver and versions, go to build/gpu_step.md: docs/gpu.md tells
what to do with them.
Where torch sees no GPU, it says so and measures nothing. `--cpu` then runs the program itself with
tiny batches; its figures mean nothing.
Needs the packages of constraints.txt with a CUDA build of torch.
"""

import json
import platform
import statistics
import sys
import tempfile
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from cpu_seconds import run
from gpu_step_programs import CASE, LOOP, MODULES
from project_copy import LAB, ROOT, project_with

# name of the case, and what lab train may take of the loop's time at most
CASES = {"resnet18": 1.03, "transformer": 1.03, "smallest": 1.10}
EPOCHS = 4  # the first warms up and compiles
SMALLEST_S = 0.003  # of the smallest useful step
DEPTH = 40  # layers of the smallest network, from which the right number is computed


@dataclass(frozen=True)
class Result:
    """Medians over the rounds of one case."""

    case: str
    lab_s: float
    loop_s: float
    ratio: float
    limit: float
    rounds: list[tuple[float, float]]  # lab_s and loop_s of each


class Benchmark:
    """A project in `folder` with the case as its trial, and the loop by hand next to it."""

    def __init__(self, folder: Path, device: str) -> None:
        programs = {"case": CASE.format(epochs=EPOCHS), "loop": LOOP, "modules": MODULES}
        self.folder = folder
        self.project = project_with(folder, programs, "net", "case.Net")
        self.device = device
        self.precision = "bf16-mixed"
        if device == "cuda" and torch.cuda.get_device_capability() < (8, 0):
            self.precision = "16-mixed"
        self.depth = DEPTH if device == "cuda" else 2

    def variables(self, case: str) -> dict[str, str]:
        """What the programs read; also where `lab train` finds them."""
        return {
            "PYTHONPATH": str(self.folder),
            "CASE": case,
            "DEVICE": self.device,
            "PRECISION": self.precision,
            "DEPTH": str(self.depth),
        }

    def loop_s(self, case: str) -> float:
        """Seconds of a step of the loop by hand."""
        command = [sys.executable, "loop.py"]
        output = run(command, self.folder, **self.variables(case))
        require_compiled(f"{case}, the loop by hand", json.loads(output.splitlines()[-2]))
        return json.loads(output.splitlines()[-1])

    def lab_s(self, case: str) -> float:
        """Seconds of a step of `lab train`, with its record, health and loggers."""
        channels_last = str(case == "resnet18").lower()
        compiles = case != "smallest" and self.device == "cuda"
        command = [*LAB, "train", "trial=net", "data=memory"]
        command += ["optimizer=adam", "schedule=constant", "trainer.test_after_fit=false"]
        command += [f"trainer={'gpu' if self.device == 'cuda' else 'cpu'}"]
        command += [f"trainer.precision={self.precision}", f"trainer.max_epochs={EPOCHS}"]
        command += ["callbacks.timer={_target_: modules.Timer}"]
        command += [f"speed.channels_last={channels_last}"]
        command += [f"speed.compile={'default' if compiles else 'null'}"]
        command += ["speed.compile_fallback=refuse"]
        run(command, self.project, **self.variables(case))
        if compiles:
            require_compiled(f"{case}, lab train", compiled_of(self.project))
        return json.loads((self.project / "step_s.json").read_text())

    def adjust_smallest(self) -> None:
        """Chooses the number of layers with which a step of the loop takes SMALLEST_S."""
        self.depth = max(1, round(self.depth * SMALLEST_S / self.loop_s("smallest")))

    def measure_round(self, case: str, n: int) -> tuple[float, float]:
        """One process of each, in turns first."""
        if n % 2:
            loop_s = self.loop_s(case)
            return self.lab_s(case), loop_s
        return self.lab_s(case), self.loop_s(case)

    def measure(self, case: str, n_rounds: int) -> Result:
        rounds = [self.measure_round(case, n) for n in range(n_rounds)]
        lab_s, loop_s = (statistics.median(times) for times in zip(*rounds, strict=True))
        ratio = statistics.median(lab / loop for lab, loop in rounds)
        result = Result(case, lab_s, loop_s, ratio, CASES[case], rounds)
        print(row_of(result), flush=True)
        return result


def compiled_of(project: Path) -> dict[str, Any]:
    """What the newest run recorded of its compiled network."""
    starts = project.glob("runs/net/*/attempts/1/start.json")
    newest = max(starts, key=lambda path: path.stat().st_mtime)
    return json.loads(newest.read_text()).get("compiled", {})


def require_compiled(what: str, compiled: dict[str, Any] | None) -> None:
    """Ends the benchmark when a network that should be compiled is not; None: it should not be."""
    if compiled is None:
        return
    if compiled.get("fell_back") or not compiled.get("graphs"):
        sys.exit(f"{what}: it ran uncompiled, so nothing is counted: {compiled}")
    if compiled.get("frames_ok") != compiled.get("frames"):
        sys.exit(f"{what}: only a part of it is compiled: {compiled}")


def driver() -> str:
    """Version of NVIDIA's driver."""
    try:
        import pynvml

        pynvml.nvmlInit()
        return pynvml.nvmlSystemGetDriverVersion()
    except Exception:  # the package, the driver, or a GPU is missing
        return "none"


def row_of(one: Result) -> str:
    """A row of the table in that section."""
    return (
        f"| {one.case} | {1e3 * one.lab_s:.3f} ms | {1e3 * one.loop_s:.3f} ms "
        f"| {one.ratio:.3f} | {one.limit} |"
    )


def all_rounds(one: Result) -> str:
    return ", ".join(f"{1e3 * lab_s:.3f} : {1e3 * loop_s:.3f}" for lab_s, loop_s in one.rounds)


def as_markdown(name: str, precision: str, results: list[Result], n_rounds: int) -> str:
    """A section for docs/gpu.md."""
    versions = ", ".join(
        [
            f"driver {driver()}",
            f"CUDA {torch.version.cuda}",
            f"cuDNN {torch.backends.cudnn.version()}",
            *(f"{package} {version(package)}" for package in ("torch", "lightning")),
            f"Python {platform.python_version()}",
        ]
    )
    lines = [
        f"### {name}",
        "",
        f"{date.today()}: {versions}. Medians of {n_rounds} rounds, in turns; {precision}.",
        "",
        "| step | `lab train` | loop by hand | ratio | limit |",
        "|---|---|---|---|---|",
        *map(row_of, results),
        "",
        *(f"{one.case}, each round, ms: {all_rounds(one)}" for one in results),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    words = [word for word in sys.argv[1:] if word != "--cpu"]
    n_rounds = int(words[0]) if words else 5
    device = "cpu" if "--cpu" in sys.argv else "cuda"
    if device == "cuda" and not torch.cuda.is_available():
        print("no GPU: torch sees none, nothing was measured")
        return
    with tempfile.TemporaryDirectory() as folder:
        benchmark = Benchmark(Path(folder), device)
        if device == "cuda":
            benchmark.adjust_smallest()
        results = [benchmark.measure(case, n_rounds) for case in CASES]
    name, file = "CPU: a rehearsal, its figures mean nothing", "gpu_step_rehearsal.md"
    if device == "cuda":
        name, file = torch.cuda.get_device_name(), "gpu_step.md"
    text = as_markdown(name, benchmark.precision, results, n_rounds)
    path = ROOT / "build" / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    print(text)
    for one in results:
        if one.ratio > one.limit and device == "cuda":
            print(f"{one.case}: {one.ratio:.3f} is above the limit of {one.limit}")
    print(f"written to {path}")


if __name__ == "__main__":
    main()
