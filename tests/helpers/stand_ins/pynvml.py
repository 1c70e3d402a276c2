"""Stands in for nvidia-ml-py where there is no GPU: the GPUs are those of the variable STAND_IN_GPUS.

Its value is JSON, a list of `{"name", "total_MB", "used_MB", …}`; a key that is missing is not supported by that GPU.
Or the path of a file with this JSON, which may change while processes look.
"""

import json
import os
import time
from types import SimpleNamespace

NVML_TEMPERATURE_GPU = 0
NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1
NVML_VOLATILE_ECC = 0
NVML_TOPOLOGY_SYSTEM = 50
nvmlClocksThrottleReasonHwSlowdown = 8


class NVMLError(Exception):
    pass


def nvmlInit():
    if "STAND_IN_GPUS" not in os.environ:
        raise NVMLError("NVML Shared Library Not Found")


def nvmlSystemGetCudaDriverVersion():
    return int(os.environ["STAND_IN_CUDA"])


def _devices():
    value = os.environ["STAND_IN_GPUS"]
    if value.startswith("/"):
        with open(value, encoding="utf-8") as file:
            value = file.read()
    return json.loads(value)


def nvmlDeviceGetCount():
    return len(_devices())


def nvmlDeviceGetHandleByIndex(index):
    gpu = _devices()[index]
    if gpu.get("is_lost"):  # Xid 79
        raise NVMLError("GPU is lost")
    return gpu | {"index": index}


def nvmlDeviceGetHandleByUUID(uuid):
    for index in range(nvmlDeviceGetCount()):
        if uuid == f"GPU-{index}":
            return nvmlDeviceGetHandleByIndex(index)
    raise NVMLError("Not Found")


def nvmlDeviceGetUUID(gpu):
    return f"GPU-{gpu['index']}"


def nvmlDeviceGetName(gpu):
    return gpu.get("name", "NVIDIA A100")


def nvmlDeviceGetMemoryInfo(gpu):
    return SimpleNamespace(total=gpu["total_MB"] << 20, used=gpu["used_MB"] << 20)


def _supported(gpu, key):
    if key not in gpu:
        raise NVMLError("Not Supported")
    return gpu[key]


def nvmlDeviceGetTemperature(gpu, sensor):
    return _supported(gpu, "celsius")


def nvmlDeviceGetUtilizationRates(gpu):
    return SimpleNamespace(gpu=_supported(gpu, "utilization_percent"))


def nvmlDeviceGetPowerUsage(gpu):
    return _supported(gpu, "power_mW")


def nvmlDeviceGetComputeRunningProcesses(gpu):
    return [
        SimpleNamespace(pid=pid, usedGpuMemory=None if used_MB is None else used_MB << 20)
        for pid, used_MB in _supported(gpu, "processes")
    ]


def nvmlDeviceGetTotalEccErrors(gpu, kind, counter):
    return _supported(gpu, "uncorrected_errors")


def nvmlDeviceGetCurrentClocksThrottleReasons(gpu):
    return _supported(gpu, "throttle_reasons")


def nvmlDeviceGetTopologyCommonAncestor(gpu, other):
    return _supported(gpu, "topology")


def nvmlDeviceGetTotalEnergyConsumption(gpu):
    energy_mj = _supported(gpu, "energy_mj")
    if energy_mj == "power times time":
        return int(gpu["power_mW"] * time.monotonic())
    return energy_mj
