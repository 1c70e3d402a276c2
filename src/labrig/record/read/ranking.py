"""Which value of a metric is better, and the order of runs by a metric.

It is written where the metric is: `metrics: {fid: min}` in the configuration, or `checkpoint.mode` for
`checkpoint.monitor`. It is known for a few words at the end of a name. Otherwise it is asked for, and
never guessed: a guess that is wrong shows the worst run as the best.

Of which split a metric is, its name says. Any name is a name: `test/loss`, `test_loss` and `loss` are
shown alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import yaml

from ...errors import LabError, nearest
from ...project import this_project
from ..files.schema import Row

MODES = ("min", "max")  # as in checkpoint.mode: the lowest value is the best, or the highest
DEFAULT_METRIC = "val/loss"
LOWER = frozenset(("loss", "error", "mse", "rmse", "mae", "nll", "perplexity", "wer", "cer", "fid"))
HIGHER = frozenset(
    (
        *("acc", "accuracy", "precision", "recall", "f1", "auc", "auroc", "ap", "map"),
        *("iou", "miou", "dice", "bleu", "rouge", "psnr", "ssim", "r2", "reward", "return"),
    )
)
# They say nothing at the end of a name: val/loss_epoch, f1_score
SILENT = frozenset(("epoch", "step", "score", "best"))
# They may turn a name round: negative_loss, one_minus_dice, 1-acc
TURNING = frozenset(("neg", "negative", "minus", "inv", "inverse", "inverted", "one", "1"))


MAIN = ("val/loss", "val/acc", "test/loss", "test/acc", "train/loss")
SPLIT = re.compile(r"(train|val|test)(?:ing|id|idation)?[/_.-]", re.IGNORECASE)


def split_of(name: str) -> str | None:
    """`train`, `val` or `test` by the beginning of a name; None when it says nothing."""
    beginning = SPLIT.match(name)
    return beginning.group(1).lower() if beginning else None


def main_first(names: Iterable[str], monitors: Sequence[str] = ()) -> list[str]:
    """The names, each once, the main ones first.

    Args:
        monitors: those that runs were saved by, see `monitors_of`: they come before all others. After
            them comes the test of one that is not in MAIN, such as test/dice for val/dice.
    """
    quantities = {SPLIT.sub("", name, count=1) for name in monitors}

    def place(name: str) -> int:
        if name in monitors:
            return monitors.index(name) - len(monitors) - 1
        quantity = SPLIT.sub("", name, count=1).lower().removesuffix("_epoch")
        usual = f"{split_of(name)}/{quantity}"
        if usual in MAIN:
            return MAIN.index(usual)
        is_test = split_of(name) == "test" and SPLIT.sub("", name, count=1) in quantities
        return -1 if is_test else len(MAIN)

    return sorted(dict.fromkeys(names), key=place)


def mode_by_name(metric: str) -> str | None:
    """min or max, by the last word of a name: `val/acc` max, `val/dice_loss` min; None when it does
    not say it for certain.
    """
    words = re.findall(r"[a-z0-9]+", metric.lower())
    while len(words) > 1 and words[-1] in SILENT:
        words.pop()
    if not words or TURNING & set(words):
        return None
    if words[-1] in LOWER:
        return "min"
    if words[-1] in HIGHER and not LOWER & set(words):
        return "max"
    return None


def known_mode(metric: str, several: Iterable[dict[str, Any]]) -> str | None:
    """min or max: as the configuration says it, else by the last word of the name; None without both.

    Args:
        several: settings of runs, the newest first. The first that say it count, after those of today.
    """
    several = list(several)
    for written in (metrics_of_today(), *(settings.get("metrics") for settings in several)):
        mode = mode_in(written, metric)
        if mode:
            return mode
    by_name = mode_by_name(metric)
    metric = metric.removesuffix("_best")
    checkpoints = (settings.get("checkpoint") for settings in several)
    modes = (
        checkpoint.get("mode")
        for checkpoint in checkpoints
        if isinstance(checkpoint, dict) and checkpoint.get("monitor") == metric
    )
    by_monitor = next((mode for mode in modes if mode in MODES), None)
    if by_name and by_monitor and by_name != by_monitor:
        return None  # checkpoint.mode may have been forgotten
    return by_monitor or by_name


def mode_in(written: Any, metric: str) -> str | None:
    """What a section `metrics` says of a metric, by its name or by the last part of it."""
    if not isinstance(written, dict):
        return None
    metric = metric.removesuffix("_best")  # its value at best.ckpt
    mode = written.get(metric, written.get(metric.rpartition("/")[2]))
    return mode if mode in MODES else None


def metrics_of_today() -> Any:
    """The section `metrics` of conf/config.yaml, which also counts for runs that were made before."""
    try:
        text = (this_project().source / "conf/config.yaml").read_text(encoding="utf-8")
        if not re.search(r"^metrics:", text, re.MULTILINE):
            return None
        return yaml.safe_load(text).get("metrics")
    except (OSError, ValueError, AttributeError, yaml.YAMLError):
        return None


def require_mode(metric: str, several: Iterable[dict[str, Any]], write: str) -> str:
    """As `known_mode`.

    Args:
        write: what to type when higher values are better, such as "--sort val/x:max".
    """
    mode = known_mode(metric, several)
    if mode is None:
        raise LabError(question(metric, write))
    return mode


def question(metric: str, write: str = "") -> str:
    """Asks which values of a metric are better, and says where to write it.

    Args:
        write: see `require_mode`; "": the command takes no such word.
    """
    for_good = f"metrics: {{{metric}: max}} (or min) in conf/config.yaml"
    if not write:
        return f"{metric}: is higher better? write {for_good}"
    return f"{metric}: is higher better? write {write} (or :min). For good: {for_good}"


def split_mode(text: str) -> tuple[str, str | None]:
    """A metric as it is typed, and the mode behind it: `val/x:max`."""
    metric, _, mode = text.rpartition(":")
    return (metric, mode) if metric and mode in MODES else (text, None)


def rank_by_metric(rows: list[Row], metric: str, mode: str) -> list[Row]:
    """The rows that have `metric` as a number, best value first."""
    measured = [row for row in rows if isinstance(row["metrics"].get(metric), int | float)]
    return sorted(measured, key=lambda row: row["metrics"][metric], reverse=mode == "max")


def settings_of(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """The settings of runs, in their order."""
    return [row["settings"] for row in rows]


def monitor_of(rows: Iterable[Row]) -> str:
    """`checkpoint.monitor` of the first of these runs that has one; they come newest first."""
    return next(iter(monitors_of(rows)), DEFAULT_METRIC)


def monitors_of(rows: Iterable[Row]) -> list[str]:
    """Each `checkpoint.monitor` of these runs once, in their order."""
    checkpoints = (row["settings"].get("checkpoint") for row in rows)
    monitors = (section.get("monitor") for section in checkpoints if isinstance(section, dict))
    return list(dict.fromkeys(monitor for monitor in monitors if isinstance(monitor, str)))


def require_metric(rows: list[Row], metric: str) -> None:
    """A metric that no run has is a mistake, not an empty list.

    Raises:
        LabError: with the nearest name and all names.
    """
    names = sorted({name for row in rows for name in row["metrics"]})
    if rows and metric not in names:
        listed = ", ".join(names) or "none"
        # Who chooses by val/ is never sent to test/.
        of_split = [name for name in names if split_of(metric) in (None, split_of(name))]
        raise LabError(
            f"no run has the metric {metric!r}{nearest(metric, of_split)}. Metrics: {listed}"
        )
