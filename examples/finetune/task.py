"""Learns to write answers; predicts by writing them."""

import lightning.pytorch as L
import torch
from labrig import scheduled
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor, nn
from torch.nn import functional as F


class Answers(L.LightningModule):
    """Cross-entropy of the tokens of answers; by its places each text of a row sees itself only."""

    def __init__(self, model: nn.Module, optimizer, schedule) -> None:
        super().__init__()
        self.model = model
        self.make_optimizer = optimizer
        self.make_schedule = schedule

    def training_step(self, batch: tuple[Tensor, ...], batch_idx: int) -> Tensor:
        token_BT, place_BT, counts_BT = batch
        score_BTV = self.model(input_ids=token_BT, position_ids=place_BT, use_cache=False).logits
        wanted = token_BT.masked_fill(~counts_BT, -100)[:, 1:]
        return F.cross_entropy(score_BTV[:, :-1].flatten(0, 1).float(), wanted.flatten())

    validation_step = training_step
    test_step = training_step

    def predict_step(self, batch: tuple[Tensor, ...], batch_idx: int) -> dict[str, Tensor]:
        """Which part of the answers of a row are right to the last token: (B,) in 0..1."""
        rows = zip(*batch, strict=True)
        return {"right": torch.stack([self.answer(*row) for row in rows])}

    def answer(self, token_T: Tensor, place_T: Tensor, counts_T: Tensor) -> Tensor:
        right = []
        begins = (place_T == 0).nonzero().flatten().tolist()
        for begin, end in zip(begins, [*begins[1:], len(token_T)], strict=True):
            text, counts = token_T[begin:end], counts_T[begin:end]
            if counts.any():  # no padding
                question, answer = text[~counts][None], text[counts]
                written = self.model.generate(
                    input_ids=question, attention_mask=torch.ones_like(question),
                    do_sample=False, max_new_tokens=len(answer),
                )  # fmt: skip
                right.append(torch.equal(written[0, question.shape[1] :], answer))
        return torch.tensor(right, dtype=torch.float32).mean()

    def configure_optimizers(self) -> OptimizerLRScheduler:
        trained = [parameter for parameter in self.parameters() if parameter.requires_grad]
        return scheduled(self.make_optimizer(trained), self.make_schedule, self.trainer)
