# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""What is replaced or read of torch and line_profiler beyond their public interface, each with the
reason.

A release that lacks one of these names leaves that part out; nothing else depends on it.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import DataLoader

from ..machine.stop import PREEMPTION_SIGNALS
from .replaced import replaced

if TYPE_CHECKING:
    from line_profiler import LineProfiler


@contextmanager
def compile_errors_ignored() -> Iterator[None]:
    """What torch.compile cannot compile runs uncompiled, with a warning, within the block.

    `torch._dynamo.config.suppress_errors` is the only switch for it. Without it such an error ends
    the training.
    """
    config = torch._dynamo.config if hasattr(torch, "_dynamo") else None
    if not hasattr(config, "suppress_errors"):
        yield
        return
    with config.patch(suppress_errors=True):
        yield


@contextmanager
def cuda_memory_recorded(file: Path) -> Iterator[None]:
    """Writes the allocations on the GPUs within the block to `file`, for pytorch.org/memory_viz.

    torch documents these two functions ("Understanding CUDA Memory Usage"), although their names
    are private.
    """
    memory = torch.cuda.memory
    if not hasattr(memory, "_record_memory_history"):
        print(f"profile: torch {torch.__version__} has no torch.cuda.memory._record_memory_history")
        yield
        return
    memory._record_memory_history(max_entries=100_000)
    try:
        yield
        memory._dump_snapshot(str(file))
    finally:
        memory._record_memory_history(enabled=None)


@contextmanager
def workers_ignore_signals() -> Iterator[None]:
    """Workers of a DataLoader that start within the block ignore what asks this process to stop.

    A scheduler sends its signal to all processes of a job, and a terminal its Ctrl-C; this process
    alone decides when to stop. torch's `_worker_loop` sets a handler for TERM in each worker, but a
    signal that is blocked when a process starts stays blocked in it, over fork and exec alike. So
    `DataLoader.__iter__`, which starts them, runs with these signals blocked.
    """
    iterate = DataLoader.__iter__

    def iterate_with_signals_blocked(loader: DataLoader) -> Iterator[Any]:
        if loader.num_workers == 0:
            return iterate(loader)
        context = loader.multiprocessing_context or multiprocessing
        if context.get_start_method() != "fork":
            # It would unblock TERM if it started later.
            resource_tracker.ensure_running()
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, (*PREEMPTION_SIGNALS, signal.SIGINT))
        try:
            batches = iterate(loader)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        # torch and multiprocessing end a worker that hangs by TERM, which it does not hear.
        for worker in getattr(batches, "_workers", []):
            worker._popen.terminate = worker._popen.kill
        return batches

    with replaced(DataLoader, "__iter__", iterate_with_signals_blocked):
        yield


def collect_marked_lines() -> None:
    """From now on functions are counted that line_profiler's `@profile` decorates when they are
    imported.

    Given a profiler, `line_profiler.profile` writes no files by itself when Python ends; it has no
    public way to say so.
    """
    from line_profiler import LineProfiler, profile

    profile._profile = LineProfiler()
    profile.enable()


def profiler_of_marked_lines() -> LineProfiler:
    """The profiler of `collect_marked_lines`; a new one if line_profiler keeps it elsewhere."""
    from line_profiler import LineProfiler, profile

    return getattr(profile, "_profile", None) or LineProfiler()


def forget_marked_lines() -> None:
    """Undoes `collect_marked_lines`."""
    from line_profiler import profile

    profile._profile = None
    profile.disable()
