"""Processes that end with the one that started them say nothing."""

import subprocess
import sys

# Each worker is asked for what it holds, and the asking process is killed in the middle of this.
PROGRAM = """\
import multiprocessing, os, signal, socket, time
from multiprocessing import resource_sharer

from labrig.machine.parent import end_with_parent


def work(pipe):
    end_with_parent()
    held = resource_sharer.DupFd(os.open(os.devnull, os.O_RDONLY))
    pipe.send(held._id[0])
    time.sleep(600)


if __name__ == "__main__":
    context = multiprocessing.get_context("forkserver")
    asking = []
    for _ in range(8):
        pipe, end = context.Pipe()
        context.Process(target=work, args=(end,)).start()
        question = socket.socket(socket.AF_UNIX)
        question.connect(pipe.recv())
        assert question.recv(1024), "the worker has taken the question"
        asking.append(question)
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_worker_whose_parent_is_killed_prints_no_traceback(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=120)
    assert done.stderr == ""  # and all have ended: they hold its other end
