"""What a save needs: a copy of the state in memory, and what an error of a disk is called."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import torch
from lightning_utilities.core.apply_func import apply_to_collection
from torch.distributed.checkpoint.api import CheckpointException


def disk_error(error: BaseException, path: Path) -> OSError:
    """The error of a disk behind one of torch."""
    if isinstance(error, CheckpointException):
        error = next(iter(error.failures.values()))[0]
    if isinstance(error, OSError):
        return OSError(error.errno, error.strerror, str(path))
    # torch's writer turns a failed write into a RuntimeError.
    if "inline_container" not in str(error):
        raise error
    return OSError(errno.ENOSPC, "no space left", str(path))


def copied(content: Any) -> Any:
    """A copy on the CPU, in which tensors share their memory as before."""
    storages: dict[int, Any] = {}

    def copy(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.layout != torch.strided:
            return tensor.detach().cpu().clone()
        storage = tensor.untyped_storage()
        place = storage.data_ptr()
        if place not in storages:
            storages[place] = storage.cpu() if storage.device.type != "cpu" else storage.clone()
        shape = (tensor.storage_offset(), tensor.size(), tensor.stride())
        return torch.empty(0, dtype=tensor.dtype).set_(storages[place], *shape)

    return apply_to_collection(content, torch.Tensor, copy)
