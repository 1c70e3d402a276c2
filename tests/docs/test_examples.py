"""The trial directories of examples/: dropped into a project, packed, and trained for real."""

import re
import runpy
import shlex
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from labrig.record.files.metrics_file import read_metrics
from matplotlib.image import imread
from projects import ROOT, call, copy_project, equip
from trainings import last

EXAMPLES = ROOT / "examples"
# The metric whose value the README states, and by how much another machine may differ from it.
TRAINED = {
    "images": ("test/acc", 0.04),
    "images/plain": ("test/acc", 0.04),
    "segmentation": ("test/iou", 0.03),
    "segmentation/plain": ("test/iou", 0.03),
    "audio": ("test/exact", 0.06),
    "text": ("test/acc", 0.05),
    "language": ("test/bits", 0.15),
    "vae": ("test/mse", 0.003),
    "forecast": ("test/mae", 1.5),
}
NAMES = (
    *("images", "segmentation", "audio", "text", "language", "finetune"),
    *("forecast", "vae", "program", "pipeline", "workflow"),
)
FROM_FILES = (
    "segmentation",
    "text",
    "language",
    "forecast",
)  # data that lie as files, and are packed by a command
MAX_LINES = 150


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A project with all examples, each brought by the one command that its README says."""
    folder = equip(copy_project(tmp_path_factory.mktemp("examples") / "myproj"))
    for name in NAMES:
        text = (EXAMPLES / name / "README.md").read_text(encoding="utf-8")
        (command,) = re.findall(rf"^cp -r TEMPLATE/examples/{name} src/\S+/trials/$", text, re.M)
        words = command.replace("TEMPLATE", str(ROOT)).replace("PACKAGE", "myproj").split()
        call(folder, *words)
    for name in FROM_FILES:
        for words in commands_of(name, folder):
            if words[0] == "python" or words[:3] == ["lab", "data", "pack"]:
                call(folder, *words)
    return folder


def commands_of(name, folder):
    """The commands of a README, in words, as they are typed in a project."""
    text = (EXAMPLES / name / "README.md").read_text(encoding="utf-8")
    block = text.partition("```\n")[2].partition("```")[0]
    return [shlex.split(line.replace("PACKAGE/", f"{folder.name}/")) for line in block.splitlines()]


def stated(trial, metric):
    """The value of a metric in a README: a line of its table that begins with the trial."""
    text = (EXAMPLES / trial.partition("/")[0] / "README.md").read_text(encoding="utf-8")
    (line,) = [line for line in text.splitlines() if line.startswith(f"| `{trial}` |")]
    return float(re.search(rf"{metric} ([\d.]+)", line)[1])


@pytest.mark.release
@pytest.mark.slow
def test_settings_of_all_examples_are_right(own):
    said = call(own, "lab", "check", "--no-batch")
    for name in NAMES:
        assert f"ok  {name}: " in said
    for name in NAMES:
        text = (EXAMPLES / name / "README.md").read_text(encoding="utf-8")
        for part in ("**Question.**", "**Change.**", "**Numbers.**", "**Verdict.**"):
            assert part in text, f"{name}/README.md has no {part}"
        code = [path.read_text(encoding="utf-8") for path in (EXAMPLES / name).glob("*.py")]
        assert sum(text.count("\n") for text in code) <= MAX_LINES
        for picture in re.findall(r"\]\((\S+\.png)\)", text):
            assert imread(EXAMPLES / name / picture).std() > 0.01


def test_images_are_moved_and_mixed_in_training_only():
    names = runpy.run_path(str(EXAMPLES / "images/data.py"))
    image = torch.arange(8 * 3 * 32 * 32).reshape(8, 3, 32, 32).remainder(256).to(torch.uint8)
    label = torch.arange(8) % len(names["CLASSES"])

    def given(training, **settings):
        data = SimpleNamespace(
            trainer=SimpleNamespace(training=training),
            generator=lambda _: torch.Generator().manual_seed(0),
            **{"shift_pixels": 0, "mixup": 0} | settings,
        )
        return names["Shapes"].on_after_batch_transfer(data, (image, label), 0)

    plain, target = given(True)
    assert torch.equal(plain, given(False, shift_pixels=4, mixup=0.2)[0])
    assert torch.equal(target.argmax(1), given(False, mixup=0.2)[1])
    moved, _ = given(True, shift_pixels=4)
    assert not any(torch.equal(*pair) for pair in zip(moved, plain, strict=True))
    mixed, shares = given(True, mixup=0.2)
    assert not torch.equal(mixed, plain)
    assert ((shares > 0).sum(1) == 2).any(), "shares of two classes"
    assert torch.allclose(shares.sum(1), torch.ones(8))


@pytest.mark.release
@pytest.mark.parametrize("trial", TRAINED)
def test_an_example_reaches_what_its_readme_states(own, trial):
    name = trial.partition("/")[0]
    if name not in FROM_FILES and not (own / "data" / f"{name}.h5").exists():
        said = call(own, "lab", "data", "pack", name)
        assert f"trials/{name}/config.yaml stays as it is" in said
    call(own, "lab", "train", f"trial={trial}", "trainer=cpu", "trainer.threads=1")
    metric, tolerance = TRAINED[trial]
    record = last(own)
    assert record["metrics"][metric] == pytest.approx(stated(trial, metric), abs=tolerance)
    pictures = {path.name for path in Path(record["run_dir"], "pictures").iterdir()}
    assert "curves.png" in pictures


@pytest.mark.release
@pytest.mark.slow
def test_segmentation_says_what_it_found(own):
    short = ("trainer=cpu", "trainer.threads=1", "trainer.max_epochs=1", "callbacks.pictures.n=2")
    call(own, "lab", "train", "trial=segmentation", "trainer.check_val_every_n_epoch=1", *short)
    record = last(own)
    folder = Path(record["run_dir"], "pictures")
    (file,) = folder.glob("samples-*.csv")
    first = file.read_text().splitlines()[0]
    assert first == "sample,right,iou"
    assert imread(file.with_suffix(".png")).std() > 0.01
    assert 0 < record["metrics"]["test/iou"] < 1
    made_by = call(own, "lab", "data", "info", "cells", "--made-by")
    assert (EXAMPLES / "segmentation/make_cells.py").read_text() in made_by


@pytest.mark.release
@pytest.mark.slow
def test_folds_of_series_give_a_mean_and_predictions_give_the_metrics_again(own):
    short = ("data.folds=5", "trainer=cpu", "trainer.threads=1", "trainer.max_epochs=1")
    call(own, "lab", "train", "trial=forecast", "data.fold=range(3)", "-m", *short)
    said = call(own, "lab", "runs", "table", "trial=forecast", "--over", "data.fold")
    assert re.search(r"forecast .* ± .* 3$", said, re.M), said
    call(own, "lab", "predict", "@last", "--to", "predicted.npz")
    with np.load(own / "predicted.npz") as predicted:
        error = predicted["forecast"].astype(float) - predicted["demand"]
        n_windows = 366 - 35 + 1  # of the year of the test, in each of ten regions
        assert error.shape == (10 * n_windows, 7)
        assert sorted(predicted["start"]) == sorted([*range(n_windows)] * 10)
    metrics = last(own)["metrics"]
    assert metrics["test/mae"] == pytest.approx(np.abs(error).mean(), rel=1e-5)
    assert metrics["test/rmse"] == pytest.approx(np.sqrt((error**2).mean()), rel=1e-5)


PLAIN = """
import sys

