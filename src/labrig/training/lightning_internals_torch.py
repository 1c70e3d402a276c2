"""What is replaced or read of torch and line_profiler beyond their public interface, each with the
reason.

A release that lacks one of these names leaves that part out; nothing else depends on it.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing import resource_tracker
from operator import is_
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import torch
import torch.optim.optimizer as all_optimizers
from torch import Tensor
from torch.optim import Adam, AdamW
from torch.utils.data import DataLoader

from ..machine.parent import end_with_parent
from ..machine.stop import PREEMPTION_SIGNALS
from .exact.random_state import SeededBatch, seed_generators

if TYPE_CHECKING:
    from line_profiler import LineProfiler


# Replaces an attribute of somebody else's object, and puts it back.


@contextmanager
def replaced(owner: object, name: str, new: object) -> Iterator[None]:
    """`owner.name` is `new` within the block. Afterwards it is what it was, its own or
    inherited."""
    is_own = name in vars(owner)
    before = vars(owner).get(name)
    setattr(owner, name, new)
    try:
        yield
    finally:
        if is_own:
            setattr(owner, name, before)
        else:
            delattr(owner, name)


ADAM_READ_IN = "2.13."  # the releases of torch whose Adam.step was read for `fused_adam_step`


def is_fused_adam(adam: Any) -> bool:
    """Whether `fused_adam_step` knows this torch, and all that the optimizer was made with."""
    if not torch.__version__.startswith(ADAM_READ_IN) or type(adam) not in (Adam, AdamW):
        return False
    group = adam.param_groups[0]
    kinds = {(one.device, one.dtype) for one in group["params"]}
    has_tensors = any(isinstance(one, Tensor) for one in (group["lr"], *group["betas"]))
    return group["fused"] and not group["amsgrad"] and len(kinds) == 1 and not has_tensors


def fused_adam_step(adam: Any, closure: Callable[[], Any]) -> None:
    """`adam.step(closure)` with the same bits, in half of the time that a small network takes.

    `Adam.step`, `_init_group` and `_fused_adam` look each parameter up and sort them by device. The
    state has them in order; where it has not, or somebody looks on, torch makes the step.
    """
    hooks = adam._optimizer_step_pre_hooks, adam._optimizer_step_post_hooks
    of_all = (
        all_optimizers._global_optimizer_pre_hooks,
        all_optimizers._global_optimizer_post_hooks,
    )
    is_watched = any((*hooks, *of_all))
    if is_watched or torch.autograd._profiler_enabled() or not is_of_optim(adam.step):
        adam.step(closure)
        return
    closure()
    (group, *others), state = adam.param_groups, adam.state
    gradients = [one.grad for one in group["params"]]
    is_in_order = len(state) == len(gradients) and all(map(is_, state, group["params"]))
    is_known = is_in_order and not others and all(state.values())
    if not is_known or any(one is None for one in gradients):
        adam.step()
        return
    note_stepped(adam)
    names = ("exp_avg", "exp_avg_sq", "step")
    means, squares, steps = ([one[name] for one in state.values()] for name in names)
    update = torch._fused_adamw_ if group["decoupled_weight_decay"] else torch._fused_adam_
    words = {name: group[name] for name in ("lr", "weight_decay", "eps", "amsgrad", "maximize")}
    words["beta1"], words["beta2"] = group["betas"]
    with torch.no_grad():
        # A CPU would make a tensor of the number for each parameter.
        torch._foreach_add_(steps, torch.ones(()) if steps[0].is_cpu else 1)
        update(group["params"], gradients, means, squares, [], steps, **words)


def note_stepped(optimizer: Any) -> None:
    """`LRScheduler.step` warns of an optimizer that has not stepped, by what its wrapper of
    `optimizer.step` notes."""
    optimizer._opt_called = True


def is_of_optim(step: Any) -> bool:
    """Whether nobody but torch and its schedules has wrapped a step."""
    while hasattr(step, "__code__") and step.__code__.co_filename.startswith(
        torch.optim.__path__[0]
    ):
        step = getattr(step, "__wrapped__", None)
    return step is None


class CompilerWatch:
    """What torch.compile does between `begin` and `end`.

    - `torch._functorch.config.force_non_lazy_backward_lowering` compiles backward together with
      forward. Else an error there comes when the forward has been computed already.
    - `torch._dynamo.utils.counters` has the frames (functions) that dynamo looked at, and the graphs;
      `guard_failures` has an entry for each recompilation. No public name has them.

    A torch without these names compiles as ever; then `counts` is empty.
    """

    def __init__(self) -> None:
        self.before: dict[str, int] = {}
        self.stack = ExitStack()

    def begin(self) -> None:
        self.end()
        self.before = dynamo_counts()
        from torch._functorch import config

        of_config: Any = config
        if hasattr(config, "force_non_lazy_backward_lowering"):
            self.stack.enter_context(of_config.patch(force_non_lazy_backward_lowering=True))

    def end(self) -> None:
        self.stack.close()

    def counts(self) -> dict[str, int]:
        """Frames, graphs, breaks and recompilations since `begin`."""
        return {name: n - self.before.get(name, 0) for name, n in dynamo_counts().items()}


NOTHING_COUNTED = {"frames": 0, "frames_ok": 0, "graphs": 0, "breaks": 0, "recompilations": 0}


def dynamo_counts() -> dict[str, int]:
    """What dynamo has done in this process; zeros where a release keeps it elsewhere."""
    import torch._dynamo.utils as dynamo

    if not hasattr(dynamo, "counters"):
        return NOTHING_COUNTED
    counters = dynamo.counters
    failures = getattr(dynamo, "guard_failures", {})
    return {
        "frames": counters["frames"]["total"],
        "frames_ok": counters["frames"]["ok"],
        "graphs": counters["stats"]["unique_graphs"],
        "breaks": sum(counters["graph_break"].values()),
        "recompilations": sum(map(len, failures.values())),
    }


def frames_compiled() -> int:
    """How many functions dynamo has compiled in this process."""
    return dynamo_counts()["frames_ok"]


def compile_errors() -> tuple[type[BaseException], ...]:
    """What torch.compile raises for what it cannot compile; none where a release has another name."""
    import torch._dynamo.exc as errors

    return (errors.TorchDynamoException,) if hasattr(errors, "TorchDynamoException") else ()


def reason_of(error: BaseException) -> str:
    """An error of the compiler in one line."""
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {first}"


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
def workers_in_hand() -> Iterator[None]:
    """Workers of a DataLoader that start within the block ignore what asks this process to stop, and
    end with the block, or with this process however it ends.

    A scheduler sends its signal to all processes of a job, and a terminal its Ctrl-C; this process
    alone decides when to stop. torch's `_worker_loop` sets a handler for TERM in each worker, but a
    signal that is blocked when a process starts stays blocked in it, over fork and exec alike. So
    `DataLoader._get_iterator`, which starts them, runs with these signals blocked.

    Workers that are left when Python ends are killed by multiprocessing, which torch takes for a
    failure of theirs. So those of an exception, whose traceback holds them, are ended here by
    `_shutdown_workers`, as Lightning does it.
    """
    if not hasattr(DataLoader, "_get_iterator"):
        yield
        return
    get_iterator = DataLoader._get_iterator
    started = WeakSet()

    def start_workers(loader: DataLoader) -> Iterator[Any]:
        if loader.num_workers == 0:
            return get_iterator(loader)
        context = loader.multiprocessing_context or multiprocessing
        if context.get_start_method() != "fork":
            # It would unblock TERM if it started later.
            resource_tracker.ensure_running()
        own_first = partial(begin_worker, loader.worker_init_fn)
        with signals_blocked(), replaced(loader, "worker_init_fn", own_first):
            batches = get_iterator(loader)
        # torch and multiprocessing end a worker that hangs by TERM, which it does not hear.
        for worker in getattr(batches, "_workers", []):
            worker._popen.terminate = worker._popen.kill
        started.add(batches)
        return batches

    try:
        with replaced(DataLoader, "_get_iterator", start_workers):
            yield
    finally:
        for batches in started:
            if hasattr(batches, "_shutdown_workers"):
                batches._shutdown_workers()


@contextmanager
def signals_blocked() -> Iterator[None]:
    """What asks this process to stop waits until the block is over."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (*PREEMPTION_SIGNALS, signal.SIGINT))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def begin_worker(users_first: Callable[[int], None] | None, worker: int) -> None:
    """What each worker does first; `users_first` is the `worker_init_fn` of its DataLoader.

    `_MapDatasetFetcher.fetch` makes a batch from its indices. It seeds the generators before those
    that carry a seed, see `SeededBatch`.
    """
    end_with_parent()
    if users_first:
        users_first(worker)
    fetcher = getattr(torch.utils.data._utils.fetch, "_MapDatasetFetcher", None)
    if fetcher is None:
        return
    fetch = fetcher.fetch

    def seed_and_fetch(self: Any, indices: Any) -> Any:
        if isinstance(indices, SeededBatch):
            seed_generators(indices.entropy)
        return fetch(self, indices)

    fetcher.fetch = seed_and_fetch


