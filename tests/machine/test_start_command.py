"""The command of a job: which signals reach it."""

import signal

import pytest
from labrig.cluster.job.command_attempt import start_command


@pytest.mark.parametrize("name", ["USR1", "USR2"])
def test_a_signal_that_a_scheduler_sends_to_all_does_not_end_a_command(tmp_path, name):
    process = start_command(["bash", "-c", f"kill -{name} $$; exit 9"], tmp_path)
    assert process.wait(timeout=120) == 9


def test_a_command_can_save_when_it_is_asked_to_stop(tmp_path):
    program = "trap 'exit 9' TERM; kill -TERM $$; exit 1"
    assert start_command(["bash", "-c", program], tmp_path).wait(timeout=120) == 9
    program = "kill -TERM $$; exit 1"
    assert start_command(["bash", "-c", program], tmp_path).wait(timeout=120) == -signal.SIGTERM
