"""A task that optimizes by hand: nothing that was set is dropped without a word."""

import json
from pathlib import Path

import lightning.pytorch as L
import pytest
import torch
from attempts import Net, PlainData, attempt
from in_process import composed
from labrig.errors import LabError
from labrig.project import Project
from labrig.training.check import check
from labrig.training.parts.settings import resolve_settings
from labrig.training.parts.trainer import for_optimization, plain_trainer
from omegaconf import OmegaConf
from projects import PROJECT, call
from torch import nn
from trainings import add_trial, last

BY_HAND = "task._target_=test_manual_optimization.ByHand"


class ByHand(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.net = Net()

    def training_step(self, batch, batch_idx):
        optimizer = self.optimizers()
        loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        optimizer.zero_grad()
        self.manual_backward(loss)
        optimizer.step()

    def validation_step(self, batch, batch_idx):
        self.log("loss", nn.functional.cross_entropy(self.net(batch[0]), batch[1]))

    test_step = validation_step

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


REFUSED = {
    "clipping": (["trainer.gradient_clip_val=0.01"], "trainer.gradient_clip_val=0.01: ByHand"),
    "accumulation": (
        ["trainer.accumulate_grad_batches=4"],
        "trainer.accumulate_grad_batches=4: ByHand",
    ),
    "both": (
        ["trainer.gradient_clip_val=1", "trainer.accumulate_grad_batches=2"],
        "trainer.gradient_clip_val=1 and trainer.accumulate_grad_batches=2: ByHand",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_lightning_does_not_do_by_hand_is_refused(home, case):
    words, said = REFUSED[case]
    with pytest.raises(LabError) as refused:
        check(Project(home, "myproj"), ["trial=baseline", "trainer=cpu", BY_HAND, *words])
    assert said in str(refused.value)
    assert "self.clip_gradients(optimizer, " in str(refused.value)


def test_a_training_is_refused_before_its_first_step(home, tmp_path):
    with pytest.raises(LabError, match="ByHand optimizes by hand"):
        attempt(home, tmp_path, BY_HAND, "trainer.gradient_clip_val=0.01", "trainer.max_epochs=1")


def test_a_global_batch_that_has_no_effect_is_told_and_recorded_as_it_is(home, tmp_path, capsys):
    words = (BY_HAND, "trainer.max_epochs=1", "checkpoint.monitor=null", "data.batch_size=64")
    done = attempt(home, tmp_path, *words, "batch.global=256")
    told = [line for line in capsys.readouterr().out.splitlines() if "batch.global" in line]
    (line,) = told
    assert line.startswith("batch.global=256 has no effect: ByHand optimizes by hand")
    assert (done.start["accumulate_grad_batches"], done.start["samples_per_step"]) == (1, 64)


def test_the_librarys_own_defaults_are_neither_refused_nor_told(home, tmp_path, capsys):
    attempt(home, tmp_path, BY_HAND, "trainer.max_epochs=1", "checkpoint.monitor=null")
    assert "by hand" not in capsys.readouterr().out


def test_automatic_optimization_keeps_what_was_set():
    words = ("trial=baseline", "trainer.gradient_clip_val=0.5", "batch.global=256")
    config = resolve_settings(composed(PROJECT, *words), {}).config
    kept = for_optimization(config, L.LightningModule())
    assert kept is config
    assert (kept.trainer.gradient_clip_val, kept.trainer.accumulate_grad_batches) == (0.5, 4)


def test_a_run_of_an_older_release_can_still_be_evaluated():
    """It was recorded with a clipping that nobody did, which an evaluation does not need."""
    config = resolve_settings(composed(PROJECT, "trial=baseline"), {}).config
    config = OmegaConf.merge(config, {"trainer": {"gradient_clip_val": 0.01}})
    trainer = plain_trainer(config, PlainData(), ByHand(), callbacks=[], logger=False)
    (metrics,) = trainer.test(ByHand(), datamodule=PlainData(), verbose=False)
    assert metrics["loss"] > 0


GAN = '''
import lightning.pytorch as L
import torch
from torch.nn import Linear
from torch.nn.functional import softplus


class GAN(L.LightningModule):
    """Two networks and two optimizers; each step leaves the parameters of one without a gradient."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.generator = Linear(8, 64)
        self.critic = Linear(64, 1)

    def configure_optimizers(self):
        return [torch.optim.Adam(net.parameters()) for net in (self.generator, self.critic)]

    def training_step(self, batch, batch_idx):
        image = batch[0].flatten(1)
        generator, critic = self.optimizers()
        made = self.generator(torch.randn(len(image), 8))
        self.step(generator, softplus(-self.critic(made)).mean())
        made = made.detach()
        self.step(critic, softplus(-self.critic(image)).mean() + softplus(self.critic(made)).mean())

    def step(self, optimizer, loss):
        self.toggle_optimizer(optimizer)
        optimizer.zero_grad()
        self.manual_backward(loss)
        optimizer.step()
        self.untoggle_optimizer(optimizer)

    def test_step(self, batch, batch_idx):
        return {"loss": self.critic(batch[0].flatten(1)).mean()}
'''


@pytest.mark.release
@pytest.mark.slow
def test_a_gan_trains_on_two_ranks(home):
    """Lightning's own advice, typed as it is: strategy='ddp_find_unused_parameters_true'."""
    config = "task: {_target_: .task.GAN}\ncheckpoint: {monitor: null}\ntrainer: {max_epochs: 2}\n"
    add_trial(home, "gan_of_ranks", config_yaml=config, task_py=GAN)
    words = ("trial=gan_of_ranks", "trainer=cpu", "trainer.threads=1", "trainer.devices=2")
    call(home, "lab", "train", *words, "trainer.strategy=ddp_find_unused_parameters_true")
    record = last(home)
    folder = Path(record["run_dir"])
    assert json.loads((folder / "attempts/1/start.json").read_text())["world_size"] == 2
    weights = torch.load(folder / "checkpoints/last.ckpt", weights_only=True)
    # 12 batches of each rank, two epochs, and both optimizers step.
    assert weights["global_step"] == 48
    assert all(state["state"][0]["step"] == 24 for state in weights["optimizer_states"])
