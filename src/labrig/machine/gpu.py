"""NVIDIA GPUs of this node, asked through NVIDIA's management library (NVML, the package nvidia-ml-py)."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

from ..errors import Refused
from ..project import say_once

BUSY_PERCENT = 10  # a desktop uses less


@dataclass(frozen=True)
class Gpu:
    """One GPU. A figure that this GPU or its driver does not report is None."""

    index: int  # in the order of nvidia-smi
    uuid: str
    name: str
    memory_MB: int
    used_MB: int
    celsius: int | None = None
    power_W: int | None = None
    utilization_percent: int | None = None  # share of the last second in which a kernel ran
    uncorrected_errors: int | None = None  # of its memory, since the driver was loaded
    slowed_down: bool | None = None  # by the hardware, because of heat or power
    n_processes: int | None = None  # that compute on it

    @property
    def free_MB(self) -> int:
        return self.memory_MB - self.used_MB

    @property
    def is_in_use(self) -> bool:
        """Whether something computes on it, as far as the driver says."""
        return bool(self.n_processes) or (self.utilization_percent or 0) >= BUSY_PERCENT


def gpus() -> list[Gpu]:
    """The GPUs that the driver shows to this process; empty without a driver.

    One that has fallen off the bus (Xid 79) is left out, and a line says so.
    """
    nvml = load_nvml()
    if nvml is None:
        return []
    answering = []
    for index in range(ask(nvml, nvml.nvmlDeviceGetCount) or 0):
        try:
            answering.append(read_gpu(nvml, index))
        except nvml.NVMLError as error:
            say_once(
                f"GPU {index} does not answer ({error}), so it is left out. "
                "Tell who runs this machine: it needs a restart"
            )
    return answering


@cache
def load_nvml() -> Any:
    """The module pynvml, initialised; None where there is no NVIDIA driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return pynvml


