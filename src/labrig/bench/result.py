"""What one bench measured, kept as JSON in a file named after code and settings; the peak speeds of GPUs."""

from __future__ import annotations

import hashlib
import json
import re
import statistics
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from omegaconf import DictConfig

from ..config.resolve import plain_values, resolve
from ..project import Project
from ..record.files.atomic import read_advisory
from ..record.files.schema import Code
from ..record.freeze.frozen import frozen_code, frozen_directory
from ..record.freeze.git import NoRepository
from ..record.freeze.snapshot import snapshot

SCHEMA = 1


MIG_SLICES = 7  # a GPU is divided into so many; a name such as "MIG 2g.10gb" says how many are ours
# The time of a step does not depend on these sections, nor on these keys of `trainer`
OTHER_SECTIONS = (
    "budget",
    "callbacks",
    "checkpoint",
    "job",
    "log",
    "logger",
    "paths",
    "profile",
    "record",
    "schedule",
    "seed",
    "site",
)
OTHER_TRAINER_KEYS = (
    "check_val_every_n_epoch",
    "devices",
    "max_epochs",
    "max_steps",
    "test_after_fit",
    "test_with",
    "val_every_steps",
)


@dataclass(frozen=True)
class Peak:
    """Dense TFLOP/s of one GPU; `half` is bfloat16 and float16, on tensor cores where there are any."""

    float32: float
    tf32: float
    half: float


PEAKS = {  # from NVIDIA's data sheets
    "K80": Peak(4.4, 4.4, 4.4),  # one of the two GPUs of a card
    "P40": Peak(11.8, 11.8, 11.8),  # its fp16 is slower, so it is of no use
    "P100": Peak(10.6, 10.6, 21.2),
    "V100": Peak(15.7, 15.7, 125),
    "T4": Peak(8.1, 8.1, 65),
    "A100": Peak(19.5, 156, 312),
    "A40": Peak(37.4, 74.8, 150),
    "L4": Peak(30.3, 60, 121),
    "L40S": Peak(91.6, 183, 362),
    "RTX 3090": Peak(35.6, 35.6, 71),
    "RTX 4090": Peak(82.6, 82.6, 165),
    "H100 PCIe": Peak(51, 378, 756),
    "H100": Peak(67, 495, 989),
    "GH200": Peak(67, 495, 989),
    "H200": Peak(67, 495, 989),
    "B200": Peak(75, 1100, 2250),
}


def peak_tflops(gpu: str, precision: str, matmul_precision: str = "high") -> float | None:
    """The peak of a GPU, or of its part, in the precision of a training.

    None when the table does not have the GPU.

    Args:
        gpu: name as CUDA gives it, such as "NVIDIA A100-SXM4-40GB" or, of a part of one,
            "NVIDIA A100-SXM4-40GB MIG 1g.5gb".
        precision: `trainer.precision`, resolved.
        matmul_precision: `trainer.matmul_precision`; "highest" keeps products in float32.
    """
    names = [name for name in PEAKS if name.lower() in gpu.lower()]
    if not names:
        return None
    peak = PEAKS[max(names, key=len)]  # "H100 PCIe" before "H100"
    part = re.search(r"MIG (\d)g", gpu)
    share = int(part[1]) / MIG_SLICES if part else 1.0
    if "16" in precision:
        return peak.half * share
    if matmul_precision == "highest":
        return peak.float32 * share
    return peak.tf32 * share


@dataclass(frozen=True)
class Spread:
    """Median and least of some times, and the distance of their quartiles; all in seconds."""

    median: float
    min: float
    spread: float

    @classmethod
    def of(cls, times_s: list[float]) -> Spread:
        if len(times_s) == 1:
            return cls(times_s[0], times_s[0], 0.0)
        low, middle, high = statistics.quantiles(times_s, n=4)
        return cls(middle, min(times_s), high - low)


@dataclass(frozen=True)
class StageTimes:
    """Seconds that each stage of a training takes; a forecast adds them up."""

    startup: float  # from the command to the first batch
    step: float  # one optimizer step
    epoch: float  # what an epoch takes beyond its steps
    val: float  # the whole val split, once
    test: float  # the whole test split, once
    checkpoint: float  # one checkpoint


