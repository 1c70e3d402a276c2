"""Each rank ends its process group before Python ends: the threads of gloo can crash it at its exit."""

import pytest
from projects import call
from repositories import write

AT_EXIT = """
import atexit

from torch import distributed

atexit.register(lambda: print(f"at the exit: {distributed.is_initialized()}", flush=True))
"""
RANKS = ("trainer.devices=2", "trainer.threads=1")
STOPPED = """
from labrig.training.exact.stopped import Stopped


def train(config, run, recording):
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    recording.begin()
    raise Stopped(step=1, requeue=False)
"""


@pytest.mark.release
def test_both_ranks_leave_after_a_training_an_evaluation_and_a_prediction(own_project):
    with open(own_project / "src/myproj/task.py", "a") as task:
        task.write(AT_EXIT)
    call(own_project, "lab", "data", "pack", "digits")
    for words in (
        ("train", "trial=baseline", "trainer=cpu", "trainer.max_epochs=1"),
        ("eval", "@last"),
        ("predict", "@last"),
    ):
        said = call(own_project, "lab", *words, *RANKS, cold=True)
        assert said.count("at the exit: False") == 2, words
        assert "at the exit: True" not in said, words


@pytest.mark.slow
def test_a_rank_that_was_stopped_leaves(own_project):
    write(own_project, {"src/myproj/train.py": AT_EXIT + STOPPED, "data/digits.h5": ""})
    said = call(own_project, "lab", "train", "trial=baseline", rc=130, cold=True)
    assert "at the exit: False" in said
