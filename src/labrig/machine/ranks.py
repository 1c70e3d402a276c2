"""Which of how many processes this one is, from whatever started it.

In order of trust: torchrun, a Slurm step, Open MPI, PMI/PMIx, PBS, a single process. The innermost launcher knows
best, so `srun torchrun` is torchrun's; nothing is written back into the environment.
"""

from __future__ import annotations

import math
import os
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from .. import env
from ..errors import LabError

OPEN_AFTER = timedelta(minutes=2)  # at most: one host starts its processes later than the other
HEARD_AFTER = timedelta(minutes=10)  # at most: the first rank freezes the code meanwhile
INTERACTIVE_STEP = "4294967290"  # salloc's shell: in an allocation, but not started as its tasks


@dataclass(frozen=True)
class Variable:
    """An environment variable that holds a number; one that is not required may be missing."""

    name: str
    required: bool = True

    def read(self, environ: Mapping[str, str], default: int) -> int:
        """Its value, or `default` when it may be missing and is.

        Raises:
            KeyError: it is required, and not set.
        """
        if not self.required and self.name not in environ:
            return default
        return int(environ[self.name])


@dataclass(frozen=True)
class Launcher:
    """The variables that hold its numbers. A number without a variable follows from the list of hosts."""

    name: str
    rank: Variable
    world_size: Variable | None = None
    local_rank: Variable | None = None
    local_size: Variable | None = None
    node_rank: Variable | None = None
    n_nodes: Variable | None = None


LAUNCHERS = (
    Launcher(
        "torchrun",
        rank=Variable("RANK"),
        world_size=Variable("WORLD_SIZE"),
        local_rank=Variable("LOCAL_RANK"),
        local_size=Variable("LOCAL_WORLD_SIZE"),
        node_rank=Variable("GROUP_RANK"),
        n_nodes=Variable("GROUP_WORLD_SIZE", required=False),
    ),
    Launcher(
        "slurm",
        rank=Variable("SLURM_PROCID"),
        world_size=Variable("SLURM_STEP_NUM_TASKS"),
        local_rank=Variable("SLURM_LOCALID"),
        node_rank=Variable("SLURM_NODEID"),
    ),
    Launcher(
        "openmpi",
        rank=Variable("OMPI_COMM_WORLD_RANK"),
        world_size=Variable("OMPI_COMM_WORLD_SIZE"),
        local_rank=Variable("OMPI_COMM_WORLD_LOCAL_RANK", required=False),
        local_size=Variable("OMPI_COMM_WORLD_LOCAL_SIZE", required=False),
    ),
    Launcher(  # MPICH, Intel MPI
        "pmi",
        rank=Variable("PMI_RANK"),
        world_size=Variable("PMI_SIZE"),
        local_rank=Variable("MPI_LOCALRANKID", required=False),
        local_size=Variable("MPI_LOCALNRANKS", required=False),
    ),
    Launcher(
        "pmi",
        rank=Variable("PMIX_RANK"),
        world_size=Variable("PMIX_SIZE"),
        local_rank=Variable("PMIX_LOCAL_RANK", required=False),
        local_size=Variable("PMIX_LOCAL_SIZE", required=False),
    ),
    Launcher("pbs", rank=Variable("PBS_VNODENUM")),  # pbsdsh, which counts along the node file
    Launcher("pbs", rank=Variable("PBS_NODENUM")),
)


@dataclass(frozen=True)
class Ranks:
    """This process among all: 0 <= rank < world_size, 0 <= local_rank < local_size on node node_rank of n_nodes."""

    source: str
    rank: int
    world_size: int
    local_rank: int
    local_size: int
    node_rank: int
    n_nodes: int
    main_address: str
    main_port: int

    @property
    def even(self) -> bool:
        """Whether every node runs as many processes as this one."""
        return self.local_size * self.n_nodes == self.world_size


def discover(environ: Mapping[str, str] = os.environ) -> Ranks:
    """The ranks of this process."""
    for launcher in LAUNCHERS:
        try:
            if _started(launcher, environ):
                return _read(launcher, environ)
        except KeyError as error:
            raise LabError(
                f"started by {launcher.name}, but its variable {error.args[0]} is not set; was env cleaned?\n"
                f"Pass it on (mpirun -x {error.args[0]}=<value>), or start with srun or torchrun."
            ) from error
    _refuse_bare_process(environ)
    return Ranks(
        source="single",
        rank=0,
        world_size=1,
        local_rank=0,
        local_size=1,
        node_rank=0,
        n_nodes=1,
        main_address="127.0.0.1",
        main_port=_port(environ, n_nodes=1),
    )


