"""A fork of the warm process sees and does what a cold start of the same command sees and does."""

import json
import signal
import subprocess
import sys
import time

import pytest
from projects import call, environment_of, warm_process
from warm import ENVIRONMENT, same_libraries

LOOK = """
import json, os, random, signal, sys, tempfile, threading
import numpy, torch
print(json.dumps({
    "argv": sys.argv, "cwd": os.getcwd(), "environment": dict(os.environ), "path": sys.path,
    "main": sys.modules["__main__"].__spec__.name, "flags": list(sys.flags),
    "signals": [str(signal.getsignal(number)) for number in sorted(signal.valid_signals())],
    "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    "threads": [torch.get_num_threads(), threading.active_count()],
    "deterministic": torch.are_deterministic_algorithms_enabled(),
    "standard": [sys.stdout.encoding, sys.stdout.isatty(), sys.stdin.read()],
    "mask": os.umask(0o22), "files": sorted(map(int, os.listdir("/proc/self/fd")))[-1] < 20,
    "own": [name for name in sys.modules if name.startswith("probe")],
}))
for number in (random.random(), numpy.random.rand(), torch.rand(()).item()):
    print(number, file=sys.stderr)
"""


@pytest.fixture
def probe(tmp_path):
    """probe(code, *words) -> a fork that runs the code as `python -m probe.lab`."""

    def start(code, *words, **variables):
        package = tmp_path / "src/probe/lab"
        package.mkdir(parents=True, exist_ok=True)
        (package / "__main__.py").write_text(code)
        return warm_process().start(
            "probe.lab",
            words,
            tmp_path,
            environment_of(tmp_path, PYTHONPATH=str(tmp_path / "src"), **variables),
        )

    return start


@pytest.mark.release
@pytest.mark.slow
def test_a_fork_sees_what_a_cold_start_sees(probe, tmp_path):
    variables = {"MINE": "ä", "OMP_NUM_THREADS": "1"}
    out, err = probe(LOOK, "a b", "c", **variables).communicate(timeout=60)
    cold = subprocess.run(
        [sys.executable, "-m", "probe.lab", "a b", "c"],
        cwd=tmp_path,
        env=environment_of(tmp_path, PYTHONPATH=str(tmp_path / "src"), **variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert json.loads(out) == json.loads(cold.stdout)
    other = probe(LOOK).communicate(timeout=60)[1]
    assert not set(err.split()) & set(other.split()), "two forks draw the same random numbers"


@pytest.mark.slow
@pytest.mark.traceback("a Python program, not lab")
def test_exit_codes_and_signals(probe):
    assert probe("raise SystemExit(3)").wait(60) == 3
    fails = probe("1 / 0")
    assert "ZeroDivisionError" in fails.communicate(timeout=60)[1]
    assert fails.returncode == 1
    sleeps = probe("import time; print('now', flush=True); time.sleep(60)")
    assert sleeps.stdout.readline() == "now\n"
    sleeps.send_signal(signal.SIGTERM)
    assert sleeps.wait(60) == -signal.SIGTERM


def test_what_is_written_at_the_end_is_not_lost(probe):
    out, _ = probe("import atexit; atexit.register(print, 'end'); print('begin')").communicate(60)
    assert out == "begin\nend\n"


@pytest.mark.slow
def test_a_command_that_takes_too_long_is_killed_with_its_children(probe, tmp_path):
    mark = tmp_path / "still-here"
    child = f"while sleep 0.1; do touch {mark}; done"
    takes_long = probe(f"import subprocess; subprocess.run({child!r}, shell=True)")
    while not mark.exists():
        time.sleep(0.05)
    with pytest.raises(subprocess.TimeoutExpired):
        takes_long.communicate(timeout=0.1)
    assert takes_long.wait(60) == -signal.SIGKILL
    mark.unlink(missing_ok=True)
    time.sleep(0.5)
    assert not mark.exists()


@pytest.mark.release
def test_resume_and_eval_start_cold_too(home):
    """The other commands do in the README, which test_project.py types."""
    settings = ("trial=baseline", "trainer=cpu", "trainer.threads=1", "trainer.max_epochs=1")
    call(home, "lab", "train", *settings)
    assert "epoch 2/2" in call(home, "lab", "resume", "@last", "trainer.max_epochs=2", cold=True)
    evaluate = ("lab", "eval", "@last", "--json")
    cold, warm = call(home, *evaluate, cold=True), call(home, *evaluate)
    assert json.loads(cold.splitlines()[-1]) == json.loads(warm.splitlines()[-1])


def test_other_libraries_are_started_cold():
    assert same_libraries(ENVIRONMENT)
    assert same_libraries(ENVIRONMENT | {"PYTHONPATH": "/x", "LAB_RUN_DIR": "/y"})
    assert not same_libraries(ENVIRONMENT | {"MKL_NUM_THREADS": "3"})
