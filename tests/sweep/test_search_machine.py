"""What each worker of a sweep gets of this machine: GPUs that nobody has leased, and a share of the cores."""

import os
import tempfile
from types import SimpleNamespace

import pytest
from labrig import env
from labrig.errors import Refused
from labrig.sweep import workers as workers_here
from labrig.sweep.worker import leave_the_others
from stand_in_gpus import show_gpus  # noqa: F401  the fixture

FREE = {"total_MB": 1000, "used_MB": 0}
USED = {"total_MB": 1000, "used_MB": 900}


def base(workers=None, accelerator="gpu"):
    trainer = SimpleNamespace(accelerator=accelerator)
    return SimpleNamespace(
        config=SimpleNamespace(sweep=SimpleNamespace(workers=workers), trainer=trainer)
    )


@pytest.fixture
def leases(monkeypatch, show_gpus):  # noqa: F811
    monkeypatch.setattr(workers_here, "own_cores", lambda: set(range(8)))
    monkeypatch.setattr(workers_here, "cores", lambda: 8)
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv(env.GPU_LEASES, f"{folder}/leases")
        yield show_gpus


def shares(*arguments, n_points=10, **settings):
    return workers_here.shares_of(base(*arguments, **settings), "sweep", n_points)


def test_a_worker_for_each_free_gpu(leases):
    leases(FREE, USED, FREE)
    given = shares()
    assert sorted(share.gpu for share in given) == [0, 2]
    assert given[0].cores | given[1].cores == set(range(8))
    assert not given[0].cores & given[1].cores
    with pytest.raises(Refused, match="no GPU of this machine is free"):
        shares()  # another search: the first one has leased them


def test_several_workers_share_a_gpu_when_that_is_asked(leases):
    leases(FREE)
    assert [share.gpu for share in shares(3)] == [0, 0, 0]


def test_without_gpus_the_cores_are_shared_out(leases):
    leases()
    assert [len(share.cores) for share in shares()] == [4, 4]
    assert [share.gpu for share in shares(3)] == [None] * 3
    assert len(shares(20, n_points=2)) == 2
    assert all(share.cores for share in shares(10))


def test_a_search_on_the_cpu_leases_no_gpu(leases):
    leases(FREE)
    assert [share.gpu for share in shares(2, accelerator="cpu")] == [None, None]


def test_each_task_of_a_job_is_a_worker_of_its_own(monkeypatch):
    for name in [name for name in os.environ if name.startswith(("SLURM", "PMI", "OMPI"))]:
        monkeypatch.delenv(name)
    step = {
        "SLURM_STEP_ID": "0",
        "SLURM_PROCID": "1",
        "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_LOCALID": "1",
        "SLURM_NODEID": "0",
        "SLURM_NTASKS": "2",
        "SLURM_STEP_TASKS_PER_NODE": "2",
        "SLURM_STEP_NODELIST": "c1",
        "CUDA_VISIBLE_DEVICES": "4,5",
    }
    for name, value in step.items():
        monkeypatch.setenv(name, value)
    leave_the_others()
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "5"
    assert not [name for name in os.environ if name.startswith("SLURM_")]
