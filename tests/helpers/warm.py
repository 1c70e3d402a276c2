"""A process that has imported torch, Lightning and h5py once, and forks for each `lab` command: seconds less each.

A fork has a directory, environment, arguments, pipes and session of its own, and imports the project's package itself.
Libraries that read a variable while they are imported have read it before: see `same_libraries`.

Run as a program, this file is the warm process: it reads requests from a socket until the tests close it.
"""

import gc
import importlib
import json
import os
import random
import runpy
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

LIBRARIES = ("h5py", "hydra", "lightning.pytorch", "sklearn.datasets", "torch", "torchmetrics")
READ_AT_IMPORT = (
    *(
        "CUDA",
        "GOMP",
        "HDF5",
        "HF_",
        "KMP",
        "LANG",
        "LC_",
        "LD_",
        "LIGHTNING",
        "MALLOC",
        "MKL",
        "MPL",
    ),
    *("NUMEXPR", "OMP", "OPENBLAS", "PL_", "PYTHON", "PYTORCH", "TORCH"),
)
SET_IN_THE_FORK = ("OMP_NUM_THREADS", "PYTHONPATH", "PYTHONUNBUFFERED")
# torch and Lightning set these themselves, in a process of the tests that has used them
SET_BY_LIBRARIES = (
    *("KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK", "PL_GLOBAL_SEED", "PL_SEED_WORKERS"),
    *("PYTORCH_NVML_BASED_CUDA_CHECK", "TORCHINDUCTOR_CACHE_DIR"),
)
NOT_COMPARED = SET_IN_THE_FORK + SET_BY_LIBRARIES
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in NOT_COMPARED}


def same_libraries(environment):
    """Whether libraries that are imported under these variables are those of the warm process."""
    names = {
        name
        for name in {*environment, *ENVIRONMENT}
        if name.startswith(READ_AT_IMPORT) and name not in NOT_COMPARED
    }
    return all(environment.get(name) == ENVIRONMENT.get(name) for name in names)


# ---------------------------------------------------------------- the side of the tests


class WarmProcess:
    """Started by the first command; ended by `close`."""

    def __init__(self):
        self.socket, other_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other_end:
            self.process = subprocess.Popen(
                [sys.executable, __file__, str(other_end.fileno())],
                pass_fds=[other_end.fileno()],
                stdin=subprocess.DEVNULL,
                env=ENVIRONMENT,
            )

    def start(self, module, arguments, cwd, environment, stderr=subprocess.PIPE):
        """`python -m MODULE ARGUMENTS` as a fork of this process, in a session of its own."""
        out, out_end = os.pipe()
        err, err_end = (None, out_end) if stderr == subprocess.STDOUT else os.pipe()
        status, status_end = os.pipe()
        request = {
            "module": module,
            "arguments": [str(word) for word in arguments],
            "cwd": str(cwd),
            "environment": environment,
        }
        ends = [out_end, err_end, status_end]
        socket.send_fds(self.socket, [json.dumps(request).encode()], ends)
        for end in set(ends):
            os.close(end)
        return Fork(out, err, status)

    def close(self):
        self.socket.close()
        self.process.wait(timeout=60)


class Fork:
    """One command, with the attributes and methods of subprocess.Popen that the tests use."""

    def __init__(self, out, err, status):
        self.stdout = os.fdopen(out, encoding="utf-8")
        self.stderr = None if err is None else os.fdopen(err, encoding="utf-8")
        self.returncode = None
        self._ended = threading.Event()
        status = os.fdopen(status, encoding="utf-8")
        self.pid = int(status.readline())
        threading.Thread(target=self._await_end, args=[status], daemon=True).start()

    def _await_end(self, status):
        with status:
            self.returncode = int(status.readline())
        self._ended.set()

    def poll(self):
        return self.returncode

    def wait(self, timeout=None):
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired(f"fork {self.pid}", timeout)
        return self.returncode

    def send_signal(self, number):
        if self.returncode is None:
            os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        """Ends all that the command started, too."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def communicate(self, timeout=None):
        """(output, errors) once both are closed; a command that takes longer than `timeout` seconds is killed."""
        streams = [stream for stream in (self.stdout, self.stderr) if stream]
        with ThreadPoolExecutor(2) as readers:
            texts = [readers.submit(stream.read) for stream in streams]
            try:
                self.wait(timeout)
                outputs = [text.result(timeout) for text in texts]
            except BaseException:
                self.kill()
                raise
        for stream in streams:
            stream.close()
        return (*outputs, None)[:2]


# ---------------------------------------------------------------- the warm process


def serve(requests):
    """Forks for each request, and returns it in the fork; None once the tests closed the socket."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies of the processes that wait
    while True:
        text, ends, *_ = socket.recv_fds(requests, 1 << 20, 3)
        if not text:
            return None
        if os.fork() == 0:
            requests.close()
            if fork_and_wait(*ends):
                return json.loads(text)
        for end in ends:
            os.close(end)


def fork_and_wait(out, err, status):
    """True in the fork that becomes the command; its parent tells the tests its id and its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child == 0:
        os.setsid()
        os.dup2(out, 1)
        os.dup2(err, 2)
        for end in (out, err, status):
            os.close(end)
        return True
    for end in (out, err, 1, 2):
        os.close(end)
    os.write(status, f"{child}\n".encode())
    exit_code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.write(status, f"{exit_code}\n".encode())
    os._exit(0)


def become(module, arguments, cwd, environment):
    """What Python does for `python -m MODULE ARGUMENTS` before and while it runs the module."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    sys.path[:1] = [cwd, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    sys.argv = [module, *arguments]
    sys.modules.pop("__mp_main__", None)  # scikit-learn's name for this file
    # Anew: the old one believes that it can seek, as the output of the warm process could.
    buffering = 1 if "PYTHONUNBUFFERED" in environment else -1
    sys.stdout = os.fdopen(1, "w", buffering, encoding="utf-8", closefd=False)
    random.seed()
    sys.modules["numpy"].random.seed()
    torch = sys.modules["torch"]
    torch.seed()
    if "OMP_NUM_THREADS" in environment:
        torch.set_num_threads(int(environment["OMP_NUM_THREADS"]))
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    for library in LIBRARIES:
        importlib.import_module(library)
    gc.freeze()
    request = serve(socket.socket(fileno=int(sys.argv[1])))
    if request:
        become(**request)
