"""One rank of a small training for test_signals.py: PACKAGE RUN_DIR [key=value ...]; ends with JSON."""

import importlib
import json
import os
import signal
import sys
import time
from pathlib import Path

import lightning.pytorch as L
import torch
from torch.utils.data import DataLoader

package, run_dir = sys.argv[1], Path(sys.argv[2])
options = {
    "world": 1,
    "steps": 40,
    "epoch_batches": 16,
    "step_s": 0.0,
    "interval_s": 0.05,
    "accumulate": 1,
    "val_batches": 2,  # on rank 0; each further rank has one more
    "val_step_s": 0.0,
    "workers": "",  # how one worker of a DataLoader starts: fork, spawn; "": no DataLoader
    "ckpt": None,
}
options |= {
    key: type(options[key])(value) if options[key] is not None else value
    for key, value in (word.split("=") for word in sys.argv[3:])
}
signals = importlib.import_module(f"{package}.lab.training.preemption")
rank = int(os.environ.get("LOCAL_RANK", 0))
calls = {"broadcast": 0, "all_reduce": 0}


def counting(name):
    original = getattr(torch.distributed, name)

    def count(*args, **kwargs):
        calls[name] += 1
        return original(*args, **kwargs)

    return count


class Batches:
    """`epoch_batches` fixed batches, whose position is saved and restored."""

    def __init__(self, n):
        self.n, self.position = n, 0

    def __len__(self):
        return self.n

    def __iter__(self):
        self.position %= len(self)  # Lightning does not ask for a batch after the last
        while self.position < len(self):
            self.position += 1
            yield torch.randn(
                4,
                3,
                generator=torch.Generator().manual_seed(
                    1000 * rank + self.position + 50 * trainer.current_epoch
                ),
            )

    def state_dict(self):
        return {"position": self.position}

    def load_state_dict(self, state):
        self.position = state["position"]


class Model(L.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(3, 1)
        self.validated = 0

    def training_step(self, batch, batch_idx):
        time.sleep(options["step_s"])
        return self.layer(batch).square().mean()

    def on_train_start(self):
        for name in calls:
            setattr(torch.distributed, name, counting(name))

    def on_train_batch_end(self, *_):
        if self.global_step >= 3 and not options["val_step_s"]:
            (run_dir / f"running-{rank}").touch()  # the test may send its signal now

    def validation_step(self, batch, batch_idx):
        self.validated += 1
        time.sleep(options["val_step_s"])
        if self.global_step >= 3 and options["val_step_s"]:
            (run_dir / f"running-{rank}").touch()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


class Saving(L.callbacks.ModelCheckpoint):
    def save_now(self, trainer):
        trainer.save_checkpoint(run_dir / "checkpoints" / "last.ckpt")

    def on_train_epoch_end(self, trainer, pl_module):
        self.save_now(trainer)


class Sent(L.Callback):
    """Records where in the loop fit was when it stopped."""

    def on_exception(self, trainer, pl_module, exception):
        self.stopped_at = (
            trainer.fit_loop.epoch_loop.batch_progress.current.ready,
            trainer.current_epoch,
        )
        self.validating = trainer.validating


def main():
    global trainer
    where = Sent()
    model = Model()
    trainer = L.Trainer(
        accelerator="cpu",
        devices=options["world"],
        strategy="ddp" if options["world"] > 1 else "auto",
        max_steps=options["steps"],
        accumulate_grad_batches=options["accumulate"],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
        num_sanity_val_steps=0,
        callbacks=[
            Saving(run_dir / "unused", save_top_k=0),
            where,
            signals.PreemptionCallback(run_dir, interval_s=options["interval_s"]),
        ],
    )
    result = {"stopped": None, "requeue": None, "stopped_at": None, "validating": None}
    try:
        train, val = Batches(options["epoch_batches"]), Batches(options["val_batches"] + rank)
        if options["workers"]:
            rows = torch.randn(
                options["epoch_batches"] * 4, 3, generator=torch.Generator().manual_seed(0)
            )
            train = DataLoader(rows, 4, num_workers=1, multiprocessing_context=options["workers"])
        trainer.fit(model, train, val, ckpt_path=options["ckpt"], weights_only=False)
        code = 0
    except signals.Stopped as stop:
        result |= {"stopped": stop.step, "requeue": stop.requeue, "stopped_at": where.stopped_at}
        result["validating"] = where.validating
        code = stop.exit_code
    result |= {
        "step": trainer.global_step,
        "calls": calls,
        "weights": model.layer.weight.flatten().tolist(),
    }
    result["validated"] = model.validated
    result["term_is_default"] = signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    print(json.dumps(result))
    sys.exit(code)


if __name__ == "__main__":  # a spawned worker reads this file too
    main()