def rank_of_process(environ: Mapping[str, str] = os.environ) -> int:
    """The rank of this process, also of one that Lightning itself started on this machine."""
    ranks = discover(environ)
    return int(environ.get("LOCAL_RANK", 0)) if ranks.source == "single" else ranks.rank


def _started(launcher: Launcher, environ: Mapping[str, str]) -> bool:
    """Whether this launcher started the process."""
    if launcher.name == "torchrun":
        return "TORCHELASTIC_RUN_ID" in environ
    if launcher.name == "slurm":
        if environ.get("SLURM_STEP_ID", INTERACTIVE_STEP) == INTERACTIVE_STEP:
            return False
        # mpirun starts its own daemons as a step, one task per node; its processes are the ranks
        n_mpi_processes = int(environ.get("OMPI_COMM_WORLD_SIZE", 0))
        return n_mpi_processes <= int(environ["SLURM_STEP_NUM_TASKS"])
    if launcher.name == "pbs":
        is_job_script = int(environ.get("PBS_TASKNUM", 1)) == 1
        if is_job_script or "PBS_NODEFILE" not in environ:
            return False
    return launcher.rank.name in environ


def _read(launcher: Launcher, environ: Mapping[str, str]) -> Ranks:
    """The numbers that the launcher gives; the missing ones follow from where each task runs."""

    def number(variable: Variable | None, default: int) -> int:
        return default if variable is None else variable.read(environ, default)

    host_of_task = _hosts_of_step(environ) if launcher.name == "slurm" else _node_file(environ)
    hosts = list(dict.fromkeys(host_of_task))
    rank = number(launcher.rank, 0)
    world_size = number(launcher.world_size, len(host_of_task))

    if len(host_of_task) == world_size:
        node_of_rank = [hosts.index(host) for host in host_of_task]
    else:  # one node is filled after the other
        tasks_per_node = number(launcher.local_size, math.ceil(world_size / max(1, len(hosts))))
        node_of_rank = [task // tasks_per_node for task in range(world_size)]
    node = node_of_rank[rank]

    local_size = number(launcher.local_size, node_of_rank.count(node))
    n_nodes = number(launcher.n_nodes, len(hosts) or math.ceil(world_size / local_size))
    return Ranks(
        source=launcher.name,
        rank=rank,
        world_size=world_size,
        local_rank=number(launcher.local_rank, node_of_rank[:rank].count(node)),
        local_size=local_size,
        node_rank=number(launcher.node_rank, min(node, n_nodes - 1)),
        n_nodes=n_nodes,
        main_address=_address(environ, hosts, n_nodes),
        main_port=_port(environ, n_nodes),
    )


def _refuse_bare_process(environ: Mapping[str, str]) -> None:
    n_slurm_tasks = int(environ.get("SLURM_NTASKS", 1))
    n_pbs_tasks = len(_node_file(environ)) if "PBS_NODEFILE" in environ else 1
    n_tasks = max(n_slurm_tasks, n_pbs_tasks)
    if n_tasks > 1:
        start = "srun" if n_slurm_tasks > 1 else "mpirun"
        raise LabError(
            f"this allocation has {n_tasks} tasks, but one process was started without a launcher. "
            "It would wait for the others for ever.\n"
            f"Start all of them: {start} <the same command>   or one: {start} -n 1 <…>"
        )


def leave_group() -> None:
    """Ends the process group of this rank, if it has one. To be called when its work is done.

    Lightning ends that of NCCL only. The threads of gloo would run on, and can crash a rank at its
    exit (pytorch/pytorch#179291): a job that finished would count as failed.
    """
    from torch import distributed

    if distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()


WORD = "lab/attempt"  # the key of what the first rank says


def tell_other_ranks(ranks: Ranks, text: str) -> None:
    """Says on the first rank what `hear_first_rank` gives on the others."""
    store_of(ranks).set(WORD, text)


def hear_first_rank(ranks: Ranks) -> str:
    """What the first rank says, for which this one waits ten minutes."""
    store = store_of(ranks)
    try:
        return store.get(WORD).decode()
    except RuntimeError as error:  # of torch.distributed, a timeout too
        raise LabError(
            f"rank {ranks.rank} hears nothing of the first one, which has probably ended. "
            "Look at what that one printed"
        ) from error


@cache  # kept open: the process group later uses the same server of the first rank
def store_of(ranks: Ranks) -> Any:
    """The store that all ranks share at the address of the first one; torchrun has opened one."""
    from torch.distributed import rendezvous

    address = f"[{ranks.main_address}]" if ":" in ranks.main_address else ranks.main_address
    url = f"tcp://{address}:{ranks.main_port}"
    try:
        store, _, _ = next(rendezvous(url, ranks.rank, ranks.world_size, timeout=OPEN_AFTER))
    except RuntimeError as error:  # of torch.distributed
        raise LabError(
            f"rank {ranks.rank} does not meet the other {ranks.world_size - 1} at "
            f"{ranks.main_address}:{ranks.main_port} within {OPEN_AFTER.seconds} s. Start the command "
            "on every host at once; is the port open? lab docs several-hosts"
        ) from error
    store.set_timeout(HEARD_AFTER)
    return store


def job_port(job_id: int, restart: int = 0) -> int:
    """20000 to 29999: below the ephemeral ports, different for jobs that share a node and for each restart."""
    return 20000 + (job_id * 7 + restart) % 10000


def _port(environ: Mapping[str, str], n_nodes: int) -> int:
    if "MASTER_PORT" in environ:
        return int(environ["MASTER_PORT"])
    for name in env.JOB_IDS:
        if job_id := environ.get(name):
            digits = re.match(r"\d+", job_id)
            number = int(digits[0]) if digits else zlib.crc32(job_id.encode())
            return job_port(number, int(environ.get("SLURM_RESTART_COUNT", 0)))
    if n_nodes > 1:
        raise LabError(
            "several nodes, but no job id to derive a port from. Set MASTER_PORT, the same on all nodes."
        )
    return job_port(os.getppid())  # processes on one node have the launcher as their common parent


def _address(environ: Mapping[str, str], hosts: list[str], n_nodes: int) -> str:
    address = environ.get("MASTER_ADDR")
    if address:
        is_this_node = re.match(r"localhost$|127\.|::1$", address)
        # a forgotten MASTER_ADDR=localhost cannot be right on several nodes; torchrun sets its own
        if n_nodes == 1 or "TORCHELASTIC_RUN_ID" in environ or not is_this_node:
            return address
    if n_nodes > 1 and not hosts:
        raise LabError(
            "several nodes, but nothing names the first one. Set MASTER_ADDR to its host name."
        )
    return hosts[0] if hosts else "127.0.0.1"


def _node_file(environ: Mapping[str, str]) -> list[str]:
    """The host of each task, from the scheduler's file of nodes; empty when there is none."""
    for name in ("PBS_NODEFILE", "PE_HOSTFILE", "PJM_O_NODEINF"):
        path = environ.get(name)
        if not path or not Path(path).is_file():
            continue
        hosts = []
        for line in Path(path).read_text(encoding="utf-8").splitlines():
            words = line.split()
            if not words:
                continue
            n_slots = int(words[1]) if name == "PE_HOSTFILE" else 1
            hosts += [words[0]] * n_slots
        return hosts
    return []


def _hosts_of_step(environ: Mapping[str, str]) -> list[str]:
    """The host of each task of a Slurm step, whose "2(x3),1" tasks per node are 2, 2, 2 and 1."""
    counts = []
    for count, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", environ["SLURM_STEP_TASKS_PER_NODE"]):
        counts += [int(count)] * int(times or 1)
    hosts = expand_hosts(environ["SLURM_STEP_NODELIST"])
    return [host for host, count in zip(hosts, counts, strict=True) for _ in range(count)]


def expand_hosts(nodelist: str) -> tuple[str, ...]:
    """Slurm's "n[08-09,11],m2" as ("n08", "n09", "n11", "m2"), where there is no scontrol (in a container)."""
    hosts: list[str] = []
    for item in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", nodelist):
        pieces = []  # the possible texts of each piece, such as ["n"] and ["08", "09", "11"]
        for text, ranges in re.findall(r"([^\[]+)|\[([^\]]*)\]", item):
            if text:
                pieces.append([text])
            else:
                pieces.append([number for part in ranges.split(",") for number in _numbers(part)])
        hosts += map("".join, product(*pieces))
    return tuple(hosts)


def _numbers(part: str) -> list[str]:
    """The numbers of "08-11", as wide as the first one."""
    first, _, last = part.partition("-")
    numbers = range(int(first), int(last or first) + 1)
    return [str(number).zfill(len(first)) for number in numbers]
