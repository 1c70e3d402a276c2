"""The sections of the configuration that a training reads, and the options of its groups.

hooks/settings_files.py writes them to conf/lab.yaml and conf/GROUP/OPTION.yaml. The types are checked before
torch is imported, except those of `trainer`, which are Lightning's.
"""

from __future__ import annotations

from typing import Literal

from ..config.setting import section, setting, settings_class

CompileMode = Literal["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"]


@settings_class
class InitSettings:
    prefix: dict[str, str | int | None] = setting(
        {}, "beginnings of names, there -> here: {encoder.: backbone.}; null leaves the names out"
    )
    mismatch: Literal["refuse", "skip"] = setting(
        "refuse", "what to do about a tensor of another shape"
    )


@settings_class
class TrainerSettings:
    """Arguments of Lightning's Trainer that many trainings set, then settings of our own."""

    max_epochs: int | None = setting(
        10, "over the training split; -1: until max_steps", unit="passes", least=-1
    )
    max_steps: int = setting(-1, "; -1: until max_epochs", unit="optimizer steps", least=-1)
    devices: int | str = setting(
        "auto",
        "on this machine, one per device; 2 on a laptop means DDP; auto: 1, or what the job has",
        unit="processes",
    )
    accumulate_grad_batches: int = setting(1, "per optimizer step", unit="batches", least=1)
    gradient_clip_val: float | None = setting(
        None, "largest norm (or value) of the gradient; null: off"
    )
    gradient_clip_algorithm: Literal["norm", "value"] | None = setting("norm")
    check_val_every_n_epoch: int | None = setting(1, "between validations", unit="epochs", least=1)
    limit_train_batches: float | None = setting(
        1.0, "share (float) or number (int) of batches of an epoch"
    )
    limit_val_batches: float | None = setting(1.0, "the same of a validation")
    limit_test_batches: float | None = setting(1.0, "the same of the test")
    val_every_steps: int | None = setting(
        None,
        "between validations, and one at the end; null: by epochs, or val_check_interval in batches",
        unit="optimizer steps",
        least=1,
    )
    matmul_precision: Literal["highest", "high", "medium"] = setting(
        "high", "of float32 products: highest | high (TF32) | medium (bf16)"
    )
    threads: int | Literal["auto"] = setting(
        "auto",
        "of torch per process; auto: the cores that nobody uses when the run begins; "
        "with several ranks, their share of all",
        unit="CPU threads",
        least=1,
    )
    test_after_fit: bool = setting(True, "evaluates the test split when the training ends")
    test_with: Literal["auto", "last", "best"] = setting(
        "auto",
        "weights that are tested: last | best (best.ckpt); auto: best with EarlyStopping, else last",
    )


@settings_class
class BatchSettings:
    global_: int | None = setting(
        None,
        "per optimizer step of all processes; "
        "derives accumulate_grad_batches from data.batch_size; null: off",
        unit="samples",
        least=1,
    )
    scale_lr: bool = setting(
        False,
        "true: the learning rate times the number of processes (arXiv:1706.02677), "
        "as their batch grows",
    )


