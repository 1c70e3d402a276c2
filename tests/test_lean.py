"""The lean step calls every hook that Lightning's own step calls, in the same order, and learns the same."""

import json
import subprocess
import sys

import pytest

PROGRAM = """
import json, sys
import lightning.pytorch as L
import torch
from torch import nn
from myproj.lab.training.lightning_internals import skip_unused_hooks

case = sys.argv[1]
calls = []

def told(kind, name, module):
    calls.append([kind, name, module._current_fx_name])

class Listener(L.Callback):
    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        told("callback", "on_train_batch_start", module)
    def on_before_zero_grad(self, trainer, module, optimizer):
        told("callback", "on_before_zero_grad", module)
    def on_after_backward(self, trainer, module):
        told("callback", "on_after_backward", module)
    def on_before_optimizer_step(self, trainer, module, optimizer):
        told("callback", "on_before_optimizer_step", module)
    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        told("callback", "on_train_batch_end", module)
        calls.append(sorted((name, float(value)) for name, value in outputs.items()))
    def on_validation_batch_end(self, *args):
        told("callback", "on_validation_batch_end", args[1])

class Task(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    def training_step(self, batch, batch_idx):
        loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        self.log("seen", loss, on_step=True, on_epoch=True)
        return {"loss": loss, "half": loss.detach() / 2} if case != "tensor" else loss
    def validation_step(self, batch, batch_idx):
        self.log("checked", self.net(batch[0]).mean())
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

class Curious(Task):
    def on_train_batch_start(self, batch, batch_idx):
        told("module", "on_train_batch_start", self)
        return -1 if batch_idx == 5 else None
    def on_before_zero_grad(self, optimizer):
        told("module", "on_before_zero_grad", self)
    def on_after_backward(self):
        told("module", "on_after_backward", self)
    def on_before_backward(self, loss):
        told("module", "on_before_backward", self)
    def on_before_optimizer_step(self, optimizer):
        told("module", "on_before_optimizer_step", self)
    def on_train_batch_end(self, outputs, batch, batch_idx):
        told("module", "on_train_batch_end", self)
    def configure_gradient_clipping(self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None):
        told("module", "configure_gradient_clipping", self)
        nn.utils.clip_grad_value_(self.parameters(), 0.01)
    def transfer_batch_to_device(self, batch, device, dataloader_idx):
        told("module", "transfer_batch_to_device", self)
        return [batch[0] * 2, batch[1]]
    def optimizer_step(self, *args, **kwargs):
        told("module", "optimizer_step", self)
        return super().optimizer_step(*args, **kwargs)

class Data(L.LightningDataModule):
    def train_dataloader(self):
        x = torch.randn(32, 4, generator=torch.Generator().manual_seed(0))
        return torch.utils.data.DataLoader(list(zip(x, (x[:, 0] > 0).long())), batch_size=4)
    val_dataloader = train_dataloader
    def on_after_batch_transfer(self, batch, dataloader_idx):
        calls.append(["data", "on_after_batch_transfer", ""])
        return batch

torch.manual_seed(0)
task = Curious() if case == "curious" else Task()
settings = {"clipped": {"gradient_clip_val": 0.01}, "accumulated": {"accumulate_grad_batches": 3}}.get(case, {})
trainer = L.Trainer(max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
    enable_model_summary=False, callbacks=[Listener()], **settings)
if sys.argv[2] == "lean":
    skip_unused_hooks(trainer)
trainer.fit(task, datamodule=Data())
metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
print(json.dumps([calls, metrics, [p.tolist() for p in task.parameters()]]))
"""


@pytest.mark.parametrize("case", ["dict", "tensor", "clipped", "accumulated", "curious"])
def test_lean_step_is_lightnings_step(project, case):
    def train(how):
        done = subprocess.run(
            [sys.executable, "-B", "-W", "ignore", "-c", PROGRAM, case, how],
            env={"PYTHONPATH": str(project / "src"), "PATH": ""},
            capture_output=True,
            text=True,
            timeout=180,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    own, lightnings = train("lean"), train("as it is")
    assert len(own[0]) > 40
    assert own == lightnings
