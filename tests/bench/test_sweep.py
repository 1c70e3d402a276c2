"""lab bench --sweep: which values it measures, and what it makes of their rates."""

from types import SimpleNamespace

import pytest
from labrig.bench.run_bench import OutOfMemory
from labrig.bench.sweep import parse_values, sweep
from labrig.errors import Failed


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("batch=8..64", [8, 16, 32, 64]),
        ("batch=5..30", [5, 10, 20]),
        ("data.num_workers=0,2,4", ["0", "2", "4"]),
    ],
)
def test_the_values_of_a_sweep(text, values):
    assert parse_values(text).values == values


class Runner:
    """A device that takes batches up to `largest`, and is as fast with 64 samples as with more."""

    def __init__(self, largest):
        self.largest = largest

    def run(self, name, overrides):
        value = int(overrides[-1].partition("=")[2])
        if value > self.largest:
            raise OutOfMemory(f"{name}: out of memory")
        return SimpleNamespace(measured=SimpleNamespace(samples_per_s=100.0 * min(value, 64)))


@pytest.mark.parametrize(
    ("largest", "text", "content"),
    [
        (100, "batch=8..1024", {"knee": 64, "largest": 96, "refused": 104}),
        (10**6, "batch=8..128", {"knee": 64, "largest": 128, "refused": None}),
        (100, "model.width=16,64,200", {"knee": "64", "largest": None, "refused": "200"}),
    ],
)
def test_a_sweep_goes_up_to_what_does_not_fit_and_back(largest, text, content):
    result = sweep(Runner(largest), [], text).content
    assert {key: result[key] for key in content} == content


def test_a_sweep_of_which_nothing_fits():
    with pytest.raises(Failed, match=r"model\.width=200 does not fit"):
        sweep(Runner(largest=100), [], "model.width=200,50")
