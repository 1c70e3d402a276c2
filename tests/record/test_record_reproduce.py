"""The real baseline is run again from its frozen code, bit for bit, whatever became of the live tree."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
from projects import LIBRARY, call, equip

TRAIN = ("trial=baseline", "trainer.max_epochs=1", "trainer.limit_train_batches=5")


@pytest.fixture(scope="module")
def trained(project, tmp_path_factory):
    """A project with an editable install, a run of uncommitted code, and a live tree broken since."""
    folder = equip(shutil.copytree(project, tmp_path_factory.mktemp("reproduce") / "myproj"))
    call(folder, "lab", "data", "pack", "digits")
    (folder / ".venv").unlink()
    venv.create(folder / ".venv", symlinks=True)
    places = next((folder / ".venv").glob("lib/python*/site-packages"))
    paths = [folder / "src", LIBRARY.parent, sysconfig.get_paths()["purelib"]]
    (places / "_editable.pth").write_text("".join(f"{path}\n" for path in paths))
    model = folder / "src/myproj/trials/baseline/model.py"
    model.write_text(model.read_text() + "\n# an edit that nobody commits\n")
    lab(folder, "train", *TRAIN)
    model.write_text(model.read_text() + "\nraise RuntimeError('this is the live tree')\n")
    return folder


def lab(folder, *words, rc=0, **variables):
    """The command as an editable install runs it: nothing but the .pth file says where the package is."""
    return call(
        folder,
        folder / ".venv/bin/python",
        "-m",
        "labrig",
        *words,
        rc=rc,
        PYTHONPATH="",
        **variables,
    )


def runs(folder):
    return json.loads(lab(folder, "runs", "list", "--json"))


def finished(folder):
    """The id of the first run."""
    return next(row["run_id"] for row in runs(folder)[::-1] if row["status"] == "finished")


@pytest.mark.slow
def test_reproduced_bit_for_bit_with_the_frozen_code(trained):
    original = finished(trained)
    said = lab(trained, "runs", "reproduce", original, "--check")
    assert "bitwise: metrics are identical and so are the weights" in said
    repeated = runs(trained)[0]
    record = json.loads(lab(trained, "runs", "show", repeated["run_id"], "--json"))
    first = json.loads(lab(trained, "runs", "show", original, "--json"))
    assert record["parent"] == original
    assert record["code"] == first["code"]
    assert record["code"]["dirty"]
    start = record["attempts"][0]["start"]
    assert start["imported_from"].startswith(start["variables"]["LAB_FROZEN"])
    assert repeated["metrics"] == first["metrics"]
    assert not Path(start["variables"]["LAB_FROZEN"]).exists()
    assert "as recorded" in lab(trained, "runs", "verify", repeated["run_id"])
    assert repeated["is_check"]
    best = lab(trained, "runs", "show", "@best:val/loss")
    assert original in best
    assert repeated["run_id"] not in best
    lab(trained, "runs", "export", "-o", "all.csv")
    table = Path(trained, "all.csv").read_text()
    assert original in table
    assert repeated["run_id"] not in table


@pytest.mark.slow
def test_frozen_code_that_is_not_imported_is_refused(trained, tmp_path):
    n_runs = len(runs(trained))
    lab(trained, "runs", "code", finished(trained), tmp_path / "code")
    assert "must use the frozen code" in lab(
        trained, "train", *TRAIN, rc=4, LAB_FROZEN=str(tmp_path / "code")
    )
    assert len(runs(trained)) == n_runs


@pytest.mark.release
@pytest.mark.slow
def test_changed_data_is_noticed(trained):
    original = finished(trained)
    data = trained / "data/digits.h5"
    content, times = data.read_bytes(), data.stat()
    place = len(content) // 2
    data.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    os.utime(data, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert "damaged" in lab(trained, "runs", "verify", original, rc=1)
    data.write_bytes(content[:-1])
    assert "recorded were" in lab(trained, "runs", "reproduce", original, rc=3)
    data.unlink()
    assert "is missing" in lab(trained, "runs", "reproduce", original, rc=3)
    data.write_bytes(content)
    recorded = json.loads(lab(trained, "runs", "show", original, "--json"))
    sha256 = recorded["attempts"][0]["start"]["data"]["sha256"]
    assert sha256 in lab(trained, "data", "verify", "digits", "--json")
    assert "as recorded" in lab(trained, "runs", "verify", original)


@pytest.mark.release
@pytest.mark.slow
def test_deterministic_kernels_can_be_asked_for(own_project):
    program = (
        "from omegaconf import OmegaConf; import torch, os;"
        "from labrig.config.compose import compose; from labrig.project import Project;"
        "from labrig.training.parts.settings import apply_settings, resolve_auto;"
        "config = compose(Project.find(), ['trial=baseline', 'record.deterministic=true']).config;"
        "apply_settings(resolve_auto(config, {}));"
        "print(torch.are_deterministic_algorithms_enabled(), os.environ['CUBLAS_WORKSPACE_CONFIG'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=own_project,
        env=os.environ | {"PYTHONPATH": str(own_project / "src")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout.split() == ["True", ":4096:8"], done.stderr
