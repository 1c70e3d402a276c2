# ruff: noqa: F811 (fixtures are imported by name)
"""`lab prefetch` proves what a job will find: with the caches of the site, and where HOME cannot be written."""

import json
import time
from pathlib import Path

import pytest
from recorded_answers import lab  # noqa: F401
from repositories import commit
from small_disks import mounted, needs_root, read_only

WAIT_S = 180
PROBE = """\
import os
import pathlib

WEIGHTS = pathlib.Path(os.environ["HF_HOME"]) / "weights"  # a download, and its use
SETTINGS = pathlib.Path.home() / "settings"
for path in (WEIGHTS, SETTINGS):
    if os.environ.get("HF_HUB_OFFLINE") != "1":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("fetched")
    assert path.read_text() == "fetched"
"""


@needs_root
@pytest.mark.release
def test_a_job_finds_what_prefetch_fetched_where_home_cannot_be_written(lab, tmp_path):
    lab("data", "pack", "digits")
    model = lab.folder / "src/myproj/trials/baseline/model.py"
    docstring, rest = model.read_text().split("import", 1)
    model.write_text(f"{docstring}{PROBE}\nimport{rest}")
    commit(lab.folder, "Fetch something")
    site = [
        "site.home_writable=false",
        "site.internet.jobs=false",
        f"paths.caches={tmp_path}/caches",
    ]
    training = ["trial=baseline", "trainer=cpu", "trainer.max_epochs=1", "job.gpus=0", *site]
    with mounted(tmp_path / "home", "size=1m") as home, read_only(home):
        assert "everything is there" in lab("prefetch", *training, HOME=str(home))
        sent = json.loads(
            lab("submit", "--no-batch", "--json", *training, HOME=str(home))
            .strip()
            .splitlines()[-1]
        )
        summary = Path(sent["run_dir"]) / "summary.json"
        end_s = time.monotonic() + WAIT_S
        while not summary.exists():
            assert time.monotonic() < end_s, Path(sent["log"]).read_text()
            time.sleep(0.5)
        assert json.loads(summary.read_text())["status"] == "finished", Path(
            sent["log"]
        ).read_text()
    assert (tmp_path / "caches/huggingface/weights").exists()
    assert (lab.folder / ".home/settings").exists()
