"""What torch says of this process: versions, flags, threads and GPUs."""

from __future__ import annotations

import sys
from typing import Any

from ..machine.gpu import nvidia_driver


def torch_facts() -> dict[str, Any]:
    """Versions, flags, threads and GPUs (model and UUID) of this process.

    Empty until torch is imported.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    gpus = [torch.cuda.get_device_properties(n) for n in range(torch.cuda.device_count())]
    return {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version() if gpus else None,
        "driver": nvidia_driver(),
        "gpus": [{"model": gpu.name, "uuid": f"GPU-{gpu.uuid}"} for gpu in gpus],
        "threads": torch.get_num_threads(),
        "determinism": {
            "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
            "cudnn_benchmark": torch.backends.cudnn.benchmark,
            "cudnn_deterministic": torch.backends.cudnn.deterministic,
            "float32_matmul_precision": torch.get_float32_matmul_precision(),
        },
    }