@dataclass(frozen=True)
class MemoryBytes:
    """Bytes of each kind on one device."""

    weights: int
    gradients: int
    optimizer: int
    activations: int
    peak: int | None  # that torch's allocator held during the measured steps; None on a CPU
    device: int | None  # of the whole device; None on a CPU


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What was measured, with the settings that were resolved for this machine.

    A share is a part of a step, from 0 to 1. The parts are those of `chronometer.STEP_PARTS`.
    """

    accelerator: str
    device: str
    devices: int
    precision: str
    matmul_precision: str
    threads: int
    deterministic: bool
    accumulate_grad_batches: int
    world_size: int
    n_steps: int  # that were timed
    samples_per_step: int  # over all processes
    steps_per_epoch: int | None  # None: the data has no known length
    step_s: Spread
    parts_s: dict[str, Spread]
    shares: dict[str, float]
    launch_s: float  # least time that Python needs for a step without loading
    samples_per_s: float  # over all processes
    power_w: float | None  # of one GPU
    joules_per_sample: float | None
    times_s: StageTimes
    flops_per_step: int  # on one device
    n_parameters: int
    uneven: list[str]  # layers with a dimension that is no multiple of 8
    memory_bytes: MemoryBytes
    copy_share: float = 0.0  # of the copies to the device, a part of that of `load`
    loop: str = ""  # which loop ran the steps, and why
    # part -> seconds of each measured step, for the plot; not kept
    series_s: dict[str, list[float]] = field(default_factory=dict)

    @property
    def tflops(self) -> float:
        """TFLOP/s of one device."""
        return self.flops_per_step / self.step_s.median / 1e12

    @property
    def peak_share(self) -> float | None:
        """`tflops` as a share of the device's peak, 0 to 1; None when the peak is not known."""
        peak = peak_tflops(self.device, self.precision, self.matmul_precision)
        return None if peak is None else self.tflops / peak


@dataclass(frozen=True)
class BenchFinding:
    """Something that the figures show; `settings` would change it, with their values now."""

    name: str
    why: str
    settings: str


@dataclass(frozen=True)
class Forecast:
    """What a training will take."""

    seconds: float
    n_steps: int
    n_devices: int
    device: str
    rough: bool  # not measured on these devices
    gpu_hours: float | None  # None on a CPU
    kwh: float | None  # None when the power is not known
    cost: float | None  # in `currency`; None without a price
    currency: str | None


@dataclass(frozen=True, kw_only=True)
class BenchResult:
    """One bench: what ran, what was measured, what limits it, and how long a training will take.

    `scaling` is samples/s by number of devices, "1" among them, where `lab bench --scaling` ran.
    """

    trial: str
    overrides: list[str]
    code: dict[str, Any]  # commit, tree, dirty; each None where there is no repository
    host: str
    created: str  # ISO 8601
    measured: Measurement
    verdict: list[BenchFinding] = field(default_factory=list)
    forecast: list[Forecast | None] = field(default_factory=list)  # None: the end is not known
    scaling: dict[str, float] | None = None

    def as_json(self) -> dict[str, Any]:
        """The content of the file; the keys of the measurement stand among the others."""
        content: dict[str, Any] = {"schema": SCHEMA} | asdict(self)
        content |= content.pop("measured")
        del content["series_s"]
        content["tflops"] = self.measured.tflops
        content["peak_share"] = self.measured.peak_share
        content["verdict"] = [
            {"name": finding.name, "why": finding.why, "try": finding.settings}
            for finding in self.verdict
        ]
        if self.scaling is None:
            del content["scaling"]
        return content

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> BenchResult:
        """The result whose `as_json` is `content`.

        Raises:
            msgspec.ValidationError: it has another form.
        """
        verdict = [one | {"settings": one.get("try")} for one in content.get("verdict", [])]
        return msgspec.convert(content | {"measured": content, "verdict": verdict}, cls)


def resolved_settings(config: DictConfig | dict[str, Any]) -> dict[str, Any]:
    """Settings as plain data without interpolations; a dict is that already."""
    return config if isinstance(config, dict) else plain_values(resolve(config))


def bench_path(config: DictConfig | dict[str, Any], tree: str | None) -> Path:
    """The file of the bench of these settings and this git tree.

    It is runs/<trial>/bench-<tree>-<settings>.json. Settings that do not change the time of a step make no difference.
    """
    settings = resolved_settings(config)
    measured = {key: value for key, value in settings.items() if key not in OTHER_SECTIONS}
    measured["trainer"] = {
        key: value for key, value in settings["trainer"].items() if key not in OTHER_TRAINER_KEYS
    }
    # The numbers of the optimizer make no difference either; its switches do
    measured["optimizer"] = {
        key: value
        for key, value in settings["optimizer"].items()
        if type(value) not in (int, float)
    }
    text = json.dumps(measured, sort_keys=True, default=str)
    settings_hash = hashlib.sha256(text.encode()).hexdigest()[:6]
    name = f"bench-{(tree or 'unrecorded')[:12]}-{settings_hash}.json"
    return Path(settings["paths"]["runs"], settings["trial"].replace("/", "+"), name)


def read_bench(config: DictConfig | dict[str, Any], tree: str | None) -> BenchResult | None:
    """The bench of these settings and this git tree; None when there is none of this version."""
    content = read_advisory(bench_path(config, tree))
    if content is None or content.get("schema") != SCHEMA:
        return None
    try:
        return BenchResult.from_json(content)
    except (msgspec.ValidationError, TypeError, AttributeError):  # it only helps, whatever is in it
        return None


def code_that_runs(project: Project, config: DictConfig) -> dict[str, Any]:
    """Commit, tree and dirty of the code that runs; each None where there is no repository."""
    code: Code = {}
    if frozen_directory():
        code = frozen_code()
    else:
        with suppress(NoRepository):
            code = snapshot(project.root, max_file_mb=config.record.max_file_mb)
    return {key: code.get(key) for key in ("commit", "tree", "dirty")}
