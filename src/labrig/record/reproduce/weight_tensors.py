"""Reads the tensors of whatever `init_from` may name. It imports torch."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

import torch
from torch import Tensor

from ...errors import LabError, require_package
from ...machine.hub import INDEX, PACKAGES, shards_of
from ...machine.text_formats import and_more
from ...project import this_project
from ..files.forms import problem_in
from ..files.schema import InitialWeights
from ..read.directory_weights import read_weights
from .recorded_inputs import find_content

LEFT_OUT = "left_out"  # a key of checkpoints: LeftOut
WEIGHTS = "state_dict"  # and what begins so: weights of other moments
MAX_SHOWN = 3  # names of tensors in a line


class LeftOut(TypedDict):
    """What a checkpoint does not hold of the weights that its run started from."""

    weights: InitialWeights
    names: dict[str, str]  # of the task -> of the file


def read_tensors(path: Path, *, shapes_only: bool = False) -> dict[str, Tensor]:
    """The tensors of .safetensors files, of a checkpoint, or of a saved state_dict, on the CPU.

    Args:
        path: a file, an index of .safetensors files, or a checkpoint that is a directory.
        shapes_only: of .safetensors files the headers only, as tensors without data.
    """
    if path.name.endswith(INDEX):
        tensors: dict[str, Tensor] = {}
        for shard in shards_of(path):
            tensors |= read_safetensors(shard, shapes_only)
        return tensors
    if path.suffix == ".safetensors":
        return read_safetensors(path, shapes_only)
    if path.is_dir():
        return read_weights(path)
    try:
        # Plain types only, so no code in the file can run.
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        raise LabError(
            f"init_from: {path} cannot be read as weights: it is damaged, or holds more than "
            "tensors. Save the tensors alone: torch.save(model.state_dict(), FILE)"
        ) from error
    if isinstance(content, Mapping):
        content = with_left_out(dict(content), path).get(WEIGHTS, content)
    is_state = isinstance(content, Mapping) and all(
        isinstance(value, Tensor) for value in content.values()
    )
    if not is_state or not content:
        keys = (
            f" with the keys {and_more(content, MAX_SHOWN)}" if isinstance(content, Mapping) else ""
        )
        raise LabError(
            f"init_from: {path} holds a {type(content).__name__}{keys}; expected tensors by their "
            "names, alone or as `state_dict`"
        )
    return dict(content)


def read_whole_weights(checkpoint: Path) -> dict[str, Tensor]:
    """The weights that were tested, of a file or a directory; with those that it leaves out."""
    if checkpoint.is_dir():
        return read_weights(checkpoint)
    content = torch.load(checkpoint, map_location="cpu", weights_only=True)
    return with_left_out(content, checkpoint)[WEIGHTS]


def with_left_out(content: dict[str, Any], checkpoint: Path) -> dict[str, Any]:
    """The content of a checkpoint with the weights of `init_from` that `checkpoint.leave_out_initial` left out."""
    left_out = content.get(LEFT_OUT)
    if left_out is None:
        return content
    if problem := problem_in(left_out, LeftOut):
        raise LabError(
            f"{checkpoint} does not say which weights it leaves out: {problem}. "
            "Restore it from a copy"
        )
    what = f"the weights that {checkpoint} leaves out"
    initial = read_tensors(find_content(left_out["weights"], this_project(), what))
    back = {name: initial[there] for name, there in left_out["names"].items()}
    whole = {key: back | content[key] for key in content if key.startswith(WEIGHTS)}
    return content | whole


def read_safetensors(path: Path, shapes_only: bool = False) -> dict[str, Tensor]:
    """The tensors of a .safetensors file; without data where only their shapes are wanted."""
    require_package("safetensors", "init_from: a .safetensors file", PACKAGES)
    from safetensors import SafetensorError, safe_open  # an optional package

    # Its class has no types.
    def shape_of(file: Any, name: str) -> Tensor:
        return torch.empty(file.get_slice(name).get_shape(), device="meta")

    try:
        with safe_open(path, framework="pt") as file:
            read = shape_of if shapes_only else type(file).get_tensor
            return {name: read(file, name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError as error:
        raise LabError(f"init_from: there is no file {path}. Copy it again") from error
    except SafetensorError as error:
        raise LabError(
            f"init_from: {path} is no whole .safetensors file: {error}. Copy it again"
        ) from error
