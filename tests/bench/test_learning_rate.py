"""The place that `lab bench --lr` suggests, and the layers that it calls uneven, are those of known cases."""

import math

import pytest
from labrig.bench.measure import steepest, uneven_layers
from torch import nn

RATES = [10 ** (-6 + 6 * i / 99) for i in range(100)]


@pytest.mark.parametrize("place", [20, 50, 70])
def test_the_rate_is_where_the_loss_falls_fastest(place):
    losses = [1 / (1 + math.exp((i - place) / 3)) for i in range(100)]
    assert math.log10(steepest(RATES, losses)) == pytest.approx(math.log10(RATES[place]), abs=0.1)


def test_layers_that_are_no_multiple_of_eight_are_named():
    network = nn.Sequential(nn.Linear(16, 24), nn.Linear(24, 13), nn.Conv2d(3, 20, 3))
    assert uneven_layers(network) == ["1 (13, 24)", "2 (20, 3)"]
