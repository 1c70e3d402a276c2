"""Intervals of one test set: by sample, by group, and McNemar's test of two runs."""

import numpy as np
import pytest
from labrig.data import read_layout, write_data_file
from labrig.errors import LabError
from labrig.training.trained.compare import bootstrap_interval, format_mcnemar, values_of


def test_the_interval_of_many_samples_is_the_normal_one():
    value_N = np.random.default_rng(0).normal(3.0, 2.0, 1000)
    low, high = bootstrap_interval(value_N, np.arange(1000))
    half = 1.96 * value_N.std() / np.sqrt(1000)
    assert (low, high) == pytest.approx((value_N.mean() - half, value_N.mean() + half), abs=0.01)
    assert bootstrap_interval(value_N, np.arange(1000)) == (low, high), "the same at each call"


def test_samples_of_one_group_are_drawn_together():
    """Ten equal samples in each group say no more than one of them."""
    of_group_G = np.random.default_rng(1).random(200)
    alone = bootstrap_interval(of_group_G, np.arange(200))
    together = bootstrap_interval(of_group_G.repeat(10), np.arange(200).repeat(10))
    assert together == pytest.approx(alone)
    low, high = bootstrap_interval(of_group_G.repeat(10), np.arange(2000))
    assert high - low < 0.4 * (alone[1] - alone[0])
    with pytest.raises(LabError, match="one sample or group alone"):
        bootstrap_interval(np.ones(3), np.zeros(3, int))


def test_mcnemar_counts_what_only_one_run_has_right():
    # 2 of 10 or fewer, or 8 or more: 2 * (1 + 10 + 45) / 2**10
    difference_N = np.array([1.0] * 8 + [-1.0] * 2 + [0.0] * 90)
    said = format_mcnemar(difference_N)
    assert said.startswith("right in the first alone 2, in the second alone 8")
    assert said.endswith("p = 0.109")
    assert format_mcnemar(np.zeros(5)).endswith("p = 1.000")


@pytest.mark.parametrize(
    ("quantity", "fields", "expected"),
    [
        ("acc", {"class": [1, 0, 2]}, [1, 0, 1]),
        ("acc", {"prediction": np.eye(3)[[1, 0, 2]]}, [1, 0, 1]),
        ("mae", {"prediction": np.float32([[1.5], [1.0], [0.0]])}, [0.5, 0, 2]),
        ("mse", {"prediction": np.float32([1.5, 1.0, 0.0])}, [0.25, 0, 4]),
        ("wer", {"wer": [0.25, 0.5, 0.0]}, [0.25, 0.5, 0]),
    ],
)
def test_the_metric_of_each_sample(tmp_path, quantity, fields, expected):
    fields = {name: np.asarray(values) for name, values in fields.items()}
    row_N = np.array([0, 2, 3])
    data = read_layout(write_data_file(tmp_path / "data.h5", {"y": np.array([1, 9, 1, 2])}, {}))
    predicted = read_layout(write_data_file(tmp_path / "a.h5", {"row": row_N} | fields, {}))
    assert values_of(predicted, data, row_N, quantity, "y").tolist() == expected


@pytest.mark.parametrize(
    ("quantity", "label", "said"),
    [
        ("f1", "y", "what f1 of one sample is, is not known"),
        ("acc", "label", "the data have no field 'label', which --label names. Fields: y"),
        ("mae", "y", r"which field mae is computed from is not clear: a.h5 has a \(2,\), b \(2,\)"),
    ],
)
def test_what_is_not_known_is_asked(tmp_path, quantity, label, said):
    two = np.arange(2)
    data = read_layout(write_data_file(tmp_path / "data.h5", {"y": two}, {}))
    fields = {"row": two, "a": two, "b": two} | ({"class": two} if quantity == "acc" else {})
    predicted = read_layout(write_data_file(tmp_path / "a.h5", fields, {}))
    with pytest.raises(LabError, match=said):
        values_of(predicted, data, two, quantity, label)
