"""Code of others, trained by plain Lightning and through lab with one seed: what each did, to the last bit."""

import contextlib
import io
import sys
from dataclasses import dataclass, field

import lightning.pytorch as L
import torch
from attempts import attempt
from hydra.utils import get_class, instantiate

SEED = 0
WITNESS = "+callbacks.witness={_target_: foreign.Witness}"
ENDED = []  # the witnesses of fits


class Witness(L.Callback):
    """The loss of each step, and the weights and metrics at the end of a fit."""

    def __init__(self):
        self.losses = []

    def on_train_batch_end(self, trainer, task, outputs, batch, batch_idx):
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        self.losses.append(None if loss is None else float(loss))

    def on_fit_end(self, trainer, task):
        self.weights = {name: value.clone() for name, value in task.state_dict().items()}
        self.metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
        self.n_steps = trainer.global_step
        ENDED.append(self)


@contextlib.contextmanager
def own_modules(folder, *names):
    """Within the block these modules and packages are imported from `folder`; they are forgotten afterwards."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.startswith(names)]:
            del sys.modules[name]


@dataclass(frozen=True)
class Shape:
    """Code as it is written elsewhere.

    Args:
        task: the class of a LightningModule.
        data: the class of a DataModule, which takes `shuffle`.
        callbacks: sections with `_target_`, by name.
        trainer: arguments of Lightning's Trainer.
    """

    task: str
    data: str
    callbacks: dict = field(default_factory=dict)
    trainer: dict = field(default_factory=dict)

    def settings(self, home, shuffle=False):
        """What a trial of it says, as overrides; its data become an option of the project in `home`."""
        option = self.data.rpartition(".")[2].lower()
        file = home / f"src/myproj/conf/data/{option}.yaml"
        file.write_text(f"_target_: {self.data}\nshuffle: false\n")
        lines = [f"task._target_={self.task}", f"data={option}", f"data.shuffle={shuffle}"]
        lines += ["checkpoint.monitor=null"]
        lines += [f"trainer.{key}={value}" for key, value in self.trainer.items()]
        for name, node in self.callbacks.items():
            arguments = ", ".join(f"{key}: {value}" for key, value in node.items())
            lines.append(f"+callbacks.{name}={{{arguments}}}")
        return lines


def by_lightning(shape):
    """What plain Lightning does with it: the Trainer of a script."""
    torch.set_num_threads(1)
    with contextlib.redirect_stdout(io.StringIO()):
        L.seed_everything(SEED, workers=True, verbose=False)
        data = get_class(shape.data)()
        task = get_class(shape.task)()
        witness = Witness()
        trainer = L.Trainer(
            accelerator="cpu",
            devices=1,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            callbacks=[*map(instantiate, shape.callbacks.values()), witness],
            **shape.trainer,
        )
        trainer.fit(task, datamodule=data)
    return witness


def by_lab(home, folder, *settings, **options):
    """What lab does in one attempt: (witness, outcome)."""
    ENDED.clear()
    outcome = attempt(home, folder, *settings, WITNESS, **options)
    (witness,) = ENDED
    return witness, outcome


def differences(plain, lab):
    """What lab's fit has otherwise than the plain one: losses, weights, metrics."""
    found = []
    if (plain.losses, plain.n_steps) != (lab.losses, lab.n_steps):
        found.append(("losses", plain.losses, lab.losses))
    found += [
        (name, value, lab.metrics.get(name))
        for name, value in plain.metrics.items()  # lab adds the returned loss
        if value != lab.metrics.get(name)
    ]
    names = plain.weights.keys() | lab.weights.keys()
    return found + [name for name in sorted(names) if not same(plain.weights, lab.weights, name)]


def same(one, other, name):
    return name in one and name in other and torch.equal(one[name], other[name])