@settings_class
class SpeedSettings:
    channels_last: bool = setting(
        False,
        "images and filters as NHWC in memory: "
        "faster convolutions in bf16-mixed and 16-mixed on a GPU",
    )
    compile: CompileMode | Literal[False] | None = setting(
        None,
        "mode of torch.compile: default | reduce-overhead | max-autotune "
        "(max-autotune-no-cudagraphs); null: off. Its cache lies in paths.caches",
    )
    compile_modules: list[str] = setting(
        [],
        "that are compiled one by one, [model.blocks.*]: equal ones share what is compiled, "
        "so a deep network starts sooner; []: whole networks",
    )
    compile_dynamic: bool | None = setting(
        None, "true: one graph for all sizes; false: one for each; null: torch chooses"
    )
    compile_fullgraph: bool = setting(False, "true: what cannot be in one graph ends the training")
    compile_fallback: Literal["tell", "refuse"] = setting(
        "tell",
        "where something runs uncompiled nevertheless, tell: a line says it | refuse: the training ends",
    )
    float8: bool = setting(
        False,
        "true: linear layers multiply in 8-bit floats, on L4, L40, H100 and newer; "
        "with speed.compile, and the package torchao. Never run by its authors",
    )
    checkpoint_activations: list[str] = setting(
        [],
        "modules that run forward twice instead of keeping activations: "
        "[model.features, model.blocks.*]",
    )
    fsdp: bool = setting(
        False,
        "FSDP2: the parameters are spread over the processes, instead of the whole model on each",
    )
    tensor_parallel: int = setting(
        1,
        "that share each layer, as parallelize(mesh) of the model divides it, and read the same samples; "
        "with the others of a training they are FSDP2",
        unit="processes",
        least=1,
    )
    sync_batchnorm: bool = setting(
        False, "BatchNorm over the samples of all processes; on CUDA only"
    )
    lean_loop: Literal[False, "auto"] = setting(
        "auto",
        "a step without what Lightning asks again each time, 0.3 to 0.5 ms of it; "
        "auto: where it does the same, which lab check says; false: Lightning's loop",
    )
    cudnn_benchmark: bool | Literal["auto"] = setting(
        "auto",
        "true: cuDNN tries its kernels on each new shape; auto: unless record.deterministic",
    )


@settings_class
class LogSettings:
    every_n_steps: int = setting(
        50,
        "per row of metrics.jsonl; metrics are read from the device only then",
        unit="optimizer steps",
        least=1,
    )
    progress: bool | Literal["auto"] = setting(
        "auto", "true: a bar | false: lines; auto: a bar on a terminal, lines otherwise"
    )
    every_s: float = setting(
        60.0, "between two lines within an epoch, where there is no bar", unit="seconds", least=0
    )
    grad_norm: bool = setting(
        False,
        "true: train/grad_norm, the norm of the gradient before clipping, "
        "in the rows of metrics.jsonl",
    )
    bounds: dict[str, list[float]] = setting(
        {name: [0, 1] for name in ("acc", "accuracy", "auroc", "f1", "iou")},
        "allowed range, by the last part of a metric's name (val/acc: acc); "
        "a value outside (usually a sum instead of a mean) stops the run",
    )
    derived: dict[str, str] = setting(
        {},
        "metrics that are no means over samples, computed from the means that a step returns: "
        "{ppl: exp(loss), rmse: sqrt(mse)}",
    )


@settings_class
class CheckpointSettings:
    every_min: int = setting(
        30,
        "between checkpoints within an epoch; one is also made at its end, "
        "and best.ckpt at each validation",
        unit="minutes",
        least=0,
    )
    every_steps: int | None = setting(
        None,
        "between checkpoints that stay, as checkpoints/step-200.ckpt; null: none",
        unit="optimizer steps",
        least=1,
    )
    monitor: str | None = setting(
        "val/loss", "metric that chooses checkpoints/best.ckpt; null: none"
    )
    mode: Literal["min", "max"] = setting(
        "min", "min: its lowest value is the best | max: its highest"
    )
    background: bool = setting(
        False,
        "true: the training waits for a copy in memory only, which is written while it goes on",
    )
    sharded: bool = setting(
        False,
        "with speed.fsdp or speed.tensor_parallel, true: each process writes its part, into a directory; "
        "it is read by any number of processes",
    )
    leave_out_initial: bool = setting(
        False,
        "true: frozen weights that are as init_from has them are left out, and read from there again; "
        "with adapters, only these are in the checkpoint",
    )


# ---- options of the group `logger`; the docstring is the first line of the file


@settings_class
class TensorboardSettings:
    flush_secs: int = setting(30, "until rows are on the disk", unit="seconds", least=0)


