"""Generated sounds of different lengths, each of several kinds at once.

generated                lab data pack audio        -> data/audio.h5: wav int16 (ragged), y uint8 (5,)
data/audio.h5            training step              -> wav_BN int16, tag_BK uint8
wav_BN int16             on_after_batch_transfer    -> float32 in -1..1
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from labrig import H5DataModule

TAGS = ("tone", "chirp", "clicks", "noise", "vibrato")
RATE_HZ = 8000
N_SAMPLES = 1200


class Sounds(H5DataModule):
    """1,200 clips of 0.8 to 2 s at 8 kHz, with one to three of five kinds of sound in each."""

    @classmethod
    def samples(cls, source: None) -> Iterator[dict[str, Any]]:
        rng = np.random.default_rng(0)
        for _ in range(N_SAMPLES):
            has_tag = np.zeros(len(TAGS), np.uint8)
            has_tag[rng.permutation(len(TAGS))[: rng.integers(1, 4)]] = 1
            t_s = np.arange(int(RATE_HZ * rng.uniform(0.8, 2.0))) / RATE_HZ
            wav = 0.05 * rng.normal(size=len(t_s))
            for k in np.flatnonzero(has_tag):
                wav += rng.uniform(0.08, 0.3) * sound(TAGS[k], t_s, rng)
            yield {"wav": (20000 * wav.clip(-1.5, 1.5)).astype(np.int16), "y": has_tag}

    def on_after_batch_transfer(self, batch: tuple, dataloader_idx: int) -> tuple:
        """(wav_BN, tag_BK), both float32."""
        wav, *tags = batch
        return wav.float() / 32768, *(tag.to(torch.float32) for tag in tags)


def sound(tag: str, t_s: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A sound of one kind, in -1..1, at the times `t_s`."""
    pitch_Hz = rng.uniform(300, 3000)
    if tag == "tone":
        return np.sin(2 * np.pi * pitch_Hz * t_s)
    if tag == "chirp":  # rises by an octave, five times a second
        return np.sin(2 * np.pi * pitch_Hz * (t_s + 0.5 * (t_s % 0.2) ** 2 / 0.2))
    if tag == "clicks":
        return (t_s % rng.uniform(0.05, 0.15) < 0.001) * 3.0
    if tag == "noise":  # of a band
        return np.convolve(rng.normal(size=len(t_s)), np.ones(8) / 4, mode="same")
    depth_s = rng.uniform(0.1, 0.2) / (2 * np.pi * 6)
    return np.sin(2 * np.pi * pitch_Hz * (t_s + depth_s * np.sin(2 * np.pi * 6 * t_s)))
