"""Tasks for the tests of the lean loop: each uses another part of what a training may use, and notes its calls."""

import lightning.pytorch as L
import torch
from torch import nn


class Task(L.LightningModule):
    """Two layers. `calls` are the hooks that were called, each with the name that `self.log` sees."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2))
        self.calls = []

    def note(self, owner, hook_name, *more):
        step = self.trainer.global_step
        self.calls.append((owner, hook_name, self._current_fx_name, step, *more))

    def loss(self, batch):
        self.note("module", "training_step")
        return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        return {"loss": loss, "half": loss.detach() / 2}

    def validation_step(self, batch, batch_idx):
        self.log("checked", self.net(batch[0]).mean())

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


class TaskOfTensors(Task):
    def training_step(self, batch):
        return self.loss(batch)


class TaskThatLogs(Task):
    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.log("seen", loss, on_step=True, on_epoch=True)
        return loss


class TaskThatSkips(Task):
    def training_step(self, batch, batch_idx):
        return None if batch_idx == 3 else self.loss(batch)


class TaskWithHooks(Task):
    def on_train_batch_start(self, batch, batch_idx):
        self.note("module", "on_train_batch_start")
        return -1 if batch_idx == 5 else None

    def on_before_zero_grad(self, optimizer):
        self.note("module", "on_before_zero_grad")

    def on_before_backward(self, loss):
        self.note("module", "on_before_backward", float(loss))

    def on_after_backward(self):
        self.note("module", "on_after_backward")

    def on_before_optimizer_step(self, optimizer):
        self.note("module", "on_before_optimizer_step")

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.note("module", "on_train_batch_end")

    def backward(self, loss):
        self.note("module", "backward")
        (loss * 2).backward()

    def optimizer_zero_grad(self, epoch, batch_idx, optimizer):
        self.note("module", "optimizer_zero_grad", epoch, batch_idx)
        optimizer.zero_grad(set_to_none=False)

    def configure_gradient_clipping(self, optimizer, gradient_clip_val=None, **_):
        self.note("module", "configure_gradient_clipping")
        nn.utils.clip_grad_value_(self.parameters(), 0.01)

    def on_before_batch_transfer(self, batch, dataloader_idx):
        self.note("module", "on_before_batch_transfer")
        return batch

    def transfer_batch_to_device(self, batch, device, dataloader_idx):
        self.note("module", "transfer_batch_to_device")
        return [batch[0] * 2, batch[1]]


class TaskThatStepsItself(Task):
    def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure):
        self.note("module", "optimizer_step", type(optimizer).__name__)
        super().optimizer_step(epoch, batch_idx, optimizer, optimizer_closure)

    def lr_scheduler_step(self, scheduler, metric):
        self.note("module", "lr_scheduler_step")
        scheduler.step()


class TaskWithSchedules(TaskThatStepsItself):
    interval = "step"

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        return [optimizer], [{"scheduler": schedule, "interval": self.interval, "frequency": 2}]


class TaskWithEpochSchedules(TaskWithSchedules):
    interval = "epoch"


class TaskThatWaits(TaskThatLogs):
    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
        way = {"scheduler": schedule, "monitor": "seen_step", "interval": "step"}
        return {"optimizer": optimizer, "lr_scheduler": way}


class FusedTask(Task):
    lr, fused = 1.0, True

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.lr, fused=self.fused)


class UnfusedTask(FusedTask):
    fused = False


class AdamTask(Task):
    """A schedule by steps; `change` may do more with the optimizer."""

    n_groups = 1
    kind = torch.optim.Adam

    def configure_optimizers(self):
        self.spare = nn.Parameter(torch.ones(3))
        parts = [[*self.net[0].parameters()], [*self.net[3].parameters()]]
        together = [*parts[0], *parts[1]]
        groups = [{"params": part} for part in parts] if self.n_groups == 2 else together
        optimizer = self.kind(groups, lr=0.01, weight_decay=0.1, fused=True)
        self.change(optimizer)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]

    def change(self, optimizer):
        pass


class AdamWTask(AdamTask):
    kind = torch.optim.AdamW


class AdamOfTwoGroups(AdamTask):
    n_groups = 2


class AdamWithoutAGradient(AdamTask):
    def change(self, optimizer):
        optimizer.param_groups[0]["params"].append(self.spare)


class AdamWithAHook(AdamTask):
    def change(self, optimizer):
        optimizer.register_step_post_hook(lambda *_: self.note("optimizer", "post hook"))


class AdamThatIsWrapped(AdamTask):
    def change(self, optimizer):
        step = optimizer.step

        def noted_step(optimizer, closure=None):
            self.note("optimizer", "step")
            return step(closure)

        optimizer.step = noted_step.__get__(optimizer)


class AdamThatForgets(AdamTask):
    """Its state is another one from the middle on."""

    def training_step(self, batch, batch_idx):
        optimizer = self.trainer.optimizers[0]
        if batch_idx == 3:
            optimizer.state.clear()
        if batch_idx == 5:
            optimizer.load_state_dict(optimizer.state_dict())
        if batch_idx == 6:
            first = optimizer.state[optimizer.param_groups[0]["params"][0]]
            first["exp_avg"] = torch.ones_like(first["exp_avg"])
        return super().training_step(batch, batch_idx)


class TaskWithNorm(TaskWithSchedules):
    """StochasticWeightAveraging runs an epoch without backward for its statistics."""

    def __init__(self):
        super().__init__()
        self.net.insert(1, nn.BatchNorm1d(8))


class TaskOfManyClosures(Task):
    def configure_optimizers(self):
        return torch.optim.LBFGS(self.parameters(), max_iter=3)


class KeepsHalf(torch.optim.SGD):
    """Its own zero_grad keeps half of each gradient."""

    def zero_grad(self, set_to_none=True):
        for parameter in self.param_groups[0]["params"]:
            if parameter.grad is not None:
                parameter.grad /= 2


class TaskThatKeepsGradients(Task):
    def configure_optimizers(self):
        return KeepsHalf(self.parameters(), lr=0.1)
