"""Every profiler of `profile=` next to a GPU; that of the memory is in test_memory.py."""

import gzip
import json
from pathlib import Path

import pytest
from gpu_runs import train
from rehearsal import only_a_gpu_shows
from requirements import gpu, profiler

pytestmark = gpu


@profiler
def test_the_trace_holds_kernels(home):
    settings = ("profile.wait_steps=2", "profile.warmup_steps=2", "profile.active_steps=3")
    record = train(home, "trainer.max_epochs=1", "profile=torch", *settings)
    (file,) = Path(record["run_dir"]).glob("profile/torch-rank0.json.gz")
    events = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
    kinds = {event.get("cat") for event in events}
    assert "cpu_op" in kinds
    only_a_gpu_shows("kernels")
    assert "kernel" in kinds


@pytest.mark.parametrize("kind", ["simple", "line", "cprofile"])
def test_profilers_of_python_work(home, kind):
    record = train(home, "trainer.max_epochs=1", f"profile={kind}")
    (file,) = Path(record["run_dir"]).glob(f"profile/{kind}-rank0.*")
    assert file.stat().st_size > 0
