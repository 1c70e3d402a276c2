"""Accumulated batches change the weights as one batch of the same samples, the last group too."""

import os

import lightning.pytorch as L
import pytest
import torch
from commands import free_port
from labrig.errors import LabError
from labrig.training.exact.plain_loaders import PlainLoaders
from labrig.training.parts.accumulation import WholeGroups
from ranks import run_ranks
from torch.utils.data import DataLoader, TensorDataset

SAMPLES_N2 = torch.randn(23, 2, generator=torch.Generator().manual_seed(0))
ROWS_NT2 = torch.randn(23, 5, 2, generator=torch.Generator().manual_seed(1))
ROWS_NT2[4:8] = -1.0  # a batch without tokens


class Regression(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([1.0, -2.0]))

    def training_step(self, batch, batch_idx):
        (x_B2,) = batch
        return ((x_B2 @ self.weight - 1) ** 2).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.3)


class ByTokens(Regression):
    """Each row has tokens, of which some are padding: the loss is a mean over the others."""

    def training_step(self, batch, batch_idx):
        (rows_BT2,) = batch
        is_token_BT = rows_BT2[..., 0] > -0.5
        losses_BT = (rows_BT2 @ self.weight - 1) ** 2
        n_tokens = is_token_BT.sum()
        loss = (losses_BT * is_token_BT).sum() / n_tokens.clamp(min=1)
        return {"loss": loss, "batch_size": n_tokens}


class NowAndThen(Regression):
    def training_step(self, batch, batch_idx):
        weight = {} if batch_idx == 2 else {"batch_size": 3}
        return {"loss": super().training_step(batch, batch_idx), **weight}


def loader(samples_N2, batch_size):
    return DataLoader(TensorDataset(samples_N2), batch_size=batch_size)


def fit(samples_N2, batch_size, n_accumulated, devices=1, task_class=Regression):
    task = task_class()
    trainer = L.Trainer(
        accelerator="cpu",
        devices=devices,
        strategy="ddp" if devices > 1 else "auto",
        max_epochs=1,
        accumulate_grad_batches=n_accumulated,
        callbacks=[WholeGroups(), PlainLoaders()],
        use_distributed_sampler=False,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(task, loader(samples_N2, batch_size))
    return task.weight.detach()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("batch_size", "n_accumulated"), [(4, 3), (8, 4), (5, 2), (7, 4), (23, 4)])
def test_the_weights_are_those_of_whole_batches(batch_size, n_accumulated):
    whole = fit(SAMPLES_N2, batch_size * n_accumulated, 1)
    parts = fit(SAMPLES_N2, batch_size, n_accumulated)
    assert torch.allclose(whole, parts, atol=1e-6)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("batch_size", "n_accumulated"), [(4, 3), (4, 4), (5, 2), (1, 7)])
def test_batches_weigh_by_the_tokens_that_the_step_returns(batch_size, n_accumulated, capsys):
    whole = fit(ROWS_NT2, batch_size * n_accumulated, 1, task_class=ByTokens)
    parts = fit(ROWS_NT2, batch_size, n_accumulated, task_class=ByTokens)
    assert torch.allclose(whole, parts, atol=1e-6)
    assert capsys.readouterr().out.count("weighs its batches by the batch_size") == 2


@pytest.mark.filterwarnings("ignore")
def test_a_weight_of_some_steps_only_is_refused():
    with pytest.raises(LabError, match="returns batch_size in some steps"):
        fit(SAMPLES_N2, 4, 2, task_class=NowAndThen)


def rank_of_two(rank, port, folder, tokens=False, n_accumulated=2):
    os.environ |= {"LOCAL_RANK": str(rank), "NODE_RANK": "0", "MASTER_PORT": str(port)}
    samples, task_class = (ROWS_NT2, ByTokens) if tokens else (SAMPLES_N2, Regression)
    own = samples[:22][rank::2]  # 11 on each: 4, 4 and 3
    weight = fit(own, 4, n_accumulated, devices=2, task_class=task_class)
    torch.save(weight, folder / str(rank))


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_two_processes_weigh_alike(tmp_path):
    run_ranks(rank_of_two, free_port(), tmp_path)
    ranks = [torch.load(tmp_path / str(rank)) for rank in range(2)]
    assert torch.equal(*ranks)
    # 16 samples in the first step of both processes, 6 in the second.
    task = Regression()
    for step_N2 in (SAMPLES_N2[:16], SAMPLES_N2[16:22]):
        (gradient,) = torch.autograd.grad(task.training_step((step_N2,), 0), [task.weight])
        with torch.no_grad():
            task.weight -= 0.3 * gradient
    assert torch.allclose(ranks[0], task.weight.detach(), atol=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("n_accumulated", [1, 2])
def test_two_processes_weigh_by_tokens(tmp_path, n_accumulated):
    """As one process over the same rows: 8 or 16 of both in a step."""
    run_ranks(rank_of_two, free_port(), tmp_path, True, n_accumulated)
    ranks = [torch.load(tmp_path / str(rank)) for rank in range(2)]
    whole = fit(ROWS_NT2[:22], 8 * n_accumulated, 1, task_class=ByTokens)
    assert torch.equal(*ranks)
    assert torch.allclose(ranks[0], whole, atol=1e-6)
