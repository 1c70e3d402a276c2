# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Which of how many processes this one is, from whatever started it.

In order of trust: torchrun, a Slurm step, Open MPI, PMI/PMIx, PBS, a single process. The innermost launcher knows
best, so `srun torchrun` is torchrun's; nothing is written back into the environment.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from ..errors import LabError

INTERACTIVE_STEP = "4294967290"  # salloc's shell: in an allocation, but not started as its tasks
LOOPBACK = ("localhost", "127.0.0.1", "::1")
PMI_NAMES = (  # rank, world size, local rank, local size: MPICH and Intel MPI, MVAPICH2, PALS, PMIx
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"),
    ("PALS_RANKID", "PMI_SIZE", "PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE"),
    ("PMIX_RANK", "PMIX_SIZE", "PMIX_LOCAL_RANK", "PMIX_LOCAL_SIZE"),
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
    hosts: tuple[str, ...] = ()

    @property
    def is_master(self) -> bool:
        return self.rank == 0

    @property
    def even(self) -> bool:
        """Whether every node runs as many processes as this one."""
        return self.local_size * self.n_nodes == self.world_size


def discover(environ: Mapping[str, str] | None = None) -> Ranks:
    """The ranks of this process.

    Raises:
        LabError: a launcher's variables are incomplete, or one bare process stands in an allocation of several tasks,
            where it would wait for the others for ever.
    """
    environ = os.environ if environ is None else environ
    for source in (_torchrun, _slurm_step, _open_mpi, _pmi, _pbs):
        try:
            ranks = source(environ)
        except KeyError as error:
            name = source.__name__.strip("_").replace("_", " ")
            raise LabError(
                f"started by {name}, but its variable {error.args[0]} is not set; was env cleaned?"
            ) from error
        if ranks:
            return ranks
    _refuse_bare_process(environ)
    return Ranks("single", 0, 1, 0, 1, 0, 1, "127.0.0.1", _port(environ, 1), (socket.gethostname(),))


def _torchrun(environ: Mapping[str, str]) -> Ranks | None:
    if "TORCHELASTIC_RUN_ID" not in environ:
        return None
    rank, world, local, local_size, node = (
        int(environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK")
    )
    n_nodes = int(environ.get("GROUP_WORLD_SIZE", -(-world // local_size)))
    return Ranks(
        "torchrun",
        rank,
        world,
        local,
        local_size,
        node,
        n_nodes,
        environ["MASTER_ADDR"],
        int(environ["MASTER_PORT"]),
    )


def _slurm_step(environ: Mapping[str, str]) -> Ranks | None:
    if environ.get("SLURM_STEP_ID", INTERACTIVE_STEP) == INTERACTIVE_STEP:
        return None
    world = int(environ.get("SLURM_STEP_NUM_TASKS") or environ["SLURM_NTASKS"])
    if int(environ.get("OMPI_COMM_WORLD_SIZE", 0)) > world:
        return None  # mpirun starts its own daemons as a step, one task per node; its processes are the ranks
    hosts = expand_hosts(environ.get("SLURM_STEP_NODELIST") or environ["SLURM_JOB_NODELIST"])
    node = int(environ["SLURM_NODEID"])
    counts = _tasks_per_node(environ["SLURM_STEP_TASKS_PER_NODE"])
    address = _address(environ, hosts)
    rank, local = int(environ["SLURM_PROCID"]), int(environ["SLURM_LOCALID"])
    port = _port(environ, len(hosts))
    return Ranks("slurm", rank, world, local, counts[node], node, len(hosts), address, port, hosts)


def _open_mpi(environ: Mapping[str, str]) -> Ranks | None:
    prefix = "OMPI_COMM_WORLD_"
    return _mpi("openmpi", environ, *(prefix + name for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")))


def _pmi(environ: Mapping[str, str]) -> Ranks | None:
    for names in PMI_NAMES:
        if names[0] in environ and names[1] in environ:
            return _mpi("pmi", environ, *names)
    if "PMIX_RANK" in environ:
        raise LabError(
            f"PMIx says this is rank {environ['PMIX_RANK']}, but no variable says of how many.\n"
            "Start with srun or torchrun, or pass the number: mpirun -x PMIX_SIZE=<processes> …"
        )
    return None


def _mpi(
    source: str, environ: Mapping[str, str], rank_: str, size_: str, local_: str, local_size_: str
) -> Ranks | None:
    if rank_ not in environ:
        return None
    hosts = tuple(dict.fromkeys(_node_file(environ)))
    rank, world = int(environ[rank_]), int(environ[size_])
    local_size = int(environ.get(local_size_, -(-world // max(1, len(hosts)))))
    local = int(environ.get(local_, rank % local_size))
    n_nodes = len(hosts) or -(-world // local_size)
    node = min((rank - local) // local_size, n_nodes - 1)  # ranks fill one node after the other
    address, port = _address(environ, hosts, n_nodes), _port(environ, n_nodes)
    return Ranks(source, rank, world, local, local_size, node, n_nodes, address, port, hosts)


def _pbs(environ: Mapping[str, str]) -> Ranks | None:
    """pbsdsh: task 1 is the job script itself, the others are numbered along the node file."""
    if int(environ.get("PBS_TASKNUM", 1)) <= 1 or "PBS_NODEFILE" not in environ:
        return None
    slots = _node_file(environ)
    rank = int(environ.get("PBS_VNODENUM") or environ["PBS_NODENUM"])
    hosts = tuple(dict.fromkeys(slots))
    host = slots[rank]
    local = slots[:rank].count(host)
    address = _address(environ, hosts)
    port = _port(environ, len(hosts))
    return Ranks("pbs", rank, len(slots), local, slots.count(host), hosts.index(host), len(hosts), address, port, hosts)


def _refuse_bare_process(environ: Mapping[str, str]) -> None:
    n_slurm = int(environ.get("SLURM_NTASKS", 1))
    n_pbs = len(_node_file(environ)) if "PBS_NODEFILE" in environ else 1
    if max(n_slurm, n_pbs) > 1:
        start = "srun" if n_slurm > 1 else "mpirun"
        raise LabError(
            f"this allocation has {max(n_slurm, n_pbs)} tasks, but one process was started without a launcher; it would "
            f"wait for the others for ever.\nStart all of them: {start} <the same command>   or one: {start} -n 1 <…>"
        )


def job_port(job_id: int, restart: int = 0) -> int:
    """20000 to 29999: below the ephemeral ports, different for jobs that share a node and for each restart."""
    return 20000 + (job_id * 7 + restart) % 10000


def _port(environ: Mapping[str, str], n_nodes: int) -> int:
    if "MASTER_PORT" in environ:
        return int(environ["MASTER_PORT"])
    for name in ("SLURM_JOB_ID", "PBS_JOBID", "JOB_ID", "PJM_JOBID"):
        if digits := re.match(r"\d+", environ.get(name, "")):
            return job_port(int(digits[0]), int(environ.get("SLURM_RESTART_COUNT", 0)))
    if n_nodes > 1:
        raise LabError("several nodes, but no job id to derive a port from. Set MASTER_PORT, the same on all nodes.")
    return job_port(os.getppid())  # processes on one node have the launcher as their common parent


def _address(environ: Mapping[str, str], hosts: tuple[str, ...], n_nodes: int | None = None) -> str:
    given = environ.get("MASTER_ADDR")
    several = (n_nodes or len(hosts)) > 1
    if given and not (several and given in LOOPBACK):  # a forgotten MASTER_ADDR=localhost cannot be right there
        return given
    if hosts:
        return hosts[0]
    if several:
        raise LabError(
            "several nodes, but nothing names the first one. Set MASTER_ADDR to its host name before mpirun."
        )
    return "127.0.0.1"


def _node_file(environ: Mapping[str, str]) -> list[str]:
    """One host per slot, from the scheduler's list of nodes; empty when there is none."""
    for name in ("PBS_NODEFILE", "PE_HOSTFILE", "PJM_O_NODEINF"):
        if environ.get(name) and Path(environ[name]).is_file():
            lines = [line.split() for line in Path(environ[name]).read_text(encoding="utf-8").splitlines() if line]
            return [words[0] for words in lines for _ in range(int(words[1]) if name == "PE_HOSTFILE" else 1)]
    return []


def _tasks_per_node(text: str) -> list[int]:
    """Slurm's "2(x3),1" as [2, 2, 2, 1]."""
    counts = []
    for part in text.split(","):
        count, _, times = part.partition("(x")
        counts += [int(count)] * int(times.rstrip(")") or 1)
    return counts


def expand_hosts(nodelist: str) -> tuple[str, ...]:
    """Slurm's "n[08-09,11],m2" as ("n08", "n09", "n11", "m2"), where there is no scontrol (in a container)."""
    hosts: list[str] = []
    for item in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", nodelist):
        pieces = []
        for text, ranges in re.findall(r"([^\[]+)|\[([^\]]*)\]", item):
            pieces.append([text] if text else [number for part in ranges.split(",") for number in _numbers(part)])
        hosts += map("".join, product(*pieces))
    return tuple(hosts)


def _numbers(part: str) -> list[str]:
    first, _, last = part.partition("-")
    return [str(number).zfill(len(first)) for number in range(int(first), int(last or first) + 1)]