@settings_class
class TensorboardOption:
    """Next to the run's own files. To look: tensorboard --logdir runs. Several loggers: logger=[tensorboard,wandb]"""

    tensorboard: TensorboardSettings = section()


@settings_class
class WandbSettings:
    project: str | None = setting("${package}", "where W&B shows the runs")
    entity: str | None = setting(None, "team; null: your default one")
    mode: Literal["online", "offline", "disabled", "auto"] = setting(
        "auto",
        "online | offline | disabled; auto: offline without a key or a network, "
        "or where the site has no internet",
    )
    tags: list[str] = setting([], "of the run in W&B")
    watch: Literal["gradients", "parameters", "all"] | None = setting(
        None,
        "gradients | parameters | all: histograms of each layer every log.every_n_steps steps, "
        "which takes time; null: none",
    )


@settings_class
class WandbOption:
    """Next to the run's own files. Several loggers: logger=[tensorboard,wandb]"""

    wandb: WandbSettings = section()


@settings_class
class MlflowSettings:
    experiment: str | None = setting("${package}", "where MLflow shows the runs")
    tracking_uri: str | None = setting(
        None,
        "https://SERVER | sqlite:///FILE; "
        "null: $MLFLOW_TRACKING_URI (in .env), or mlflow.db in paths.runs",
    )
    mode: Literal["online", "offline", "auto"] = setting(
        "auto", "online | offline; auto: offline where the server does not answer"
    )


@settings_class
class MlflowOption:
    """Next to the run's own files. To look without a server: mlflow ui --backend-store-uri sqlite:///runs/mlflow.db"""

    mlflow: MlflowSettings = section()


# ---- options of the group `notify`


@settings_class
class AppriseSettings:
    variable: str = setting(
        "NOTIFY_URL",
        "set in .env: mailtos://..., ntfys://... and so on; several with spaces between",
    )


@settings_class
class AppriseOption:
    """A message when a run ends, fails, or its GPUs do nothing.
    The addresses are secret, so only their variable stands here.
    """

    apprise: AppriseSettings = section()


@settings_class
class CommandSettings:
    run: str | None = setting(
        None, "for the shell; it gets the text on its input, and $LAB_EVENT, $LAB_SUBJECT"
    )


@settings_class
class CommandOption:
    """A command when a run ends, fails, or its GPUs do nothing."""

    command: CommandSettings = section()


# ---- options of the group `profile`

Profiler = Literal["simple", "cprofile", "line", "memory", "torch"]


@settings_class
class SimpleProfile:
    """Time of each of Lightning's actions.
    Of the whole run; files in RUN/profile. Short runs: trainer.max_steps=200
    """

    kind: Profiler = setting("simple")
    ranks: list[int] = setting([0], "processes that are profiled")


@settings_class
class PythonProfile(SimpleProfile):
    """Python functions, for SnakeViz.
    Of the whole run; files in RUN/profile. Short runs: trainer.max_steps=200
    """

    kind: Profiler = setting("cprofile")


@settings_class
class LineProfile(SimpleProfile):
    """Lines of training_step, of forward, of the data path, and of functions under line_profiler's @profile.
    Of the whole run; files in RUN/profile. Short runs: trainer.max_steps=200
    """

    kind: Profiler = setting("line")


@settings_class
class MemoryProfile(SimpleProfile):
    """Allocations: memray on the CPU, torch's memory snapshot on CUDA.
    Of the whole run; files in RUN/profile. Short runs: trainer.max_steps=200
    """

    kind: Profiler = setting("memory")


@settings_class
class TorchProfile(SimpleProfile):
    """Every operation and kernel of a few batches: a table, and a trace for Perfetto.
    Files in RUN/profile.
    """

    kind: Profiler = setting("torch")
    wait_steps: int = setting(10, "before it", unit="batches", least=0)
    warmup_steps: int = setting(5, "traced and thrown away", unit="batches", least=0)
    active_steps: int = setting(5, "kept", unit="batches", least=1)
