"""Why is a step of `lab train` slower than the loop by hand on a GPU? One run of at most 5 minutes answers it.

    python benchmarks/gpu_probe.py [--repo DIR] [--minutes 5] [--cpu]

DIR is a clone of the template (default: the current folder): benchmarks/gpu_step_programs.py,
batch_loader.py, tests/project and src/labrig are taken from it; nothing is written there. Needs torch,
lightning, hydra, h5py, git and g++; no internet, no pynvml, no installed labrig.

Each process goes through many switches, one epoch each ("phase"): compiled, eager, health off, loggers off,
checkpoints off, cudnn.benchmark off, batches that lie on the device already, all callbacks off, Lightning's own
loop. Two times are given for a phase: `epoch`, from on_train_epoch_start to _end as gpu_step.py measures it, and
`inner`, from batch SKIP to the end of the last batch, without what an epoch does at its ends.
Output: a table on stdout after each process, and gpu_probe.json and gpu_probe.txt in $OUT or ./build/gpu_probe.
--cpu rehearses all of it with tiny networks; its figures mean nothing.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LAB_PLAN = [
    *("warm", "as_is", "eager", "no_checkpoints", "no_health", "no_loggers", "no_callbacks"),
    *(
        "no_cudnn_benchmark",
        "on_device",
        "as_is",
        "eager",
        "profile_compiled",
        "profile_eager",
        "syncs",
        "lightnings_loop",
    ),
]
LOOP_PLAN = [
    *("warm", "as_is", "eager", "no_cudnn_benchmark", "on_device", "as_is", "eager"),
    *("profile_compiled", "profile_eager", "syncs"),
]
AGAIN = ["warm", "as_is", "eager", "as_is", "eager"]


class Probe:
    def __init__(self, repo: Path, folder: Path, device: str, minutes: float) -> None:
        sys.path[:0] = [str(repo / "benchmarks"), str(repo / "tests/helpers")]
        import gpu_probe_programs as probe_programs
        import gpu_step_programs as programs

        self.folder, self.device, self.repo = folder, device, repo
        self.ends_s = time.monotonic() + 60 * minutes
        self.on_gpu = device == "cuda"
        self.precision = "bf16-mixed"
        if self.on_gpu:
            import torch

            if torch.cuda.get_device_capability() < (8, 0):
                self.precision = "16-mixed"
        files = {
            "case.py": programs.CASE.format(epochs=4) + probe_programs.CASE_END,
            "loop.py": programs.LOOP,
            "modules.py": programs.MODULES,
            "probe_common.py": probe_programs.COMMON,
            "probe_loop.py": probe_programs.LOOP,
            "probe_modules.py": probe_programs.MODULES,
            "batch_loader.py": (repo / "benchmarks/batch_loader.py").read_text(),
        }
        for name, text in files.items():
            (folder / name).write_text(text)
        self.project = self.make_project()
        self.depth = 40 if self.on_gpu else 2
        self.results: dict[str, list] = {}
        self.steps: dict[str, list[float]] = {}
        self.notes: list[str] = []

    def make_project(self) -> Path:
        """tests/project, with a trial whose model is case.Net, committed."""
        project = self.folder / "myproj"
        shutil.copytree(
            self.repo / "tests/project",
            project,
            ignore=shutil.ignore_patterns("__pycache__", ".*_cache", "runs"),
        )
        package = project / "src/myproj"
        (package / "trials/net").mkdir(parents=True, exist_ok=True)
        (package / "trials/net/config.yaml").write_text("model:\n  _target_: case.Net\n")
        for name, module in (("memory", "modules"), ("probe", "probe_modules")):
            (package / f"conf/data/{name}.yaml").write_text(f"_target_: {module}.Batches\n")
        (project / ".gitignore").write_text("runs/\n*.json\n.venv\n__pycache__/\n")
        who = ["-c", "user.name=probe", "-c", "user.email=probe@localhost"]
        for words in (["init", "-q"], ["add", "-A"], [*who, "commit", "-q", "-m", "Start"]):
            subprocess.run(["git", *words], cwd=project, check=True, capture_output=True)
        return project

    def left_s(self) -> float:
        return self.ends_s - time.monotonic()

    def run(
        self, label: str, command: list[str], where: Path, variables: dict[str, str], need_s: float
    ) -> bool:
        """Whether a process ended well; never raises, so that one failure costs one line only."""
        if self.left_s() < need_s:
            self.note(
                f"{label}: skipped, {self.left_s():.0f} s are left and about {need_s:.0f} are needed"
            )
            return False
        usual = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "TORCH_LOGS"))}
        caches = {
            "TORCHINDUCTOR_CACHE_DIR": str(self.folder / "torchinductor"),
            "TRITON_CACHE_DIR": str(self.folder / "triton"),
        }
        environment = (
            usual
            | caches
            | variables
            | {"PYTHONPATH": os.pathsep.join([str(self.folder), str(self.repo / "src")])}
        )
        began = time.monotonic()
        log = self.folder / "log.txt"
        with open(log, "w") as file:
            process = subprocess.Popen(
                command,
                cwd=where,
                env=environment,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code = process.wait(timeout=max(10, self.left_s()))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # the session of this process only
                process.wait()
                code = "out of time"
        text = log.read_text(errors="replace")
        fell_back = [
            line
            for line in text.splitlines()
            if "speed.compile is off" in line
            or "WON'T CONVERT" in line
            or "BackendCompilerFailed" in line
            or "InductorError" in line
        ]
        for line in fell_back[:3]:
            self.note(f"{label}: {line.strip()[:200]}")
        if code != 0:
            tail = " / ".join(text.strip().splitlines()[-6:])
            self.note(f"{label}: ended with {code}: {tail[-700:]}")
        print(
            f"  [{label}: {time.monotonic() - began:.0f} s, {self.left_s():.0f} s left]", flush=True
        )
        return code == 0

    def note(self, text: str) -> None:
        print("!", text, flush=True)
        self.notes.append(text)

    def variables(self, case: str, **more: str) -> dict[str, str]:
        tiny = {} if self.on_gpu else {"PROBE_BATCH": "2", "OMP_NUM_THREADS": "1"}
        usual = {
            "CASE": case,
            "DEVICE": self.device,
            "PRECISION": self.precision,
            "DEPTH": str(self.depth),
        }
        return usual | tiny | more

    def lab_command(
        self,
        case: str,
        n_epochs: int,
        channels_last: bool,
        compiles: bool,
        data: str,
        callback: str,
    ) -> list[str]:
        return [
            *(
                sys.executable,
                "-m",
                "labrig",
                "train",
                "trial=net",
                f"data={data}",
                "optimizer=adam",
                "schedule=constant",
            ),
            *("trainer.test_after_fit=false", f"trainer={'gpu' if self.on_gpu else 'cpu'}"),
            *(
                f"trainer.precision={self.precision}",
                f"trainer.max_epochs={n_epochs}",
                f"callbacks.timer={{_target_: {callback}}}",
            ),
            *(
                f"speed.channels_last={str(channels_last).lower()}",
                f"speed.compile={'default' if compiles else 'null'}",
            ),
        ]

    def phases(
        self,
        who: str,
        case: str,
        plan: list[str],
        need_s: float,
        channels_last: bool = True,
        compiles: bool = True,
    ) -> None:
        """One process of a contender through a plan; what it measured is kept under a name."""
        layout = "" if channels_last else ", contiguous"
        label = f"{who}{layout}{'' if compiles else ', not compiled'}"
        file = self.folder / f"phases_{len(self.results)}_{time.monotonic_ns()}.json"
        variables = self.variables(
            case,
            PROBE_PLAN=json.dumps(plan),
            PROBE_FILE=str(file),
            PROBE_BATCHES="60" if self.on_gpu else "12",
            PROBE_SKIP="10" if self.on_gpu else "3",
            PROBE_PROFILED="20" if self.on_gpu else "4",
            PROBE_COMPILE=str(int(compiles)),
            PROBE_CHANNELS_LAST=str(int(channels_last)),
        )
        if who == "loop":
            command, where = [sys.executable, "probe_loop.py"], self.folder
        else:
            command = self.lab_command(
                case, len(plan), channels_last, compiles, "probe", "probe_modules.Phases"
            )
            where = self.project
        self.run(f"{case} {label}", command, where, variables, need_s)
        if file.exists():  # also of a process that ended badly: what it had by then
            self.results.setdefault(label, []).append(json.loads(file.read_text()))
            self.write()

    def step(self, who: str, case: str, need_s: float) -> float | None:
        """ms of a step as gpu_step.py measures it."""
        compiles = case != "smallest"
        variables = self.variables(case, PROBE_COMPILE=str(int(compiles)))
        if not self.on_gpu:
            variables["PROBE_BATCHES"] = "3"
        out = self.project / "step_s.json"
        out.unlink(missing_ok=True)
        if who == "loop":
            log = self.folder / "log.txt"
            if not self.run(
                f"{case} {who}", [sys.executable, "loop.py"], self.folder, variables, need_s
            ):
                return None
            lines = [line for line in log.read_text().splitlines() if line[:1].isdigit()]
            seconds = json.loads(lines[-1])
        else:
            command = self.lab_command(
                case, 4, case == "resnet18", compiles, "memory", "modules.Timer"
            )
            if (
                not self.run(f"{case} {who}", command, self.project, variables, need_s)
                or not out.exists()
            ):
                return None
            seconds = json.loads(out.read_text())
        self.steps.setdefault(f"{case} {who}", []).append(1e3 * seconds)
        self.write()
        return 1e3 * seconds

    def write(self) -> None:
        out = Path(os.environ.get("OUT") or "build/gpu_probe")
        out.mkdir(parents=True, exist_ok=True)
        content = {
            "phases": self.results,
            "steps_ms": self.steps,
            "notes": self.notes,
            "machine": self.machine,
        }
        (out / "gpu_probe.json").write_text(json.dumps(content, indent=1))
        (out / "gpu_probe.txt").write_text(self.report())

    def report(self) -> str:
        lines = ["", f"machine: {self.machine}"]
        names: list[str] = []
        for runs in self.results.values():
            for run in runs:
                names += list(
                    dict.fromkeys(
                        row["phase"] for row in run["phases"] if row["phase"] not in names
                    )
                )
        labels = list(self.results)
        lines += ["", "ResNet-18, ms a step: epoch / inner (rounds)"]
        lines.append(
            f"{'phase':<20}"
            + "".join(f"{label:>34}" for label in labels)
            + f"{'lab/loop inner':>16}"
        )
        for name in names:
            if name.startswith("profile") or name == "warm":
                continue
            cells, inner = "", {}
            for label in labels:
                rows = [
                    row
                    for run in self.results[label]
                    for row in run["phases"]
                    if row["phase"] == name and "inner_ms" in row
                ]
                text = "; ".join(f"{row['epoch_ms']:.2f}/{row['inner_ms']:.2f}" for row in rows)
                cells += f"{text:>34}"
                if rows:
                    inner[label] = statistics.median(row["inner_ms"] for row in rows)
            base = inner.get("loop") or next(
                (statistics.median(r) for r in [self.inner("loop", "as_is")] if r), None
            )
            ratio = f"{inner['lab'] / base:.3f}" if inner.get("lab") and base else ""
            lines.append(f"{name:<20}{cells}{ratio:>16}")
        for label in labels:
            for run in self.results[label][:1]:
                lines += [
                    "",
                    f"{label}: state in a training step: {json.dumps(run.get('state'))}",
                    f"{label}: dynamo: {json.dumps(run.get('dynamo'))}",
                ]
                for row in run["phases"]:
                    if "syncs_per_step" in row:
                        places = dict(row.get("sync_places", {}))
                        waits = f"{row['syncs_per_step']} at {places}"
                        lines.append(f"{label}: waits for the device per step: {waits}")
                    if "top" in row:
                        lines += ["", f"{label}, {row['phase']}: {profile_line(row)}"]
                        lines += [
                            f"    {ms:9.4f} ms  {n:6.2f} x  {kernel}"
                            for kernel, ms, n in row["top"]
                        ]
        lines.append("")
        for case in ("resnet18", "transformer", "smallest"):
            lab, loop = self.steps.get(f"{case} lab"), self.steps.get(f"{case} loop")
            if lab or loop:
                both = zip(lab or [], loop or [], strict=False)
                ratios = ", ".join(f"{a / b:.3f}" for a, b in both)
                lines.append(
                    f"{case}, as gpu_step.py: lab {rounded(lab)} ms, loop {rounded(loop)} ms, ratios {ratios}"
                    + (f", depth {self.depth}" if case == "smallest" else "")
                )
        lines += [f"! {note}" for note in self.notes]
        return "\n".join(lines) + "\n"

    def inner(self, label: str, name: str) -> list[float]:
        return [
            row["inner_ms"]
            for run in self.results.get(label, [])
            for row in run["phases"]
            if row["phase"] == name and "inner_ms" in row
        ]

    def go(self) -> None:
        self.machine = machine(self.on_gpu)
        print(self.machine, flush=True)
        self.phases(
            "loop", "resnet18", LOOP_PLAN, 60
        )  # compiles first: the other finds its kernels
        self.phases("lab", "resnet18", LAB_PLAN, 40)
        print(self.report(), flush=True)
        probe_s = self.step("loop", "smallest", 15)
        self.steps.pop("smallest loop", None)
        if probe_s and self.on_gpu:
            self.depth = max(1, round(self.depth * 3.0 / probe_s))
        for _ in range(2):
            for case in ("smallest", "transformer"):
                for who in ("lab", "loop"):
                    self.step(who, case, 15)
        self.phases("loop", "resnet18", AGAIN, 25)
        self.phases("lab", "resnet18", AGAIN, 25)
        for who in ("loop", "lab"):
            self.phases(who, "resnet18", ["warm", "as_is"], 20, channels_last=False, compiles=False)
        for who in ("loop", "lab"):
            self.phases(who, "resnet18", ["warm", "as_is", "eager"], 40, channels_last=False)
        print(self.report(), flush=True)


def profile_line(row: dict) -> str:
    """Kernels, the device's time and the calls of a step."""
    return (
        f"{row['kernels_per_step']:.1f} kernels a step "
        f"({row['triton_kernels_per_step']:.1f} of Triton), device busy "
        f"{row['busy_ms_per_step']:.3f} of {row['span_ms_per_step']:.3f} ms; "
        f"calls a step: {row['runtime_calls_per_step']}"
    )


