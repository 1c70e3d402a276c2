"""Which weights are tested: the last ones or the best, recorded and shown."""

import lightning.pytorch as L
import pytest
import torch
from attempts import attempt
from labrig.errors import LabError

SETTINGS = (
    "trainer.max_epochs=4",
    "trainer.limit_train_batches=2",
    "task._target_=test_test_with.FirstIsBest",
    "checkpoint.monitor=val/acc",
    "checkpoint.mode=max",
)
STOPPING = "+callbacks.stop={_target_: lightning.pytorch.callbacks.EarlyStopping, monitor: val/acc, mode: max}"


class FirstIsBest(L.LightningModule):
    """Its accuracy falls from epoch to epoch."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.register_buffer("epochs", torch.zeros(()))

    def training_step(self, batch, batch_idx):
        return 0 * self.weight

    def on_train_epoch_start(self):
        self.epochs += 1

    def validation_step(self, batch, batch_idx):
        return {"acc": 1 - self.epochs / 10}

    test_step = validation_step

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "weights", "acc"),
    [
        ((), "last", 0.6),
        (("trainer.test_with=best",), "best", 0.9),
        ((STOPPING,), "best", 0.9),
        ((STOPPING, "trainer.test_with=last"), "last", 0.6),
    ],
)
def test_what_is_tested_is_what_was_asked_for(home, tmp_path, settings, weights, acc):
    run = attempt(home, tmp_path, *SETTINGS, *settings)
    assert run.start["tested_weights"] == weights
    assert run.metrics["test/acc"] == pytest.approx(acc)
    assert run.metrics["val/acc_best"] == pytest.approx(0.9)
    assert run.metrics["val/acc"] == pytest.approx(0.6)


@pytest.mark.slow
def test_a_best_that_is_not_there_is_refused(home, tmp_path):
    with pytest.raises(LabError, match=r"no best.ckpt.*val/nosuch"):
        attempt(
            home, tmp_path, *SETTINGS, "trainer.test_with=best", "checkpoint.monitor=val/nosuch"
        )
