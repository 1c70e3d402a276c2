"""Runs of trials without training, in a project whose trials are real."""

from labrig.project import Project
from record_package import train

CONFIG = """\
trial: {trial}
seed: {seed}
model:
  _target_: myproj.trials.{family}.model.CNN
optimizer:
  lr: {lr}
data:
  seed: {seed}
init_from: {init_from}
checkpoint:
  monitor: {monitor}
  mode: {mode}
"""


def add_run(
    folder,
    trial,
    seed=0,
    loss=1.0,
    lr=0.1,
    monitor="val/loss",
    mode="min",
    status="finished",
    init_from="null",
    **more,
):
    """A run of `trial` with today's code, that ended with this val/loss."""
    config = CONFIG.format(
        trial=trial,
        family=trial.partition("/")[0],
        seed=seed,
        lr=lr,
        monitor=monitor,
        mode=mode,
        init_from=init_from,
    )
    metrics = {"val/loss": loss, **more}
    project = Project(folder, "myproj")
    return train(project, status, metrics, trial=trial, seed=seed, config_yaml=config)


def trial_folder(folder, name):
    return folder / "src/myproj/trials" / name


def replace_in(path, before, after):
    """Edits one place of a file."""
    text = path.read_text(encoding="utf-8")
    assert text.count(before) == 1, text
    path.write_text(text.replace(before, after), encoding="utf-8")
