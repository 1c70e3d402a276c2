# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Which of how many processes this one is, from whatever started it.

In order of trust: torchrun, a Slurm step, Open MPI, PMI/PMIx, PBS, a single process. The innermost launcher knows
best, so `srun torchrun` is torchrun's; nothing is written back into the environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import NamedTuple

from ..errors import LabError

INTERACTIVE_STEP = "4294967290"  # salloc's shell: in an allocation, but not started as its tasks


class Launcher(NamedTuple):
    """The variables that hold its numbers. One after a "?" may be missing: it then follows from the hosts."""

    name: str
    rank: str
    world_size: str
    local_rank: str
    local_size: str
    node_rank: str = "?"
    n_nodes: str = "?"


OMPI = "OMPI_COMM_WORLD_"
LAUNCHERS = (
    Launcher(
        "torchrun",
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "GROUP_RANK",
        "?GROUP_WORLD_SIZE",
    ),
    Launcher("slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "?", "SLURM_NODEID"),
    Launcher("openmpi", f"{OMPI}RANK", f"{OMPI}SIZE", f"?{OMPI}LOCAL_RANK", f"?{OMPI}LOCAL_SIZE"),
    Launcher(
        "pmi", "PMI_RANK", "PMI_SIZE", "?MPI_LOCALRANKID", "?MPI_LOCALNRANKS"
    ),  # MPICH, Intel MPI
    Launcher("pmi", "PMIX_RANK", "PMIX_SIZE", "?PMIX_LOCAL_RANK", "?PMIX_LOCAL_SIZE"),
    Launcher("pbs", "PBS_VNODENUM", "?", "?", "?"),  # pbsdsh, which counts along the node file
    Launcher("pbs", "PBS_NODENUM", "?", "?", "?"),
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
    """The ranks of this process.

    Raises:
        LabError: a launcher's variables are incomplete, or one bare process stands in an allocation of several tasks,
            where it would wait for the others for ever.
    """
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
    return Ranks("single", 0, 1, 0, 1, 0, 1, "127.0.0.1", _port(environ, 1))


def _started(launcher: Launcher, environ: Mapping[str, str]) -> bool:
    if launcher.name == "torchrun":
        return "TORCHELASTIC_RUN_ID" in environ
    if launcher.name == "slurm":
        if environ.get("SLURM_STEP_ID", INTERACTIVE_STEP) == INTERACTIVE_STEP:
            return False
        # mpirun starts its own daemons as a step, one task per node; its processes are the ranks
        return int(environ.get(f"{OMPI}SIZE", 0)) <= int(environ[launcher.world_size])
    if launcher.name == "pbs" and (
        int(environ.get("PBS_TASKNUM", 1)) == 1 or "PBS_NODEFILE" not in environ
    ):
        return False  # task 1 is the job script itself
    return launcher.rank in environ


def _read(launcher: Launcher, environ: Mapping[str, str]) -> Ranks:
    def number(variable: str, otherwise: int = 0) -> int:
        name = variable.removeprefix("?")
        return otherwise if name != variable and name not in environ else int(environ[name])

    slots = _step_slots(environ) if launcher.name == "slurm" else _node_file(environ)
    hosts = list(dict.fromkeys(slots))
    rank, world = number(launcher.rank), number(launcher.world_size, len(slots))
    size = number(launcher.local_size, -(-world // (len(hosts) or 1)))
    # the node of each rank: as listed, or one node filled after the other
    nodes = (
        [hosts.index(host) for host in slots]
        if len(slots) == world
        else [r // size for r in range(world)]
    )
    local_size = number(launcher.local_size, nodes.count(nodes[rank]))
    local_rank = number(launcher.local_rank, nodes[:rank].count(nodes[rank]))
    n_nodes = number(launcher.n_nodes, len(hosts) or -(-world // local_size))
    node = number(launcher.node_rank, min(nodes[rank], n_nodes - 1))
    place = _address(environ, hosts, n_nodes), _port(environ, n_nodes)
    return Ranks(launcher.name, rank, world, local_rank, local_size, node, n_nodes, *place)


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
        raise LabError(
            "several nodes, but no job id to derive a port from. Set MASTER_PORT, the same on all nodes."
        )
    return job_port(os.getppid())  # processes on one node have the launcher as their common parent


def _address(environ: Mapping[str, str], hosts: list[str], n_nodes: int) -> str:
    given = environ.get("MASTER_ADDR")
    # a forgotten MASTER_ADDR=localhost cannot be right on several nodes; torchrun sets its own
    if given and (
        n_nodes == 1
        or "TORCHELASTIC_RUN_ID" in environ
        or not re.match(r"localhost$|127\.|::1$", given)
    ):
        return given
    if n_nodes > 1 and not hosts:
        raise LabError(
            "several nodes, but nothing names the first one. Set MASTER_ADDR to its host name."
        )
    return hosts[0] if hosts else "127.0.0.1"


def _node_file(environ: Mapping[str, str]) -> list[str]:
    """One host per slot, from the scheduler's list of nodes; empty when there is none."""
    for name in ("PBS_NODEFILE", "PE_HOSTFILE", "PJM_O_NODEINF"):
        if environ.get(name) and Path(environ[name]).is_file():
            lines = [
                line.split()
                for line in Path(environ[name]).read_text(encoding="utf-8").splitlines()
                if line
            ]
            return [
                words[0]
                for words in lines
                for _ in range(int(words[1]) if name == "PE_HOSTFILE" else 1)
            ]
    return []


def _step_slots(environ: Mapping[str, str]) -> list[str]:
    """The host of each task of a Slurm step, whose "2(x3),1" tasks per node are 2, 2, 2 and 1."""
    groups = re.findall(r"(\d+)(?:\(x(\d+)\))?", environ["SLURM_STEP_TASKS_PER_NODE"])
    counts = [int(count) for count, times in groups for _ in range(int(times or 1))]
    hosts = expand_hosts(environ["SLURM_STEP_NODELIST"])
    return [host for host, count in zip(hosts, counts, strict=True) for _ in range(count)]


def expand_hosts(nodelist: str) -> tuple[str, ...]:
    """Slurm's "n[08-09,11],m2" as ("n08", "n09", "n11", "m2"), where there is no scontrol (in a container)."""
    hosts: list[str] = []
    for item in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", nodelist):
        pieces = []
        for text, ranges in re.findall(r"([^\[]+)|\[([^\]]*)\]", item):
            pieces.append(
                [text]
                if text
                else [number for part in ranges.split(",") for number in _numbers(part)]
            )
        hosts += map("".join, product(*pieces))
    return tuple(hosts)


def _numbers(part: str) -> list[str]:
    first, _, last = part.partition("-")
    return [str(number).zfill(len(first)) for number in range(int(first), int(last or first) + 1)]
