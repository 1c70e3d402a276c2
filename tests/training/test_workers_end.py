"""The worker processes of a training end with it, however it ends."""

import os
import signal
import time
from pathlib import Path

import pytest
from trainings import last, start

SETTINGS = ("trial=baseline", "trainer=cpu", "trainer.threads=1", "trainer.max_epochs=4000")
WITH_WORKERS = (*SETTINGS, "data.num_workers=1")


def members(session):
    """The living processes of a session; a killed one waits for nobody."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        state, _, _, of_session = text.rpartition(")")[2].split()[:4]
        if int(of_session) == session and state != "Z":
            found.append(int(stat.parent.name))
    return found


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.parametrize(
    "number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_no_worker_is_left(home, number):
    """KILL to the training alone, as a memory limit sends it; TERM to all, as a scheduler does."""
    process, _ = start(home, *WITH_WORKERS)
    session = process.pid
    assert len(members(session)) > 1, "there are workers"
    send = os.kill if number == signal.SIGKILL else os.killpg
    send(session, number)
    rest = process.communicate(timeout=120)[0]
    deadline_s = time.monotonic() + 60
    while left := members(session):
        assert time.monotonic() < deadline_s, f"left: {left}"
        time.sleep(0.1)
    if number == signal.SIGTERM:
        assert process.returncode == 0, rest
        assert "is killed by signal" not in rest
        assert "Traceback" not in rest
        assert last(home)["status"] == "interrupted"