def rounded(values: list[float] | None) -> list[float]:
    return [round(value, 3) for value in values or []]


def machine(on_gpu: bool) -> str:
    import lightning
    import torch

    words = [f"torch {torch.__version__}", f"lightning {lightning.__version__}"]
    words += [f"Python {sys.version.split()[0]}", f"{os.cpu_count()} cores"]
    if on_gpu:
        words.append(
            f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}"
        )
        query = "clocks.sm,clocks.max.sm,clocks.mem,power.draw,power.limit,temperature.gpu"
        query += ",utilization.gpu,driver_version"
        try:
            done = subprocess.run(
                ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"],
                capture_output=True,
                text=True,
                timeout=20,
            )
            words.append(f"{query} = {done.stdout.strip()}")
        except (OSError, subprocess.TimeoutExpired):
            words.append("no nvidia-smi")
    return "; ".join(words)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repo", type=Path)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--cpu", action="store_true")
    words = parser.parse_args()
    candidates = [words.repo] if words.repo else [Path.cwd()]
    repo = next(
        (one.resolve() for one in candidates if (one / "benchmarks/gpu_step_programs.py").exists()),
        None,
    )
    if repo is None:
        sys.exit(f"no benchmarks/gpu_step_programs.py in {candidates}: --repo DIR")
    import torch

    if not words.cpu and not torch.cuda.is_available():
        sys.exit("torch sees no GPU; --cpu rehearses")
    os.environ.setdefault("OUT", str(Path("build/gpu_probe").resolve()))
    with tempfile.TemporaryDirectory(prefix="gpu_probe_") as folder:
        Probe(repo, Path(folder), "cpu" if words.cpu else "cuda", words.minutes).go()


if __name__ == "__main__":
    main()
