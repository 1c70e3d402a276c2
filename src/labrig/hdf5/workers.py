"""The worker processes of a loader: how they start, and when they end."""

import multiprocessing
from typing import Any

import torch
from torch.utils.data import DataLoader

from ..machine.parent import end_with_parent
from .dataset import H5Dataset, as_is


def start_workers(dataset: H5Dataset, plan: Any, num_workers: int, pin_memory: bool) -> DataLoader:
    """A DataLoader whose workers read the batches of `plan`, an iterable, again in each iteration.

    They start with the first iteration, and live until the DataLoader is gone. What is random in a
    batch follows from the batch alone, so the number of workers changes nothing.
    """
    multiprocessing.set_forkserver_preload([__name__])  # imports torch once for all of them
    return DataLoader(
        dataset,
        batch_sampler=plan,
        collate_fn=as_is,
        num_workers=num_workers,
        persistent_workers=True,
        pin_memory=pin_memory,
        multiprocessing_context=start_method(),
        worker_init_fn=end_with_its_parent,
        # Else the seed of the workers is drawn from torch's global generator: what the training draws
        # next (dropout) would be another number than without workers, or after a resume.
        generator=torch.Generator(),
    )


def start_method() -> str:
    """spawn where it was chosen, or is the default; else forkserver.

    Not fork: Python 3.11 hangs in a fork while another thread, such as one of DDP's, begins or ends.
    And "fork" may be nobody's choice: a lock of multiprocessing (tqdm has one) sets the default.
    """
    chosen = multiprocessing.get_start_method(allow_none=True)
    return "spawn" if chosen == "spawn" else "forkserver"


def end_with_its_parent(worker: int) -> None:
    """What each worker does first."""
    end_with_parent()
