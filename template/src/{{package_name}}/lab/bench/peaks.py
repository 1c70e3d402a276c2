# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Peak speeds of NVIDIA's GPUs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Peak:
    """Dense TFLOP/s of one GPU; `half` is bfloat16 and float16 on tensor cores."""

    float32: float
    tf32: float
    half: float


PEAKS = {  # from NVIDIA's data sheets
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
    """The peak of a GPU in the precision of a training; None when the table does not have it.

    Args:
        gpu: name as CUDA gives it, such as "NVIDIA A100-SXM4-40GB".
        precision: `trainer.precision`, resolved.
        matmul_precision: `trainer.matmul_precision`; "highest" keeps products in float32.
    """
    names = [name for name in PEAKS if name.lower() in gpu.lower()]
    if not names:
        return None
    peak = PEAKS[max(names, key=len)]  # "H100 PCIe" before "H100"
    if "16" in precision:
        return peak.half
    if matmul_precision == "highest":
        return peak.float32
    return peak.tf32
