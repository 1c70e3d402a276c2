"""`lab train` with all its callbacks and loggers makes no step wait for the device, except those that log."""

import json

import pytest
from gpu_runs import keep_figure, train
from requirements import gpu

pytestmark = gpu
LOGGED = 10  # every so many steps
FIRST = 3  # steps that choose kernels


@pytest.fixture
def waits_of(home, tmp_path):
    """waits_of(settings): {number of a step: how often it waited}, without the first of each epoch."""

    def count(*settings):
        file = tmp_path / "waits.jsonl"
        counter = f"callbacks.waits={{_target_: count_waits.CountWaits, file: {file}}}"
        train(home, "trainer.max_epochs=3", f"log.every_n_steps={LOGGED}", counter, *settings)
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        return {
            line["step"]: line["waits"]
            for line in lines
            if line["batch"] > 0 and line["step"] > FIRST
        }

    return count


def test_no_step_waits_for_the_device(waits_of):
    waits = waits_of()
    logging = [n for step, n in waits.items() if step % LOGGED == 0]
    others = [n for step, n in waits.items() if step % LOGGED]
    assert len(others) > 30
    assert sum(others) == 0
    assert logging
    keep_figure(f"waits for the device in a step that logs (one of {LOGGED})", max(logging))


def test_a_wait_is_counted(waits_of):
    waits = waits_of("callbacks.wait={_target_: count_waits.Wait}")
    assert min(waits.values()) >= 1
