"""Tagging: several classes may be right at once."""

import torch
from torch import Tensor
from torch.nn import functional as F

from ...task import Classifier


class Tagger(Classifier):
    """Binary cross-entropy of each tag. `acc` is the share of right tags, `exact` of clips with all."""

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> dict[str, Tensor]:
        wav_BN, tag_BK = batch
        score_BK = self.model(wav_BN)
        is_right_BK = (score_BK.detach() > 0) == (tag_BK > 0)
        return {
            "loss": F.binary_cross_entropy_with_logits(score_BK, tag_BK),
            "acc": is_right_BK.float().mean(),
            "exact": is_right_BK.all(1).float().mean(),
        }

    validation_step = training_step
    test_step = training_step

    def predict_step(self, batch: tuple[Tensor, ...], batch_idx: int) -> dict[str, Tensor]:
        """What `lab predict` writes: the probability of each tag."""
        return {"probability": torch.sigmoid(self.model(batch[0]))}
