"""Metrics that are made of recorded means by a formula, such as an F1 of counts."""

import math

import lightning.pytorch as L
import pytest
import torch
from attempts import attempt
from labrig.errors import Failed, Refused
from labrig.training.watch.derived import Derived
from labrig.training.watch.means import LogMeans
from torch.utils.data import DataLoader


class Counted(L.LightningModule):
    """Its steps return means of counts, of which an F1 is made."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))

    def training_step(self, batch, batch_idx):
        loss = 0 * self.weight + batch.float().mean()
        tp = (batch % 2).float().mean()
        fp = (batch % 3 == 0).float().mean()
        return {"loss": loss, "tp": tp, "fp": fp, "rmse": loss.sqrt()}

    validation_step = test_step = training_step

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


DERIVED = {"ppl": "exp(loss)", "f1": "2 * tp / (2 * tp + fp)", "never": "exp(los)"}


@pytest.mark.parametrize("batch_size", [1, 4, 7])
def test_what_is_derived_is_of_the_mean_over_all_samples(capsys, batch_size):
    trainer = L.Trainer(
        accelerator="cpu",
        max_epochs=1,
        callbacks=[LogMeans(DERIVED)],
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        logger=False,
    )
    loader = DataLoader(torch.arange(9.0), batch_size=batch_size)
    trainer.fit(Counted(), loader, loader)
    metrics = dict(trainer.callback_metrics)
    trainer.test(Counted(), loader, verbose=False)
    metrics |= trainer.callback_metrics
    tp, fp = 4 / 9, 3 / 9
    expected = {"ppl": math.exp(4.0), "f1": 2 * tp / (2 * tp + fp)}
    for stage in ("train", "val", "test"):
        for name, value in expected.items():
            assert float(metrics[f"{stage}/{name}"]) == pytest.approx(value)
        assert f"{stage}/never" not in metrics
    told = [line for line in capsys.readouterr().out.splitlines() if "rmse: recorded as" in line]
    assert len(told) == 1


def test_a_name_that_a_step_returns_is_not_derived():
    with pytest.raises(Failed, match=r"log.derived.acc: a step returns acc too.*Choose another"):
        Derived({"acc": "1 - acc"}).added_to({"val/acc": 0.9}, "val", [""])


def test_a_training_that_overflows_ends_at_its_loss():
    means = {"val/loss": 1000.0, "val/mse": -1.0, "val/n": 0.0}
    derived = Derived({"ppl": "exp(loss)", "rmse": "sqrt(mse)", "ratio": "mse / n"})
    metrics = derived.added_to(means, "val", [""])
    assert metrics["val/ppl"] == math.inf
    assert math.isnan(metrics["val/rmse"])
    assert metrics["val/ratio"] == -math.inf


@pytest.mark.parametrize("formula", ["exp(loss", "exp(loss, 'a')", "loss('x')", "(lambda: a)()"])
def test_a_formula_that_cannot_be_read_is_refused(formula):
    with pytest.raises(Refused, match=r"is no formula: .* Write it in Python's notation"):
        Derived({"ppl": formula})


@pytest.mark.slow
def test_a_record_has_what_is_derived(home, tmp_path, capsys):
    formulas = "log.derived={ppl: 'exp(loss)', rmse: 'sqrt(mse)'}"
    run = attempt(home, tmp_path, "trainer.max_epochs=1", formulas)
    assert run.metrics["test/ppl"] == pytest.approx(math.exp(run.metrics["test/loss"]))
    assert "log.derived.rmse=sqrt(mse) has no effect" in capsys.readouterr().out
