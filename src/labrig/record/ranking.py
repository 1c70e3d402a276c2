"""Which value of a metric is better, and the order of runs by a metric."""

from __future__ import annotations

import re

from ..errors import LabError, nearest
from .schema import Row

HIGHER_IS_BETTER = re.compile(
    r"acc|auc|auroc|f1|precision|recall|iou|dice|map\b|bleu|rouge|psnr|ssim|r2|reward|return|score"
)


def lower_is_better(metric: str) -> bool:
    """Whether small values of a metric are good, by its name: `val/acc` no, `val/loss` yes."""
    return not HIGHER_IS_BETTER.search(metric.rpartition("/")[2].lower())


def rank_by_metric(rows: list[Row], metric: str) -> list[Row]:
    """The rows that have `metric` as a number, best value first."""
    measured = [row for row in rows if isinstance(row["metrics"].get(metric), int | float)]
    return sorted(
        measured, key=lambda row: row["metrics"][metric], reverse=not lower_is_better(metric)
    )


def require_metric(rows: list[Row], metric: str) -> None:
    """A metric that no run has is a mistake, not an empty list.

    Raises:
        LabError: with the nearest name and all names.
    """
    names = sorted({name for row in rows for name in row["metrics"]})
    if rows and metric not in names:
        listed = ", ".join(names) or "none"
        raise LabError(
            f"no run has the metric {metric!r}{nearest(metric, names)}. Metrics: {listed}"
        )
