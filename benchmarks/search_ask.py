"""CPU time of one ask and tell of a sweep with 100, 1,000 and 10,000 points in its journal.

    python benchmarks/search_ask.py

A worker has read the journal before it forks for a point, so the figures are those of a fork: taking a point under
the lock, choosing its values, telling one value. The limit of the design is 100 ms at 10,000 points.
"""

import sys
import tempfile
from pathlib import Path

from cpu_seconds import run

PROGRAM = """
import statistics
import sys
import time
from pathlib import Path

import optuna
from labrig.sweep.begin import plan_points
from labrig.sweep.definition import SweepDefinition
from labrig.sweep.folder import make_sweep
from labrig.sweep.points import Points

SPACE = ["optimizer.lr=tag(log,interval(1e-5,1e-1))", "x=interval(0,1)", "y=interval(0,1)"]
CODE = {"commit": None}
N_ASKED = 15


def points_of(sampler, n_points):
    definition = SweepDefinition("t", [], SPACE, ["val/loss"], ["minimize"], sampler, None)
    points = Points(make_sweep(Path(sys.argv[1]) / sampler / str(n_points), definition, "", CODE))
    plan_points(points, 2 * n_points)
    sampler = optuna.samplers.RandomSampler(seed=0)
    distributions = {each.name: each.distribution for each in definition.settings}
    with points.lock:
        for _ in range(n_points):
            params = {
                name: sampler.sample_independent(points.study, None, name, distribution)
                for name, distribution in distributions.items()
            }
            trial = optuna.trial.create_trial(
                params=params, distributions=distributions, value=sum(params.values())
            )
            points.study.add_trial(trial)
    return points


def ask_and_tell_s(points):
    begin_s = time.process_time()
    trial = points.take()
    points.study.tell(trial.number, trial.params["x"])
    return time.process_time() - begin_s


for sampler in ("random", "tpe", "cmaes", "neldermead"):
    figures = []
    for n_points in (100, 1000, 10_000):
        points = points_of(sampler, n_points)
        ask_and_tell_s(points)
        times_s = [ask_and_tell_s(points) for _ in range(N_ASKED)]
        figures.append(f"{1000 * statistics.median(times_s):8.1f}")
    print(f"{sampler:<12}{''.join(figures)}", flush=True)
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "program.py").write_text(PROGRAM)
        print("ms of CPU for one ask and tell with n points in the journal")
        print(f"{'n':<12}{100:8}{1000:8}{10000:8}")
        words = [sys.executable, str(folder / "program.py"), str(folder / "runs")]
        print(run(words, folder), end="")


if __name__ == "__main__":
    main()
