"""What limits a step, and which settings may help."""

from __future__ import annotations

from omegaconf import DictConfig, OmegaConf

from .result import BenchFinding, Measurement

# Shares of a step, or of what is named; above them the finding holds
DATA_BOUND = 0.2
OVERHEAD_BOUND = 0.25
LAUNCH_BOUND = 0.8  # of the time without loading
LAUNCH_BOUND_PEAK = 0.3  # of the GPU's peak; above it the GPU is busy all the same
FULL_MEMORY = 0.9
UNSTEADY = 0.3  # distance of the quartiles over the median


def list_findings(measured: Measurement, config: DictConfig) -> list[BenchFinding]:
    """What limits the step, followed by whatever else deserves a look."""
    findings = [find_limit(measured, config), find_overhead(measured, config)]
    return [*findings, *find_warnings(measured, config)]


def find_limit(measured: Measurement, config: DictConfig) -> BenchFinding:
    """The one thing that limits the step."""
    shares = measured.shares
    if shares["load"] >= DATA_BOUND:
        why = f"{shares['load']:.0%} of a step waits for data (disks: lab data bench)"
        return BenchFinding(
            "data-bound", why, with_values(config, "data.num_workers", "data.stage")
        )
    if waits_for_python(measured):
        why = "the GPU waits for Python: for many small kernels, or at an .item()"
        return BenchFinding(
            "launch-bound", why, with_values(config, "data.batch_size", "speed.compile")
        )
    if shares["other"] >= OVERHEAD_BOUND:
        why = f"{shares['other']:.0%} of a step is neither data nor model"
        keys = ("data.batch_size", "log.every_n_steps", "callbacks")
        return BenchFinding("overhead-bound", why, with_values(config, *keys))
    keys = ("trainer.devices", "speed.compile")
    if on_gpu(measured):
        keys += ("trainer.precision", "speed.channels_last")
    else:
        keys += ("trainer.threads",)
    return BenchFinding(
        "compute-bound", "the step is spent in the model", with_values(config, *keys)
    )


def find_overhead(measured: Measurement, config: DictConfig) -> BenchFinding:
    """What a step costs above the network, by what it goes to, and the one setting that changes the
    largest part."""
    copies = measured.copy_share
    python = measured.shares["other"]
    share_of = {
        "waits for data": measured.shares["load"] - copies,
        "copies to the device": copies,
        "Python of the loop and the callbacks": python,
    }
    setting_of = {
        "waits for data": "data.num_workers",
        "copies to the device": "data.copy_ahead" if on_gpu(measured) else "data.batch_size",
        "Python of the loop and the callbacks": "data.batch_size",
    }
    if OmegaConf.select(config, "speed.lean_loop") is False:
        setting_of["Python of the loop and the callbacks"] = "speed.lean_loop"
    step_ms = 1e3 * measured.step_s.median
    parts = ", ".join(f"{name} {share * step_ms:.2f} ms" for name, share in share_of.items())
    total_ms = sum(share_of.values()) * step_ms
    largest = max(share_of, key=lambda name: share_of[name])
    loop = f"; steps run in {measured.loop}" if measured.loop else ""
    why = f"{total_ms:.2f} ms of {step_ms:.2f} ms ({parts}){loop}"
    return BenchFinding("above the network", why, with_values(config, setting_of[largest]))


def find_warnings(measured: Measurement, config: DictConfig) -> list[BenchFinding]:
    warnings = []
    memory = measured.memory_bytes
    if on_gpu(measured) and memory.peak and memory.device:
        fullness = memory.peak / memory.device
        if fullness > FULL_MEMORY:
            why = f"{fullness:.0%} of the device's memory is used"
            keys = (
                "data.batch_size",
                "trainer.accumulate_grad_batches",
                "speed.checkpoint_activations",
                "speed.fsdp",
            )
            warnings.append(BenchFinding("memory nearly full", why, with_values(config, *keys)))
        if "32" in measured.precision:
            why = "tensor cores are fastest in half precision"
            settings = with_values(config, "trainer.precision")
            warnings.append(BenchFinding("precision not used", why, settings))
        if measured.uneven:
            why = f"tensor cores idle in {', '.join(measured.uneven[:3])}"
            settings = with_values(config, "model")
            warnings.append(BenchFinding("dimensions not multiples of 8", why, settings))
    spread = measured.step_s.spread / measured.step_s.median
    if spread > UNSTEADY:
        why = f"the middle half of the steps spreads over {spread:.0%}; is the machine quiet?"
        settings = ""
        if not on_gpu(measured) and measured.threads > 1:
            settings = f"trainer.threads=1 (now {measured.threads})"
        warnings.append(BenchFinding("unsteady", why, settings))
    return warnings


def on_gpu(measured: Measurement) -> bool:
    return measured.device != "cpu"


def waits_for_python(measured: Measurement) -> bool:
    """Whether a GPU takes hardly longer for a step than Python takes to start its kernels."""
    if not on_gpu(measured):
        return False
    computing_s = (1 - measured.shares["load"]) * measured.step_s.median
    peak_share = measured.peak_share or 0.0
    return measured.launch_s > LAUNCH_BOUND * computing_s and peak_share < LAUNCH_BOUND_PEAK


def with_values(config: DictConfig, *keys: str) -> str:
    """The settings, each with its value now; a section only by name."""
    texts = []
    for key in keys:
        value = OmegaConf.select(config, key, default="")
        is_section = isinstance(value, DictConfig)
        texts.append(key if is_section else f"{key} (now {value})")
    return ", ".join(texts)
