"""Convolutions over a logarithmic spectrogram, as in CNN14 (arXiv:1912.10211), but small."""

import torch
from torch import nn


class SpectrogramCNN(nn.Module):
    """Scores (B, n_tags) of waveforms (B, N) in -1..1; each tag is a yes or a no of its own.

    Args:
        n_fft: samples of a spectrum; the image has n_fft / 2 rows.
        width: channels of the first convolution.
    """

    def __init__(self, n_tags: int = 5, n_fft: int = 256, width: int = 12) -> None:
        super().__init__()
        self.n_fft = n_fft
        self.register_buffer("window", torch.hann_window(n_fft), persistent=False)
        layers = []
        n_in = 1
        for n_out in (width, 2 * width, 4 * width):
            layers += [
                nn.Conv2d(n_in, n_out, 3, stride=2, padding=1, bias=False),
                nn.BatchNorm2d(n_out),
                nn.ReLU(),
            ]
            n_in = n_out
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(n_in, n_tags)

    def spectrogram(self, wav_BN: torch.Tensor) -> torch.Tensor:
        """(B, 1, n_fft / 2, frames): the logarithm of the power, about -2..2."""
        spectrum = torch.stft(
            wav_BN,
            self.n_fft,
            hop_length=self.n_fft // 2,
            window=self.window,
            return_complex=True,
        )
        return (spectrum[:, None, 1:].abs().square() + 1e-3).log10()

    def forward(self, wav_BN: torch.Tensor) -> torch.Tensor:
        image = self.features(self.spectrogram(wav_BN)).mean(2)  # over the frequencies
        return self.head(image.amax(2) + image.mean(2))  # over the time