def read_gpu(nvml: Any, index: int) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    celsius = ask(nvml, nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU)
    utilization = ask(nvml, nvml.nvmlDeviceGetUtilizationRates, handle)
    n_errors = ask(
        nvml,
        nvml.nvmlDeviceGetTotalEccErrors,
        handle,
        nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
        nvml.NVML_VOLATILE_ECC,
    )
    power_mW = ask(nvml, nvml.nvmlDeviceGetPowerUsage, handle)
    running = ask(nvml, nvml.nvmlDeviceGetComputeRunningProcesses, handle)
    # the older name of "clocks event reasons", which drivers of every age answer
    reasons = ask(nvml, nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
    slowed_down = None
    if reasons is not None:
        slowed_down = bool(reasons & nvml.nvmlClocksThrottleReasonHwSlowdown)
    return Gpu(
        index=index,
        uuid=nvml.nvmlDeviceGetUUID(handle),
        name=nvml.nvmlDeviceGetName(handle),
        memory_MB=memory.total >> 20,
        used_MB=memory.used >> 20,
        celsius=celsius,
        power_W=None if power_mW is None else round(power_mW / 1000),
        utilization_percent=None if utilization is None else utilization.gpu,
        uncorrected_errors=n_errors,
        slowed_down=slowed_down,
        n_processes=None if running is None else len(running),
    )


def processes_on(gpu: Gpu) -> dict[int, int | None]:
    """The processes that compute on a GPU, each with its memory in MB; None where it is hidden."""
    nvml = load_nvml()
    handle = ask(nvml, nvml.nvmlDeviceGetHandleByIndex, gpu.index)
    running = ask(nvml, nvml.nvmlDeviceGetComputeRunningProcesses, handle) or []
    return {
        each.pid: None if each.usedGpuMemory is None else each.usedGpuMemory >> 20
        for each in running
    }


def ask(nvml: Any, question: Callable[..., Any], *arguments: Any) -> Any:
    """What NVML answers; None when this GPU or driver does not support the question."""
    try:
        return question(*arguments)
    except nvml.NVMLError:
        return None


def some_are_connected_through_cpus() -> bool:
    """Whether two GPUs reach each other only through the link between processors (SYS in `nvidia-smi topo -m`)."""
    nvml = load_nvml()
    if nvml is None:
        return False
    numbers = range(nvml.nvmlDeviceGetCount())
    handles = [ask(nvml, nvml.nvmlDeviceGetHandleByIndex, n) for n in numbers]
    levels = [
        ask(nvml, nvml.nvmlDeviceGetTopologyCommonAncestor, one, other)
        for one, other in combinations(handles, 2)
    ]
    return nvml.NVML_TOPOLOGY_SYSTEM in levels


def require_gpus(n: int) -> None:
    """ """
    n_here = len(gpus())
    if n_here < n:
        raise Refused(
            f"job.gpus={n}, but this machine has {n_here} NVIDIA GPUs. Without one: job.gpus=0"
        )


def nvidia_driver() -> str | None:
    """Version of NVIDIA's kernel driver, from /proc: at the start of a run, NVML would take too long."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8")
    except OSError:
        return None
    version = re.search(r"\d+\.\d+(\.\d+)?", text)
    return version[0] if version else None


def cuda_of_driver() -> tuple[int, int] | None:
    """The newest version of CUDA that the driver runs, such as (12, 4); None without a driver."""
    nvml = load_nvml()
    version = None if nvml is None else ask(nvml, nvml.nvmlSystemGetCudaDriverVersion)
    if version is None:
        return None
    return version // 1000, version % 1000 // 10


def cuda_in_use() -> Any:
    """torch.cuda when this process uses GPUs, else None. Never imports torch."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    return torch.cuda


def peak_gpu_bytes() -> int | None:
    """The most memory that torch's allocator held on one GPU of this process; None without one."""
    cuda = cuda_in_use()
    if cuda is None:
        return None
    return max(cuda.max_memory_reserved(n) for n in range(cuda.device_count()))


def utilization_percent(index: int) -> int | None:
    """Share of the last second in which a kernel ran on this process's GPU `index`.

    None where the driver does not report it, as for a part of a GPU (MIG).
    """
    cuda = cuda_in_use()
    nvml = load_nvml()
    if cuda is None or nvml is None:
        return None
    handle = handle_of(nvml, cuda, index)
    if handle is None:
        return None
    rates = ask(nvml, nvml.nvmlDeviceGetUtilizationRates, handle)
    return None if rates is None else rates.gpu


def handle_of(nvml: Any, cuda: Any, index: int) -> Any:
    """NVML's handle of this process's GPU `index`; None for a part of a GPU (MIG)."""
    properties = cuda.get_device_properties(index)
    # its UUID may be that of the whole GPU, whose figures are not ours
    if " MIG " in properties.name:
        return None
    return ask(nvml, nvml.nvmlDeviceGetHandleByUUID, f"GPU-{properties.uuid}")


def energy_j() -> float | None:
    """Joules that this process's GPUs have used since the driver was loaded; None when one does not report it."""
    cuda = cuda_in_use()
    if cuda is None:
        return None
    nvml = load_nvml()
    if nvml is None:
        return None
    total_mj = 0
    for n in range(cuda.device_count()):
        handle = handle_of(nvml, cuda, n)
        if handle is None:
            return None
        energy_mj = ask(nvml, nvml.nvmlDeviceGetTotalEnergyConsumption, handle)
        if energy_mj is None:
            return None
        total_mj += energy_mj
    return total_mj / 1000


# Waits until GPUs have done nothing for a long time.

CHECK_EVERY_S = 30
IDLE_MIN = 30  # minutes at 0 % on all of the GPUs


def wait_until_idle(
    is_running: Callable[[], bool],
    read_percents: Callable[[], Collection[int | None]],
    idle_min: float = IDLE_MIN,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> bool:
    """Whether the GPUs were idle for `idle_min` minutes; False when the work has ended before.

    Args:
        is_running: whether the work still runs.
        read_percents: the use of each GPU; None, or no answer, counts as busy.
    """
    last_busy_s = clock()
    while is_running():
        if set(read_percents()) != {0}:
            last_busy_s = clock()
        if clock() - last_busy_s >= idle_min * 60:
            return True
        sleep(CHECK_EVERY_S)
    return False
