"""Compares the classes of a model with those of the data, before a GPU fails without saying why."""

from __future__ import annotations

from typing import Any

from omegaconf import DictConfig

from ...errors import LabError
from ...hdf5.read.datamodule import H5DataModule


def check_classes(config: DictConfig, data: Any) -> None:
    """Compares `model.n_classes`, where there is one, with the labels of an H5DataModule."""
    n_classes = (config.get("model") or {}).get("n_classes")
    if not isinstance(n_classes, int) or not isinstance(data, H5DataModule):
        return
    n_in_data = data.n_classes
    if n_in_data is not None and n_classes < n_in_data:
        raise LabError(
            f"model.n_classes is {n_classes}, but the labels y of {data.layout.path} go from 0 to "
            f"{n_in_data - 1}. Set model.n_classes={n_in_data}"
        )
