"""Reads the tensors of a checkpoint that is a directory. It imports torch."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint import DefaultLoadPlanner, FileSystemReader, load
from torch.distributed.checkpoint.metadata import TensorStorageMetadata

from ...errors import LabError
from ..files.checkpoint_files import METADATA, OTHER_WEIGHTS, metadata_problem

WEIGHTS = ("state_dict", "model")  # where ModelParallelStrategy and FSDPStrategy keep them


def read_weights(checkpoint: Path) -> dict[str, Any]:
    """The weights that were tested, of a directory, on the CPU; no code in it can run."""
    content = read_whole(weights_directory(checkpoint), WEIGHTS)
    return content.get(WEIGHTS[0]) or content[WEIGHTS[1]]


def weights_directory(checkpoint: Path) -> Path:
    """Where a directory has the weights that were tested: in itself, or in one of OTHER_WEIGHTS."""
    inner = [checkpoint / name for name in OTHER_WEIGHTS]
    return next((each for each in inner if (each / METADATA).is_file()), checkpoint)


class PlainPlanner(DefaultLoadPlanner):
    """Reads plain types only."""

    def load_bytes(self, read_item: Any, value: Any) -> None:
        self.state_dict[read_item.dest_index.fqn] = torch.load(value, weights_only=True)


def read_whole(directory: Path, names: tuple[str, ...] = ()) -> dict[str, Any]:
    """The parts of all processes, put together by this one alone.

    Args:
        names: only these; all by default.
    """
    problem = metadata_problem(directory)
    if problem:
        raise LabError(f"{directory} cannot be read as a checkpoint: {problem}. Name another one")
    reader = FileSystemReader(directory)
    metadata = reader.read_metadata()
    paths = {
        key: path
        for key, path in (metadata.planner_data or {}).items()
        if not names or path[0] in names
    }
    flat: dict[str, Any] = {}
    for key in paths:
        found = metadata.state_dict_metadata[key]
        is_tensor = isinstance(found, TensorStorageMetadata)
        flat[key] = torch.empty(found.size, dtype=found.properties.dtype) if is_tensor else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that no other process takes part
        planner = PlainPlanner(flatten_state_dict=False, flatten_sharded_tensors=False)
        load(flat, storage_reader=reader, planner=planner, no_dist=True)
    nested: dict[Any, Any] = {}
    for key, path in paths.items():
        place = nested
        for step in path[:-1]:
            place = place.setdefault(step, {})
        place[path[-1]] = flat[key]
    return nested
