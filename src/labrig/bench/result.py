"""What one bench measured, and how it is kept as JSON."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass, field
from typing import Any

import msgspec

from .peaks import peak_tflops

SCHEMA = 1


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
