"""The machine: every launcher's variables, also nested and uneven ones, give the numbers that the launcher meant."""

import pytest
from labrig import errors
from labrig.machine import network, ranks

STEP = {
    "SLURM_JOB_ID": "77",
    "SLURM_STEP_ID": "0",
    "SLURM_NTASKS": "4",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_STEP_NODELIST": "c[1-2]",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
}
TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "none",
    "RANK": "5",
    "WORLD_SIZE": "8",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "4",
    "GROUP_RANK": "1",
    "GROUP_WORLD_SIZE": "2",
    "MASTER_ADDR": "c1",
    "MASTER_PORT": "29501",
}
OMPI = {
    "OMPI_COMM_WORLD_RANK": "9",
    "OMPI_COMM_WORLD_SIZE": "16",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "8",
    "MASTER_ADDR": "node1",
    "PBS_JOBID": "123.pbs1",
}
ORTED_STEP = STEP | {
    "SLURM_STEP_NUM_TASKS": "1",
    "SLURM_STEP_NODELIST": "c2",
    "SLURM_STEP_TASKS_PER_NODE": "1",
}
BATCH = {
    "SLURM_JOB_ID": "77",
    "SLURM_NTASKS": "4",
    "SLURM_PROCID": "0",
    "SLURM_NODEID": "0",
    "SLURM_LOCALID": "0",
}

TABLE = [  # name, environment, (source, rank, world, local rank, local size, node, nodes, address, port)
    ("laptop", {"MASTER_PORT": "1"}, ("single", 0, 1, 0, 1, 0, 1, "127.0.0.1", 1)),
    ("torchrun", TORCHRUN, ("torchrun", 5, 8, 1, 4, 1, 2, "c1", 29501)),
    ("srun torchrun", STEP | TORCHRUN, ("torchrun", 5, 8, 1, 4, 1, 2, "c1", 29501)),
    ("mpirun torchrun", OMPI | TORCHRUN, ("torchrun", 5, 8, 1, 4, 1, 2, "c1", 29501)),
    (
        "torchrun names its address",
        TORCHRUN | {"MASTER_ADDR": "127.0.0.1"},
        ("torchrun", 5, 8, 1, 4, 1, 2, "127.0.0.1", 29501),
    ),
    (
        "torchrun without group size",
        {k: v for k, v in TORCHRUN.items() if k != "GROUP_WORLD_SIZE"},
        ("torchrun", 5, 8, 1, 4, 1, 2, "c1", 29501),
    ),
    ("srun", STEP, ("slurm", 3, 4, 1, 2, 1, 2, "c1", 20539)),
    (
        "srun after a requeue",
        STEP | {"SLURM_RESTART_COUNT": "2"},
        ("slurm", 3, 4, 1, 2, 1, 2, "c1", 20541),
    ),
    (
        "srun, MASTER_ADDR of the site",
        STEP | {"MASTER_ADDR": "c1-ib0"},
        ("slurm", 3, 4, 1, 2, 1, 2, "c1-ib0", 20539),
    ),
    (
        "srun, a forgotten localhost",
        STEP | {"MASTER_ADDR": "localhost"},
        ("slurm", 3, 4, 1, 2, 1, 2, "c1", 20539),
    ),
    (
        "srun on uneven nodes",
        STEP
        | {
            "SLURM_STEP_NUM_TASKS": "3",
            "SLURM_STEP_TASKS_PER_NODE": "2,1",
            "SLURM_PROCID": "2",
            "SLURM_LOCALID": "0",
        },
        ("slurm", 2, 3, 0, 1, 1, 2, "c1", 20539),
    ),
    (
        "one task of a larger allocation",
        STEP
        | {
            "SLURM_STEP_NUM_TASKS": "1",
            "SLURM_STEP_NODELIST": "c2",
            "SLURM_STEP_TASKS_PER_NODE": "1",
            "SLURM_PROCID": "0",
            "SLURM_LOCALID": "0",
            "SLURM_NODEID": "0",
        },
        ("slurm", 0, 1, 0, 1, 0, 1, "c2", 20539),
    ),
    ("mpirun", OMPI, ("openmpi", 9, 16, 1, 8, 1, 2, "node1", 20861)),
    (
        "mpirun in sbatch, second node",
        ORTED_STEP | OMPI,
        ("openmpi", 9, 16, 1, 8, 1, 2, "node1", 20539),
    ),
    ("mpirun in sbatch, first node", BATCH | OMPI, ("openmpi", 9, 16, 1, 8, 1, 2, "node1", 20539)),
    (
        "Intel MPI on one node",
        {
            "PMI_RANK": "2",
            "PMI_SIZE": "4",
            "MPI_LOCALRANKID": "2",
            "MPI_LOCALNRANKS": "4",
            "MASTER_PORT": "7",
        },
        ("pmi", 2, 4, 2, 4, 0, 1, "127.0.0.1", 7),
    ),
    (
        "PMIx",
        {
            "PMIX_RANK": "1",
            "PMIX_SIZE": "2",
            "PMIX_LOCAL_RANK": "0",
            "PMIX_LOCAL_SIZE": "1",
            "MASTER_ADDR": "a",
            "MASTER_PORT": "7",
        },
        ("pmi", 1, 2, 0, 1, 1, 2, "a", 7),
    ),
    (
        "sbatch of one task",
        BATCH | {"SLURM_NTASKS": "1"},
        ("single", 0, 1, 0, 1, 0, 1, "127.0.0.1", 20539),
    ),
    (
        "PBS script of one slot",
        {"PBS_JOBID": "123.pbs1", "PBS_TASKNUM": "1"},
        ("single", 0, 1, 0, 1, 0, 1, "127.0.0.1", 20861),
    ),
]


