"""One rank of a small training for test_signals.py: RUN_DIR [key=value ...]; ends with a line of
JSON.

A rank sends the signal to itself, at a batch that the test names, so the test neither waits nor
misses it.
"""

import json
import os
import signal
import sys
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import lightning
import lightning.pytorch as L
import torch
from labrig.training.exact.preemption import PreemptionCallback, Stopped
from torch.utils.data import DataLoader

EVERY_BATCH_S = 1e-6  # an interval that is over after each batch


@dataclass
class Options:
    world: int = 1  # ranks
    steps: int = 40
    epoch_batches: int = 16
    accumulate: int = 1  # batches per optimizer step
    val_batches: int = 2  # on rank 0; each further rank has one more
    interval_s: float = EVERY_BATCH_S
    workers: str = (
        ""  # how one worker of a DataLoader starts: fork, spawn, forkserver; "": no DataLoader
    )
    ckpt: str = ""  # to continue from
    version: str = ""  # of Lightning, as it seems to the callback; "": as it is
    signal: str = ""  # such as SIGTERM; "": none is sent
    signal_rank: int = 0
    signal_step: int = 3  # sent after this optimizer step
    signal_in_validation: int = 0  # sent in this validation batch after that step instead
    signal_group: int = 0  # 1: to all processes of the rank, as schedulers and terminals do


def read_options(words):
    types = {field.name: field.type for field in fields(Options)}
    pairs = [word.split("=", 1) for word in words]
    return Options(**{key: types[key](value) for key, value in pairs})


class Batches:
    """`n` fixed batches, whose position is saved and restored."""

    def __init__(self, n, rank):
        self.n = n
        self.rank = rank
        self.position = 0
        self.trainer = None

    def __len__(self):
        return self.n

    def __iter__(self):
        # Lightning does not ask for a batch after the last.
        self.position %= self.n
        while self.position < self.n:
            self.position += 1
            seed = 1000 * self.rank + self.position + 50 * self.trainer.current_epoch
            yield torch.randn(4, 3, generator=torch.Generator().manual_seed(seed))

    def state_dict(self):
        return {"position": self.position}

    def load_state_dict(self, state):
        self.position = state["position"]


class Model(L.LightningModule):
    """Counts what it validates, and sends the signal."""

    def __init__(self, options, rank):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(3, 1)
        self.options = options
        self.is_sender = bool(options.signal) and rank == options.signal_rank
        self.validated = 0
        self.validated_in_this_epoch = 0

    def training_step(self, batch, batch_idx):
        return self.layer(batch).square().mean()

    def on_train_batch_end(self, *_):
        if not self.options.signal_in_validation:
            self.send_once()

    def on_validation_start(self):
        self.validated_in_this_epoch = 0

    def validation_step(self, batch, batch_idx):
        self.validated += 1
        self.validated_in_this_epoch += 1
        if self.validated_in_this_epoch == self.options.signal_in_validation:
            self.send_once()

    def send_once(self):
        if not self.is_sender or self.global_step < self.options.signal_step:
            return
        self.is_sender = False
        number = signal.Signals[self.options.signal]
        if self.options.signal_group:
            os.killpg(os.getpgid(0), number)
        else:
            os.kill(os.getpid(), number)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


class Saving(L.callbacks.ModelCheckpoint):
    """Saves last.ckpt, and notes how many validation batches were done by then."""

    def __init__(self, run_dir):
        super().__init__(run_dir / "unused", save_top_k=0)
        self.file = run_dir / "checkpoints" / "last.ckpt"
        self.validated = []

    def save_now(self, trainer):
        trainer.save_checkpoint(self.file)
        self.validated.append(trainer.lightning_module.validated)

    def on_train_epoch_end(self, trainer, pl_module):
        self.save_now(trainer)


class Watch(L.Callback):
    """Counts the collectives of `fit`, and notes where in the loop it was when it stopped."""

    def __init__(self):
        self.collectives = {"broadcast": 0, "all_reduce": 0}
        self.stopped_in_epoch = None
        self.stopped_after_batches = None
        self.was_validating = None

    def on_train_start(self, trainer, pl_module):
        for name in self.collectives:
            setattr(torch.distributed, name, self.counting(name))

    def counting(self, name):
        original = getattr(torch.distributed, name)

        def count(*args, **kwargs):
            self.collectives[name] += 1
            return original(*args, **kwargs)

        return count

    def on_exception(self, trainer, pl_module, exception):
        self.stopped_in_epoch = trainer.current_epoch
        self.stopped_after_batches = trainer.fit_loop.epoch_loop.batch_progress.current.ready
        self.was_validating = trainer.validating


@dataclass
class Result:
    weights: list[float]
    step: int
    stopped_at_step: int | None
    requeue: bool | None
    stopped_after_batches: int | None
    was_validating: bool | None
    validated: int  # batches
    validated_at_saves: list[int]  # batches validated when each checkpoint was saved
    collectives: dict[str, int]
    replaced_after_fit: list[str]


def main():
    run_dir = Path(sys.argv[1])
    options = read_options(sys.argv[2:])
    rank = int(os.environ.get("LOCAL_RANK", 0))
    if options.version:
        lightning.__version__ = options.version
    torch.set_num_threads(1)
    get_iterator = DataLoader._get_iterator
    model, saving, watch = Model(options, rank), Saving(run_dir), Watch()
    trainer = L.Trainer(
        accelerator="cpu",
        devices=options.world,
        strategy="ddp" if options.world > 1 else "auto",
        max_steps=options.steps,
        accumulate_grad_batches=options.accumulate,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
        num_sanity_val_steps=0,
        callbacks=[saving, watch, PreemptionCallback(run_dir, interval_s=options.interval_s)],
    )
    train = Batches(options.epoch_batches, rank)
    val = Batches(options.val_batches + rank, rank)
    train.trainer = val.trainer = trainer
    if options.workers:
        rows = torch.randn(options.epoch_batches * 4, 3, generator=torch.Generator().manual_seed(0))
        train = DataLoader(rows, 4, num_workers=1, multiprocessing_context=options.workers)
    stop = None
    try:
        trainer.fit(model, train, val, ckpt_path=options.ckpt or None)
    except Stopped as stopped:
        stop = stopped
    replaced = []
    if signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        replaced.append("the handler of SIGTERM")
    if DataLoader._get_iterator is not get_iterator:
        replaced.append("DataLoader._get_iterator")
    result = Result(
        weights=model.layer.weight.flatten().tolist(),
        step=trainer.global_step,
        stopped_at_step=stop and stop.step,
        requeue=stop and stop.requeue,
        stopped_after_batches=watch.stopped_after_batches,
        was_validating=watch.was_validating,
        validated=model.validated,
        validated_at_saves=saving.validated,
        collectives=watch.collectives,
        replaced_after_fit=replaced,
    )
    print(json.dumps(asdict(result)))
    sys.exit(stop.exit_code if stop else 0)


if __name__ == "__main__":  # a spawned worker reads this file too
    main()
