"""The section of the configuration that `lab sweep` reads. hooks/settings_files.py writes it to conf/lab.yaml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..config.setting import setting

Sampler = Literal["grid", "random", "tpe", "gp", "cmaes", "nsga2"]
Pruner = Literal["median", "asha", "hyperband"]
Direction = Literal["minimize", "maximize"]


@dataclass(frozen=True)
class SweepSettings:
    space: list[str] = setting(
        [],
        "settings and their values, as they are typed: "
        '["optimizer.lr=tag(log,interval(1e-4,1e-1))", "model.width=16,32"]',
    )
    metric: str | list[str] | None = setting(
        None,
        "whose last value is improved; null: checkpoint.monitor; two as a list: [val/acc, val/loss]; "
        "val/fid:min says which values are better",
    )
    direction: Direction | list[Direction] | None = setting(
        None, "minimize | maximize, for two metrics a list; null: as the section metrics says"
    )
    sampler: Sampler | None = setting(
        None,
        "grid | random | tpe | gp | cmaes | nsga2; "
        "null: grid for lists, tpe with an interval, nsga2 for two metrics",
    )
    points: int = setting(20, "how many runs; a grid has as many as it has combinations", least=1)
    pruner: Pruner | None = setting(
        None,
        "stops points that fall behind in validation: median | asha | hyperband; null: none",
    )
    workers: int | None = setting(
        None,
        "that search at the same time; null: job.throttle as jobs; "
        "on this machine one per free GPU, or per 4 cores",
        least=1,
    )
