"""`data.folds`: each sample is held out once, groups stay together, and no seed moves a sample."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labrig.data import H5DataModule, read_layout, write_data_file
from labrig.errors import LabError
from labrig.hdf5.read.order import rows_of_fold

N_TEST = 5


def file_of(folder, n, groups=None, classes=None):
    """A data file of n samples, the last of which are its test."""
    fields = {"x": np.arange(n, dtype=np.float32)[:, None], "y": np.zeros(n, np.int64)}
    if classes is not None:
        fields["y"] = np.asarray(classes)
    if groups is not None:
        fields["group"] = np.asarray(groups)
    n_val = (n - N_TEST) // 4
    splits = {
        "train": np.arange(n_val, n - N_TEST),
        "val": np.arange(n_val),
        "test": np.arange(n - N_TEST, n),
    }
    return write_data_file(folder / "a.h5", fields, splits)


def divided(layout, folds, stratify=None):
    """The rows of val, and of train, by fold."""
    return [
        (
            rows_of_fold(layout, "val", folds, fold, stratify),
            rows_of_fold(layout, "train", folds, fold, stratify),
        )
        for fold in range(folds)
    ]


@pytest.mark.slow
def test_no_fold_is_empty_with_as_many_groups_as_folds(tmp_path):
    groups = np.arange(45) % 4
    layout = read_layout(file_of(tmp_path, 45, groups, groups % 2))
    assert all(len(val) == 10 for val, _ in divided(layout, 4, "y"))


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    n=st.integers(20, 80),
    folds=st.integers(2, 5),
    n_groups=st.integers(5, 15) | st.none(),
    stratify=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_each_sample_is_held_out_once(tmp_path_factory, n, folds, n_groups, stratify, seed):
    rng = np.random.default_rng(seed)
    groups = None
    if n_groups:  # each of them in train or val at least once
        groups = np.concatenate([np.arange(n_groups), rng.integers(0, n_groups, n - n_groups)])
    classes = rng.integers(0, 3, n)
    layout = read_layout(file_of(tmp_path_factory.mktemp("folds"), n, groups, classes))
    parts = divided(layout, folds, "y" if stratify else None)
    held_out = np.sort(np.concatenate([val for val, _ in parts]))
    assert held_out.tolist() == list(range(n - N_TEST)), "each once, and none of test"
    for val, train in parts:
        assert len(val)
        assert np.sort(np.concatenate([val, train])).tolist() == held_out.tolist()
        if groups is not None:
            assert not set(groups[val]) & set(groups[train])


def test_classes_are_spread_evenly(tmp_path):
    classes = np.array([0] * 80 + [1] * 25)
    classes = np.random.default_rng(0).permutation(classes)
    layout = read_layout(file_of(tmp_path, len(classes), classes=classes))
    counts = [np.bincount(classes[val], minlength=2) for val, _ in divided(layout, 5, "y")]
    assert np.ptp(counts, axis=0).max() <= 1


def test_groups_of_classes_are_spread_evenly(tmp_path):
    """Twenty patients, a quarter of them ill: no fold without an ill one."""
    patient = np.repeat(np.arange(20), 10)
    is_ill = (patient % 4 == 0).astype(np.int64)
    order = np.random.default_rng(1).permutation(len(patient))
    patient, is_ill = patient[order], is_ill[order]
    layout = read_layout(file_of(tmp_path, len(patient), patient, is_ill))
    for val, _ in divided(layout, 5, "y"):
        assert len(set(patient[val][is_ill[val] == 1])) == 1


def test_loaders_give_the_fold_and_no_seed_moves_a_sample(tmp_path):
    path = file_of(tmp_path, 45)
    seen = []
    for seed in (0, 1):
        data = H5DataModule(str(path), batch_size=7, seed=seed, folds=4, fold=1)
        held_out = np.concatenate([x.numpy()[:, 0] for x, _ in data.val_dataloader()])
        trained = np.concatenate([x.numpy()[:, 0] for x, _ in data.train_dataloader()])
        tested = np.concatenate([x.numpy()[:, 0] for x, _ in data.test_dataloader()])
        assert sorted([*held_out, *trained]) == list(range(40))
        assert tested.tolist() == [40, 41, 42, 43, 44]
        seen.append(sorted(held_out))
    assert seen[0] == seen[1] == list(range(1, 40, 4))


@pytest.mark.parametrize("groups", [None, np.arange(205) % 40])
def test_a_fraction_is_of_each_class_and_the_same_in_every_run(tmp_path, groups):
    classes = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [100, 60, 45]))
    if groups is not None:
        classes = groups % 3
    layout = read_layout(path := file_of(tmp_path, 205, groups, classes))
    whole = layout.map(layout.split("train"))
    trained = []
    for seed in (0, 1):
        data = H5DataModule(str(path), seed=seed, fraction=0.2, stratify="y")
        trained.append(data.rows("train"))
        assert data.rows("val") is data.rows("test") is None
        loaded = np.concatenate([x.numpy()[:, 0] for x, _ in data.train_dataloader()])
        assert sorted(loaded) == trained[-1].tolist()
    assert trained[0].tolist() == trained[1].tolist() == sorted(trained[0])
    assert len(trained[0]) == pytest.approx(0.2 * len(whole), abs=0 if groups is None else 6)
    shares = np.bincount(classes[trained[0]]) / np.bincount(classes[whole])
    assert shares == pytest.approx(0.2, abs=0.02 if groups is None else 0.1)
    if groups is not None:
        left_out = np.setdiff1d(whole, trained[0])
        assert not set(groups[trained[0]]) & set(groups[left_out])


def test_a_fraction_is_of_the_training_rows_of_a_fold(tmp_path):
    path = str(file_of(tmp_path, 45))
    whole = H5DataModule(path, folds=4, fold=1)
    part = H5DataModule(path, folds=4, fold=1, fraction=0.5)
    assert part.rows("val").tolist() == whole.rows("val").tolist()
    assert len(part.rows("train")) == 15
    assert set(part.rows("train")) < set(whole.rows("train"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"fold": 1}, "data.fold is 1, but data.folds is not set. Write: data.folds=5"),
        ({"fraction": 10}, "data.fraction is 10, expected a share: above 0, at most 1"),
        ({"folds": 1, "fold": 0}, "data.folds is 1, expected at least 2"),
        ({"folds": 5}, r"or train all of them: 'data.fold=range\(5\)' -m"),
        ({"folds": 5, "fold": 5}, "data.fold is 5, expected 0 to 4 with data.folds=5"),
    ],
)
def test_a_fold_that_is_none_is_refused(given, message):
    with pytest.raises(LabError, match=message):
        H5DataModule("a.h5", **given)


def test_folds_that_cannot_be_made_are_refused(tmp_path):
    layout = read_layout(file_of(tmp_path, 45, groups=np.arange(45) % 3))
    with pytest.raises(LabError, match=r"has 3 groups in train and val, too few for data.folds=4"):
        rows_of_fold(layout, "val", 4, 0, None)
    with pytest.raises(LabError, match=r"data.stratify is .x., expected a field of whole numbers"):
        rows_of_fold(layout, "val", 2, 0, "x")


class OwnRows(H5DataModule):
    def rows(self, split):
        return np.arange(3)


def test_rows_of_a_class_and_folds_exclude_each_other():
    with pytest.raises(LabError, match=r"OwnRows.rows\(\) chooses the rows itself"):
        OwnRows("a.h5", folds=2, fold=0)
