"""What the runs of the tests' sweeps are made of."""

from labrig.record.write.create import RunRequest
from labrig.sweep.points import overrides_of


def request_of(sweep, trial):
    return RunRequest(
        trial="baseline",
        config_yaml=f"seed: 0\nparams: {dict(trial.params)}\n",
        overrides=overrides_of(sweep, trial),
        argv=["lab", "sweep"],
        seed=0,
        parent=sweep.id,
        code={"dirty": None, "reason": "a test"},
    )
