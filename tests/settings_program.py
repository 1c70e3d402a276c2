"""Run inside a project by tests/test_settings.py: trains with each setting in one process, prints what it changed as JSON."""

import contextlib
import io
import json
import os
import sys
import time
from pathlib import Path

import lightning.pytorch as L
import torch
from myproj.lab.config.compose import compose
from myproj.lab.errors import LabError
from myproj.lab.project import Project
from myproj.lab.training.accelerate import accelerate
from myproj.lab.training.build import build_data, build_task
from myproj.lab.training.health import add_health
from myproj.lab.training.means import LogMeans
from myproj.lab.training.settings import resolve_auto, scale_to_processes
from myproj.lab.training.trainer import plain_trainer
from torch import nn

PLAIN_SGD = (
    "optimizer=sgd",
    "optimizer.momentum=0",
    "optimizer.nesterov=false",
    "optimizer.weight_decay=0",
)


class Witness(L.Callback):
    """What the network saw and the optimizer did."""

    def __init__(self):
        self.lr, self.seen, self.calls, self.first = [], {}, 0, None

    def on_fit_start(self, trainer, task):
        self.first = flat(task)
        task.model.register_forward_hook(self.look)
        next(part for part in task.modules() if not list(part.children())).register_forward_hook(
            self.count
        )
        self.fused = trainer.optimizers[0].param_groups[0].get("fused")
        self.optimizer = type(trainer.optimizers[0]).__name__

    def look(self, network, inputs, output):
        self.seen |= {"dtype": str(output.dtype)}
        if inputs[0].ndim == 4:
            self.seen["channels_last"] = inputs[0].stride()[1] == 1 and inputs[0].shape[1] > 1

    def count(self, *_):
        self.calls += torch.is_grad_enabled()

    def on_train_batch_start(self, trainer, *_):
        self.lr.append(trainer.optimizers[0].param_groups[0]["lr"])


def flat(task):
    return torch.cat([value.detach().flatten().float() for value in task.state_dict().values()])


def configured(*overrides):
    return compose(
        Project.find(), ["trainer=cpu", "trainer.threads=1", "trainer.max_epochs=1", *overrides]
    ).config