def can_seed_batches() -> bool:
    """Whether the private names are there that `begin_worker` and `order_replaced` need."""
    fetch = getattr(torch.utils.data._utils, "fetch", None)
    return hasattr(DataLoader, "_index_sampler") and hasattr(fetch, "_MapDatasetFetcher")


@contextmanager
def iterations_replaced(
    iterate_loader: Callable[[DataLoader, Callable[[DataLoader], Iterator]], Iterator],
    order_of: Callable[[DataLoader], Any],
) -> Iterator[None]:
    """Within the block `iter(loader)` gives `iterate_loader(loader, original)`, and an iterator takes
    its indices from `order_of(loader)` if that is not None.

    `DataLoader._index_sampler` is where iterators find the sampler. The DataLoader itself stays as
    it is: its sampler cannot be set, and may be looked at by the user.
    """
    if not hasattr(DataLoader, "_index_sampler"):
        yield
        return
    iterate = DataLoader.__iter__
    index_sampler: Any = DataLoader._index_sampler.fget

    def sampler_of(loader: DataLoader) -> Any:
        order = order_of(loader)
        return index_sampler(loader) if order is None else order

    with (
        replaced(DataLoader, "__iter__", lambda loader: iterate_loader(loader, iterate)),
        replaced(DataLoader, "_index_sampler", property(sampler_of)),
    ):
        yield


def collect_marked_lines() -> None:
    """From now on functions are counted that line_profiler's `@profile` decorates when they are
    imported.

    Given a profiler, `line_profiler.profile` writes no files by itself when Python ends; it has no
    public way to say so.
    """
    # On Python 3.12 and newer its other core counts in one thread only: with a second one, such as
    # that of the data, it fails with "tool 2 is not in use".
    os.environ.setdefault("LINE_PROFILER_CORE", "legacy")
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