import lightning as L
import torch
from labrig import H5DataModule
from torch.nn import functional as F

sys.path.insert(0, "src")
from myproj.trials.language.model import GPT

torch.set_num_threads(1)
L.seed_everything(0, verbose=False)
model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.01, fused=True)
data = H5DataModule("topics.h5", batch_size=32, fields=["x"], windows={"x": 65}, windows_per_epoch=192)
for (token_BT,) in data.loader("train", shuffle=True):
    token_BT = token_BT.long()
    score_BTV = model(token_BT[:, :-1])
    loss = F.cross_entropy(score_BTV.flatten(0, 1), token_BT[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print(loss.item())
"""


@pytest.mark.release
@pytest.mark.slow
def test_the_language_model_has_the_losses_of_a_loop_by_hand_over_the_same_windows(own):
    short = ("schedule=constant", "trainer.max_epochs=1", "log.every_n_steps=1")
    windows = "data.windows_per_epoch=192"
    call(own, "lab", "train", "trial=language", "trainer=cpu", "trainer.threads=1", *short, windows)
    rows = read_metrics(Path(last(own)["run_dir"]))
    losses = [row["train/loss"] for row in rows if "val/loss" not in row and "train/loss" in row]
    (own / "plain.py").write_text(PLAIN)
    assert [*map(float, call(own, "python", "plain.py").split())] == losses[:6]
