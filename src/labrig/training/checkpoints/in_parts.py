"""Checkpoints in parts: every process writes the tensors that it holds, into one directory.

torch.distributed.checkpoint does the work. Lightning's strategies read such a directory on any number of
processes; the functions here read it where the whole of it is wanted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from lightning.pytorch.strategies import FSDPStrategy
from torch import distributed
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.filesystem import FileSystem

from ...record.files.checkpoint_files import END_OF_FIT, link, remove, take_place
from ...record.files.checkpoint_hashes import HashedFile, read_sums, write_sums
from ...record.read.directory_weights import WEIGHTS, read_whole
from .checkpoint import AtomicCheckpointIO, plain_checkpoint
from .resume_point import refuse_damaged
from .state_copy import copied

META = "meta.pt"  # Lightning's name: all that is in no part
OPTIMIZER = "optimizer_"  # with its number


class PartsIO(AtomicCheckpointIO):
    """Saves directories too, for the strategies that `save_in_parts` was called with, and reads them."""

    group: Any = None  # of the processes that write; None: the default one

    def save_parts(self, checkpoint: dict[str, Any], path: str | Path, weights: str) -> None:
        """Saves a directory, of which every process writes a part; on all of them together.

        Args:
            weights: the name of the weights in it.
        """
        if self.thread and self.group is None:
            # One of its own: in the default one the thread would meet the training.
            self.group = distributed.new_group(backend="gloo")
        content = dict(checkpoint)
        tensors = {weights: content.pop("state_dict")}
        for n, state in enumerate(content.pop("optimizer_states", [])):
            tensors[f"{OPTIMIZER}{n}"] = state
        content = plain_checkpoint(content)
        self.wait()
        if self.is_in_background(path):
            tensors, content = staged(tensors), copied(content)
        self.do(partial(self._write_parts, tensors, content, Path(path)), path)

    def _write_parts(self, tensors: dict[str, Any], content: dict[str, Any], path: Path) -> None:
        temporary = self._emptied(path)
        with self._errors_kept(path, temporary):
            sums = write_parts(tensors, temporary, self.group)
            if distributed.get_rank() == 0:
                write_meta(content, temporary, sums)
                self._take_place(temporary, path)

    def add_weights(self, weights: dict[str, Any], name: str) -> None:
        """Adds other weights to last.ckpt, which is a directory; on all ranks together.

        Args:
            name: one of OTHER_WEIGHTS.
        """
        assert self.last
        temporary = self._emptied(self.last)
        with self._errors_kept(self.last, temporary):
            sums = write_parts({WEIGHTS[0]: weights}, temporary / name, self.group)
            if distributed.get_rank() == 0:
                sums = {f"{name}/{file}": digest for file, digest in sums.items()}
                older = read_sums(self.last).items()
                kept = {file: digest for file, digest in older if not file.startswith(f"{name}/")}
                for file in kept:
                    (temporary / file).parent.mkdir(exist_ok=True)
                    link(self.last / file, temporary / file)
                write_sums(temporary, kept | sums)
                take_place(temporary, self.last)

    def _emptied(self, path: Path) -> Path:
        """The temporary directory beside `path`; no process writes there before it is empty."""
        temporary = path.with_name(f".{path.name}.tmp")  # the same on all ranks
        if distributed.get_rank() == 0:
            remove(temporary)
        distributed.barrier(self.group)
        return temporary

    def load_checkpoint(self, path: str | Path, *args: Any, **kwargs: Any) -> dict[str, Any]:
        if Path(path).is_dir():
            return read_checkpoint(Path(path))
        return super().load_checkpoint(path, *args, **kwargs)


def save_in_parts(strategy: Any) -> None:
    """Has a strategy save by its PartsIO: Lightning's own writes into the place of the last checkpoint."""
    weights = WEIGHTS[isinstance(strategy, FSDPStrategy)]

    def save_checkpoint(checkpoint: Any, filepath: Any, storage_options: Any = None) -> None:
        strategy.checkpoint_io.save_parts(checkpoint, filepath, weights)

    strategy.save_checkpoint = save_checkpoint


