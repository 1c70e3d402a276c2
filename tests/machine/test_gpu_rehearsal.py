"""The checks that need a GPU: without one each says why it is skipped, and all of them can be rehearsed."""

import os
import re
import subprocess
import sys
from collections import Counter

import pytest
from projects import ROOT

SKIPPED = re.compile(r"SKIPPED \[(\d+)\] tests/gpu/\w+\.py(?::\d+)?: (.*)")


def check(*words, **variables):
    """What `make test-gpu` prints, and how often it gives each reason to skip a check."""
    environment = {name: value for name, value in os.environ.items() if name != "TORCH"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "tests/gpu", "-rs", "-p", "no:cacheprovider", *words],
        cwd=ROOT,
        env=environment | variables,
        capture_output=True,
        text=True,
        timeout=1750,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    reasons = Counter()
    for n, reason in SKIPPED.findall(done.stdout):
        reasons[reason] += int(n)
    return done.stdout, reasons


@pytest.mark.release
@pytest.mark.slow
def test_without_a_gpu_each_check_says_why_it_is_skipped():
    output, reasons = check(CUDA_VISIBLE_DEVICES="")
    assert "passed" not in output.splitlines()[-1]
    assert set(reasons) == {"no GPU: torch sees none", "no GPU: no NVIDIA driver answers"}
    assert reasons.total() == int(re.search(r"(\d+) skipped", output)[1]) > 30


@pytest.mark.release
@pytest.mark.timeout(1800)
def test_every_check_can_be_rehearsed():
    output, reasons = check(REHEARSE="1")
    others = {reason for reason in reasons if not reason.startswith("rehearsed up to here")}
    assert others == {"TORCH is not set: TORCH=cu126 make test-gpu"}
    assert int(re.search(r"(\d+) passed", output)[1]) > 15


@pytest.mark.release
def test_the_benchmark_runs_without_a_gpu_when_it_is_asked_to():
    command = [sys.executable, "benchmarks/gpu_step.py", "1", "--cpu"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=550)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = re.findall(r"^\| (\w+) \| [\d.]+ ms \| [\d.]+ ms \| [\d.]+ \|", done.stdout, re.M)
    assert rows == 2 * ["resnet18", "transformer", "smallest"], "when measured, and in the table"
    assert "its figures mean nothing" in done.stdout
