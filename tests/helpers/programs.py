"""Programs that a few tests need beside Python, git and make."""

import os
import shutil

import pytest

NEED_ALL = "LAB_TESTS_NEED_ALL"  # set where all are installed, as by .ci/run: nothing is skipped
PACKAGES = {  # of Debian, where the name differs
    "ip": "iproute2",
    "ssh": "openssh-client",
    "sshd": "openssh-server",
}


def need(program: str) -> str:
    """The path of a program; a test without it is skipped with one line, or fails where all are installed."""
    path = shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/usr/bin")
    if path is None:
        reason = f"{program} is not installed: apt-get install {PACKAGES.get(program, program)}"
        if NEED_ALL in os.environ:
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    return path
