"""The GPU of a process among others that it sees: its random numbers, its energy, and what it says when it is full."""

import pytest
import torch
from labrig.bench.measure import is_out_of_memory
from labrig.record.write import attempt as attempt_module
from labrig.record.write.attempt import Attempt
from labrig.training.exact.random_state import read_random_state, set_random_state


@pytest.fixture
def generators(monkeypatch):
    """generators(states, current): torch has a GPU for each state, and computes on the current one."""

    def show(states, current):
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: bool(states))
        monkeypatch.setattr(torch.cuda, "current_device", lambda: current)
        monkeypatch.setattr(torch.cuda, "get_rng_state", lambda: torch.tensor(states[current]))

        def set_rng_state(state):
            states[current] = state.item()

        monkeypatch.setattr(torch.cuda, "set_rng_state", set_rng_state)
        return states

    return show


def test_a_run_continues_its_random_numbers_on_a_gpu_of_another_number(generators):
    generators([10, 11, 12, 13], current=2)
    saved = read_random_state(cuda=True)
    assert saved["torch.cuda"] == [torch.tensor(12)]
    here = generators([20, 21], current=1)
    set_random_state(saved)
    assert here == [20, 12]


def test_a_checkpoint_of_an_earlier_release_holds_the_state_of_every_gpu(generators):
    saved = read_random_state(cuda=False) | {"torch.cuda": [torch.tensor(n) for n in (10, 11)]}
    here = generators([20, 21, 22], current=1)
    set_random_state(saved)
    assert here == [20, 11, 22]
    here = generators([20, 21, 22], current=2)
    set_random_state(saved)
    assert here == [20, 21, 10]


def test_a_run_of_a_gpu_continues_on_a_cpu(generators):
    generators([10], current=0)
    saved = read_random_state(cuda=True)
    assert generators([], current=0) == []
    set_random_state(saved)
    assert torch.equal(torch.get_rng_state(), saved["torch"])


@pytest.mark.parametrize(
    ("facts", "energy"),
    [
        ({"accelerator": "gpu", "devices": 2, "gpus": [{}, {}]}, 5.0),
        ({"accelerator": "gpu", "devices": 1, "gpus": [{}, {}]}, None),  # one is another's
        ({"accelerator": "gpu", "devices": 4, "gpus": [{}]}, None),  # each rank sees its own
        ({"accelerator": "cpu", "devices": 1, "gpus": [{}]}, None),
    ],
)
def test_the_record_holds_the_energy_of_the_gpus_that_were_used(
    monkeypatch, tmp_path, facts, energy
):
    joules = iter([100.0, 105.0])
    monkeypatch.setattr(attempt_module, "energy_j", lambda: next(joules))
    assert Attempt(tmp_path, 1, **facts).energy_used_j() == energy


@pytest.mark.parametrize(
    ("error", "is_full"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), True),
        (RuntimeError("CUDA error: out of memory"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"), True),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False),
    ],
)
def test_a_full_gpu_is_reported_from_a_broken_one(error, is_full):
    assert is_out_of_memory(error) == is_full