@pytest.mark.parametrize(
    ("environ", "expected"), [pytest.param(*row[1:], id=row[0]) for row in TABLE]
)
def test_ranks_are_what_the_launcher_meant(environ, expected):
    found = ranks.discover(environ)
    numbers = (
        found.rank,
        found.world_size,
        found.local_rank,
        found.local_size,
        found.node_rank,
        found.n_nodes,
    )
    assert (found.source, *numbers, found.main_address, found.main_port) == expected


def test_pbsdsh_counts_along_the_node_file(tmp_path):
    (tmp_path / "nodes").write_text("n1\nn1\nn2\n")
    environ = {
        "PBS_NODEFILE": str(tmp_path / "nodes"),
        "PBS_JOBID": "9.x",
        "PBS_TASKNUM": "4",
        "PBS_VNODENUM": "2",
    }
    found = ranks.discover(environ)
    assert (found.source, found.rank, found.world_size, found.local_rank, found.node_rank) == (
        "pbs",
        2,
        3,
        0,
        1,
    )
    assert (found.local_size, found.n_nodes, found.main_address, found.even) == (1, 2, "n1", False)


def test_grid_engine_host_file_names_the_first_node(tmp_path):
    (tmp_path / "hosts").write_text("r1n1 4 all.q@r1n1 UNDEFINED\nr1n2 4 all.q@r1n2 UNDEFINED\n")
    environ = OMPI | {
        "PE_HOSTFILE": str(tmp_path / "hosts"),
        "OMPI_COMM_WORLD_SIZE": "8",
        "OMPI_COMM_WORLD_RANK": "5",
    }
    environ |= {"OMPI_COMM_WORLD_LOCAL_SIZE": "4", "JOB_ID": "5"}
    del environ["MASTER_ADDR"]
    found = ranks.discover(environ)
    assert (found.main_address, found.node_rank, found.n_nodes) == ("r1n1", 1, 2)


@pytest.mark.parametrize(
    "environ",
    [
        pytest.param(BATCH, id="python in an sbatch script"),
        pytest.param(
            STEP | {"SLURM_STEP_ID": ranks.INTERACTIVE_STEP}, id="python in salloc's shell"
        ),
    ],
)
def test_a_bare_process_in_an_allocation_of_several_must_use_the_launcher(environ):
    with pytest.raises(errors.LabError, match=r"4 tasks.*\n.*srun"):
        ranks.discover(environ)


def test_pmix_without_a_size_is_refused():
    with pytest.raises(
        errors.LabError, match=r"pmi.*PMIX_SIZE is not set.*\n.*mpirun -x PMIX_SIZE"
    ):
        ranks.discover({"PMIX_RANK": "3"})


def test_several_nodes_without_a_common_port_are_refused():
    with pytest.raises(errors.LabError, match="MASTER_PORT"):
        ranks.discover({k: v for k, v in OMPI.items() if k != "PBS_JOBID"})


def test_port_is_unprivileged_below_the_ephemeral_ports_and_differs_between_neighbouring_jobs():
    ports = [ranks.job_port(job_id) for job_id in range(100_000)]
    assert min(ports) >= 20000
    assert max(ports) < 30000
    assert all(
        len({ports[i], ports[i + 1], ports[i + 2], ports[i + 3]}) == 4 for i in range(99_997)
    )
    assert ranks.job_port(5) != ranks.job_port(5, restart=1)


@pytest.mark.parametrize(
    ("nodelist", "hosts"),
    [
        ("c1", ("c1",)),
        ("ia[816-817]", ("ia816", "ia817")),
        ("n[08-09,11],m2", ("n08", "n09", "n11", "m2")),
        ("r[1-2]n[01-02]-ib", ("r1n01-ib", "r1n02-ib", "r2n01-ib", "r2n02-ib")),
    ],
)
def test_node_lists_expand_as_scontrol_does(nodelist, hosts):
    assert ranks.expand_hosts(nodelist) == hosts


def test_a_launcher_with_a_missing_variable_is_named():
    with pytest.raises(errors.LabError, match=r"torchrun.*LOCAL_WORLD_SIZE"):
        ranks.discover({k: v for k, v in TORCHRUN.items() if k != "LOCAL_WORLD_SIZE"})


def test_a_name_that_leads_to_itself_takes_the_only_network(monkeypatch):
    """Debian's installer writes `127.0.1.1 HOSTNAME`."""
    addresses = {"lo": "127.0.0.1", "eth0": "10.0.0.7", "ib0": ""}
    monkeypatch.setenv(network.GLOO_INTERFACE, "")  # so that what is chosen ends with the test
    monkeypatch.delenv(network.GLOO_INTERFACE)
    monkeypatch.setattr(network.socket, "gethostbyname", lambda name: "127.0.1.1")
    monkeypatch.setattr(network.socket, "if_nameindex", lambda: list(enumerate(addresses)))
    monkeypatch.setattr(network, "own_address", addresses.get)
    addresses["docker0"] = "172.17.0.1"
    with pytest.raises(errors.LabError, match=r"has 2 networks: eth0, docker0\. Say which"):
        network.choose_interface()
    del addresses["docker0"]
    assert network.choose_interface() == "eth0"
    assert network.os.environ[network.GLOO_INTERFACE] == "eth0"
    assert network.choose_interface() is None, "it is chosen"


def test_the_address_of_an_interface_is_the_systems():
    assert network.own_address("lo") == "127.0.0.1"
    assert network.own_address("nosuch") == ""