def learn(*overrides, watched=False, change=lambda task: None):
    """Trains and gives (task, Witness, trainer, what was printed)."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        config = configured(*overrides)
        resolve_auto(config, {})
        scale_to_processes(config)
        data, task, witness = build_data(config), accelerate(build_task(config), config), Witness()
        change(task)
        every = {
            "log_every_n_steps": config.log.every_n_steps,
            "logger": False,
            "enable_checkpointing": False,
        }
        trainer = plain_trainer(config, data, task, callbacks=[LogMeans(), witness], **every)
        if watched:
            trainer = add_health(trainer, config, [], Path.cwd())
        trainer.fit(task, datamodule=data)
    return task, witness, trainer, said.getvalue()


def refused(*overrides, **how):
    try:
        learn(*overrides, **how)
    except LabError as error:
        return str(error)
    return "accepted"


def difference(a, b):
    return float((flat(a) - flat(b)).abs().max())


found = {}
one, *_, whole, _ = learn("trial=linear", "data.batch_size=128", "data.drop_last=true", *PLAIN_SGD)
parts, *_, accumulated, _ = learn(
    "trial=linear", "data.batch_size=32", "data.drop_last=true", "batch.global=128", *PLAIN_SGD
)
halves = configured("trial=linear", "data.batch_size=32", "batch.global=128", "trainer.devices=2")
found["batch"] = {
    "difference": difference(one, parts),
    "steps": [whole.global_step, accumulated.global_step],
    "accumulate_of_2": scale_to_processes(halves)["accumulate_grad_batches"],
}

few = ("trial=baseline", "trainer.limit_train_batches=3")
kept, seen, *_ = learn(*few)
again, twice, *_ = learn(*few, "speed.checkpoint_activations=[model.features,model.features.*]")
found["recomputed"] = {"difference": difference(kept, again), "calls": [seen.calls, twice.calls]}

wide = ("trial=tinted", "trainer.limit_train_batches=3")
usual, seen, *_ = learn(*wide)
last, seen_last, *_ = learn(*wide, "speed.channels_last=true")
found["channels_last"] = {
    "difference": difference(usual, last),
    "inputs": [seen.seen["channels_last"], seen_last.seen["channels_last"]],
    "weights": [bool(task.model.conv.weight.stride()[1] == 1) for task in (usual, last)],
}

os.environ["CXX"] = "no-such-compiler"
*_, said = learn("trial=linear", "trainer.limit_train_batches=1", "speed.compile=default")
del os.environ["CXX"]
found["compile"] = {"without": said}
if "--compile" in sys.argv:
    plain, *_ = learn("trial=linear", "trainer.limit_train_batches=2")
    compiled, *_ = learn(
        "trial=linear",
        "trainer.limit_train_batches=2",
        "speed.compile=default",
        "paths.scratch=scratch",
    )
    found["compile"] |= {
        "difference": difference(plain, compiled),
        "graphs": torch._dynamo.utils.counters["stats"]["unique_graphs"],
        "cached": len(list(Path("scratch/compiled/torchinductor").rglob("*.so"))),
    }

found["dtype"] = {
    precision: learn(
        "trial=linear", "trainer.limit_train_batches=1", f"trainer.precision={precision}"
    )[1].seen["dtype"]
    for precision in ("32-true", "bf16-mixed")
}

clipped, witness, *_ = learn(
    "trial=linear",
    "trainer.limit_train_batches=1",
    *PLAIN_SGD,
    "optimizer.lr=1.0",
    "trainer.gradient_clip_val=0.01",
)
mixed = (
    "trainer.precision=bf16-mixed",
    "trainer.gradient_clip_val=1.0",
    "trainer.limit_train_batches=1",
)
found["clipped_bf16"] = learn("trial=linear", *mixed)[3]
found["clipped"] = float((flat(clipped) - witness.first).norm())
found["fused"] = [
    learn("trial=linear", "trainer.limit_train_batches=1", f"optimizer.fused={fused}")[1].fused
    for fused in ("true", "false")
]
found["large_batch"] = [
    learn("trial=linear", "trainer.limit_train_batches=1", f"optimizer={name}")[1].optimizer
    for name in ("lars", "lamb")
]
curve = learn(
    "trial=linear", "schedule=onecycle", "schedule.pct_start=0.25", "schedule.max_lr=0.5"
)[1].lr
found["onecycle"] = {"peak": curve.index(max(curve)), "steps": len(curve), "max": max(curve)}
curve = learn(
    "trial=linear", "schedule=cosine", "schedule.final_ratio=0.1", "trainer.max_epochs=2"
)[1].lr
found["cosine"] = {"first": curve[0], "last": curve[-1], "steps": len(curve)}

norms = build_task(given := configured("trial=baseline"))
given.trainer.accelerator, given.trainer.devices = "gpu", 2
given.speed.sync_batchnorm = True
found["sync_batchnorm"] = {
    "on_cpu": learn("trial=linear", "trainer.limit_train_batches=1", "speed.sync_batchnorm=true")[
        3
    ],
    "on_gpu": sum(
        isinstance(part, nn.SyncBatchNorm) for part in accelerate(norms, given).modules()
    ),
}

found["benchmark"] = {}
for settings in (
    "speed.cudnn_benchmark=auto",
    "speed.cudnn_benchmark=false",
    "record.deterministic=true",
):
    scale_to_processes(config := configured("trial=linear", settings, "trainer.devices=2"))
    found["benchmark"][settings] = torch.backends.cudnn.benchmark
scale_to_processes(
    config := configured(
        "trial=linear", "batch.scale_lr=true", "trainer.devices=2", "schedule=onecycle"
    )
)
found["scaled"] = [config.optimizer.lr, config.schedule.max_lr]
resolve_auto(configured("trial=linear", "trainer.matmul_precision=medium", "trainer.devices=1"), {})
found["matmul"] = torch.get_float32_matmul_precision()

found["refused"] = {
    typed: refused("trial=baseline", "trainer.limit_train_batches=1", *typed.split())
    for typed in (
        "batch.global=100",
        "batch.global=128 batch.scale_lr=true",
        "batch.global=128 trainer.accumulate_grad_batches=2",
        "speed.compile=max-autotun",
        "speed.checkpoint_activations=[model.feature]",
        "speed.cudnn_benchmark=true record.deterministic=true",
    )
}
torch.use_deterministic_algorithms(False)


def scoring(acc):
    def change(task):
        step = task.training_step
        task.training_step = lambda batch, batch_idx: (
            step(batch, batch_idx) | {"acc": torch.tensor(acc)}
        )

    return change


for name, acc in {"acc": 1.97, "rounded": 1.000001}.items():
    found["refused"][name] = refused(
        "trial=linear", "log.every_n_steps=5", watched=True, change=scoring(acc)
    )
speed_file = Path("speed.jsonl")
speed_file.unlink(missing_ok=True)
short = ("data.batch_size=16", "trainer.limit_train_batches=45", "log.every_n_steps=15")
*_, said = learn("trial=late", *short, watched=True)
rows = [json.loads(line) for line in speed_file.read_text().splitlines()]
found["health"] = {"rows": rows, "said": said, "at": time.time()}
print("FOUND" + json.dumps(found))
