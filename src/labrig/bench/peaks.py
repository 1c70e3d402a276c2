"""Peak speeds of NVIDIA's GPUs."""

from __future__ import annotations

import re
from dataclasses import dataclass

MIG_SLICES = 7  # a GPU is divided into so many; a name such as "MIG 2g.10gb" says how many are ours


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
