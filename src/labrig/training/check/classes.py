"""Compares the classes of a model with those of the data, before a GPU fails without saying why."""

from __future__ import annotations

from typing import Any

from omegaconf import DictConfig

from ...errors import LabError
from ...hdf5.file.tokens import N_TOKENS, n_tokens_of
from ...hdf5.read.datamodule import H5DataModule


def check_classes(config: DictConfig, data: Any) -> None:
    """Compares `model.n_classes` and `model.n_tokens`, where there are any, with an H5DataModule."""
    model = config.get("model") or {}
    n_classes, n_tokens = model.get("n_classes"), model.get(N_TOKENS)
    if not isinstance(data, H5DataModule):
        return
    n_known = n_tokens_of(data.layout) or 0
    if isinstance(n_tokens, int) and n_tokens < n_known:
        raise LabError(
            f"model.n_tokens is {n_tokens}, but {data.layout.path} has {n_known} tokens. "
            "Write: model.n_tokens='${data_of:n_tokens}'"
        )
    if not isinstance(n_classes, int):
        return
    n_in_data = data.n_classes
    if n_in_data is not None and n_classes < n_in_data:
        raise LabError(
            f"model.n_classes is {n_classes}, but the labels y of {data.layout.path} go from 0 to "
            f"{n_in_data - 1}. Set model.n_classes={n_in_data}"
        )