class HashedFiles(FileSystem):
    """Writes the files of this process, and hashes them on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.sums: dict[str, str] = {}

    @contextmanager
    def create_stream(self, path: Any, mode: str) -> Iterator[Any]:
        with super().create_stream(path, mode) as stream, HashedFile(cast("Any", stream)) as file:
            yield file
        self.sums[Path(path).name] = file.hexdigest()

    def rename(self, path: Any, new_path: Any) -> None:
        super().rename(path, new_path)
        self.sums[Path(new_path).name] = self.sums.pop(Path(path).name)


def staged(tensors: dict[str, Any]) -> dict[str, Any]:
    """A copy of what this process holds, on the CPU, which the training does not change."""
    return dcp.FileSystemWriter("").stage(tensors)


def write_parts(tensors: dict[str, Any], directory: Path, group: Any) -> dict[str, str]:
    """Writes the tensors of all processes into a directory; to be called on all of them together.

    Returns:
        The sha256 of each file, of all processes.
    """
    files = HashedFiles()
    writer = dcp.FileSystemWriter(directory)
    writer.fs = files
    # What all have, such as the means of BatchNorm, is that of the first rank, as in a file.
    planner = dcp.DefaultSavePlanner(dedup_save_to_lowest_rank=True)
    dcp.save(tensors, storage_writer=writer, planner=planner, process_group=group)
    gathered: list[Any] = [None] * distributed.get_world_size(group)
    distributed.all_gather_object(gathered, files.sums, group=group)
    return {name: digest for sums in gathered for name, digest in sums.items()}


def write_meta(content: dict[str, Any], directory: Path, sums: dict[str, str]) -> None:
    """Completes a directory by what is in no part, and by the list of its files."""
    with open(directory / META, "wb") as file, HashedFile(file) as hashed:
        torch.save(content, cast("Any", hashed))
        file.flush()
        os.fsync(file.fileno())
    write_sums(directory, sums | {META: hashed.hexdigest()})


def read_own_part(weights: dict[str, Any], directory: Path) -> dict[str, Any]:
    """The weights of a directory, divided as `weights` are; to be called on all processes together."""
    paths = (dcp.FileSystemReader(directory).read_metadata().planner_data or {}).values()
    name = next(path[0] for path in paths if path[0] in WEIGHTS)
    part = staged({name: weights})
    dcp.load(part, checkpoint_id=directory)
    return part[name]


def read_checkpoint(directory: Path) -> dict[str, Any]:
    """All of a directory, as one file of a process alone would hold it, on the CPU."""
    refuse_damaged(directory)
    parts = read_whole(directory)
    content = torch.load(directory / META, map_location="cpu", weights_only=True)
    content["state_dict"] = next(parts[name] for name in WEIGHTS if name in parts)
    numbers = range(sum(name.startswith(OPTIMIZER) for name in parts))
    content["optimizer_states"] = [numbered(parts[f"{OPTIMIZER}{n}"]) for n in numbers]
    # As tested_weights.py has it in a file.
    if (directory / END_OF_FIT).is_dir():
        content[f"state_dict_of_{END_OF_FIT}"] = read_whole(directory / END_OF_FIT)[WEIGHTS[0]]
    return content


def numbered(state: dict[str, Any]) -> dict[str, Any]:
    """The state of an optimizer by the numbers of its parameters, as torch keeps it, instead of by names."""
    groups = [dict(group) for _, group in sorted(state["param_groups"].items())]
    names = [name for group in groups for name in group["params"]]
    numbers = {name: number for number, name in enumerate(names)}
    for group in groups:
        group["params"] = [numbers[name] for name in group["params"]]
    states = {numbers[name]: entry for name, entry in state.get("state", {}).items()}
    return {"state": states, "param_groups": groups}
