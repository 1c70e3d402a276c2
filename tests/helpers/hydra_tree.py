"""Configuration trees for the tests of Hydra's habits: files written over a copy of the default project's own."""

import shutil
from textwrap import dedent

from labrig.project import Project
from projects import PROJECT, work_on


def make_tree(folder, files):
    """The default project's src/, with `files` ({path below src/myproj: text}) written over them."""
    shutil.copytree(PROJECT / "src", folder / "src")
    for name, text in files.items():
        path = folder / "src/myproj" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
    return work_on(Project(folder, "myproj"))


MODEL = "model: {_target_: torch.nn.Identity}\n"

# In the shape that Lightning projects with Hydra have most often: a primary config with groups, experiments and debug
# settings in the global package with overrides, callbacks and loggers put together from several files.
TEMPLATE = {
    "conf/config.yaml": """
        defaults:
          - lab
          - optimizer: adamw
          - schedule: constant
          - profile: none
          - site: workstation
          - _self_
          - data: images
          - model: small
          - callbacks: usual
          - logger: null
          - trainer: usual
          - paths: usual
          - extras: usual
          - trial: ???
          - experiment: null
          - hparams_search: null
          - optional local: here
          - debug: null

        task_name: train
        tags: [dev]
        train: true
        test: true
        ckpt_path: null
        seed: 7
        task: {_target_: "${package}.task.Classifier"}
    """,
    "conf/data/images.yaml": """
        _target_: myproj.data.Digits
        path: ${paths.data_dir}/images.h5
        batch_size: 128
        num_workers: 0
    """,
    "conf/model/small.yaml": """
        _target_: torch.nn.Sequential
        _args_:
          - {_target_: torch.nn.Linear, in_features: 784, out_features: 64}
    """,
    "conf/callbacks/usual.yaml": """
        defaults: [checkpoints, stopping, summary, _self_]
        checkpoints: {filename: "epoch_{epoch:03d}", monitor: val/acc, mode: max, save_last: true}
        stopping: {monitor: val/acc, patience: 100, mode: max}
        summary: {max_depth: -1}
    """,
    "conf/callbacks/checkpoints.yaml": """
        checkpoints:
          _target_: lightning.pytorch.callbacks.ModelCheckpoint
          dirpath: ${paths.output_dir}/checkpoints
          filename: null
          monitor: null
          mode: min
          save_last: null
    """,
    "conf/callbacks/stopping.yaml": """
        stopping:
          _target_: lightning.pytorch.callbacks.EarlyStopping
          monitor: ???
          patience: 3
          mode: min
    """,
    "conf/callbacks/summary.yaml": """
        summary: {_target_: lightning.pytorch.callbacks.RichModelSummary, max_depth: 1}
    """,
    "conf/logger/csv.yaml": """
        csv: {_target_: lightning.pytorch.loggers.CSVLogger, save_dir: "${paths.output_dir}", name: csv/}
    """,
    "conf/logger/many.yaml": "defaults: [csv, wandb]\n",
    "conf/trainer/usual.yaml": """
        _target_: lightning.pytorch.Trainer
        default_root_dir: ${paths.output_dir}
        min_epochs: 1
        max_epochs: 10
        accelerator: cpu
        precision: auto
        deterministic: false
    """,
    "conf/trainer/ddp.yaml": """
        defaults: [usual]
        strategy: ddp
        devices: 4
    """,
    "conf/paths/usual.yaml": """
        root_dir: ${oc.env:PROJECT_ROOT,.}
        data_dir: ${paths.root_dir}/data/
        log_dir: ${paths.root_dir}/logs/
        output_dir: ${paths.log_dir}/${task_name}
        work_dir: ${oc.env:PWD,.}
    """,
    "conf/extras/usual.yaml": "ignore_warnings: false\nenforce_tags: true\n",
    "conf/local/here.yaml": "# @package _global_\nextras: {enforce_tags: false}\n",
    "conf/experiment/example.yaml": """
        # @package _global_
        defaults:
          - override /data: images
          - override /model: small
          - override /callbacks: usual
          - override /trainer: ddp
        tags: [images, simple]
        seed: 12345
        trainer: {min_epochs: 10, max_epochs: 10, gradient_clip_val: 0.5}
        optimizer: {lr: 0.002}
        data: {batch_size: 64}
        callbacks: {stopping: {patience: 20}}
    """,
    "conf/hparams_search/search.yaml": """
        # @package _global_
        optimized_metric: val/acc_best
        hydra: {mode: MULTIRUN}
    """,
    "conf/debug/default.yaml": """
        # @package _global_
        task_name: debug
        extras: {ignore_warnings: false, enforce_tags: false}
        hydra: {job_logging: {root: {level: DEBUG}}}
        trainer: {max_epochs: 1, accelerator: cpu, detect_anomaly: true}
        data: {num_workers: 0}
    """,
    "conf/debug/overfit.yaml": """
        # @package _global_
        defaults: [default]
        trainer: {max_epochs: 20, overfit_batches: 3}
    """,
    "trials/first/config.yaml": "data: {batch_size: 32}\n",
}
