"""A model with fewer classes than the data is refused before the training, in words."""

import numpy as np
import pytest
from labrig.data import H5DataModule, write_data_file
from labrig.errors import LabError
from labrig.training.check import check_classes
from omegaconf import OmegaConf


def data_with(tmp_path, y, **settings):
    fields = {"x": np.zeros((len(y), 2)), "y": np.array(y)}
    path = write_data_file(tmp_path / "a.h5", fields, {"train": range(len(y))})
    return H5DataModule(str(path), **settings)


def test_a_label_beyond_the_models_classes_is_refused(tmp_path):
    data = data_with(tmp_path, [0, 3, 5, 1])
    check_classes(OmegaConf.create({"model": {"n_classes": 6}}), data)
    message = r"model\.n_classes is 5, but the labels y of .*a\.h5 go from 0 to 5. Set model\.n_cl"
    with pytest.raises(LabError, match=message):
        check_classes(OmegaConf.create({"model": {"n_classes": 5}}), data)


def test_what_is_no_class_is_not_compared(tmp_path):
    data = data_with(tmp_path, [5])
    assert data.n_classes == 6
    for model in (None, {}, {"width": 3}):
        check_classes(OmegaConf.create({"model": model}), data)
    few = OmegaConf.create({"model": {"n_classes": 1}})
    check_classes(few, object())
    assert data_with(tmp_path, [0.5, 3.5]).n_classes is None
    assert data_with(tmp_path, [5], fields=["x"]).n_classes is None
    check_classes(few, data_with(tmp_path, [0.5, 3.5]))
