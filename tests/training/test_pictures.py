"""What the callback Pictures saves, and the curves that `lab runs plot` draws."""

import csv
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import lightning.pytorch as L
import pytest
import torch
from labrig import H5DataModule
from labrig.hdf5.pack.writer import write_fields
from labrig.record.list.curves import text_curves
from labrig.training.pictures.pictures import MAX_STEPS, Confusion, Pictures, thin_out
from labrig.training.pictures.samples import as_image, kind_of, samples_of
from matplotlib.image import imread
from projects import call
from trainings import SHORT, last

PICTURES = "callbacks.pictures={_target_: labrig.training.pictures.pictures.Pictures}"
N_VAL = 179  # samples of the validation split of the digits


def table(file):
    with open(file, newline="") as stream:
        return list(csv.DictReader(stream))


def check_pictures(run_dir, last_step):
    """Samples, confusion matrix and curves of a training of two epochs."""
    folder = Path(run_dir, "pictures")
    names = sorted(path.name for path in folder.iterdir())
    assert len(names) == 2 * 4 + 1, names
    for name in names:
        if name.endswith(".png"):
            assert imread(folder / name).std() > 0.01, "something is drawn"
    samples = table(folder / f"samples-{last_step:08d}.csv")
    assert len(samples) == 8
    assert set(samples[0]) == {"sample", "target", "prediction", "probability"}
    right = [row for row in samples if row["target"] == row["prediction"]]
    assert len(right) >= 5, "the baseline knows most digits"
    matrix = table(folder / f"confusion-{last_step:08d}.csv")
    counts = [[int(row[str(n)]) for n in range(10)] for row in matrix]
    assert sum(map(sum, counts)) == N_VAL, "the whole split, each sample once"
    return sum(counts[n][n] for n in range(10)) / N_VAL


@pytest.mark.release
@pytest.mark.slow
def test_pictures_of_each_validation(home):
    assert "ok  baseline" in call(home, "lab", "check", "trial=baseline", PICTURES)
    assert not (home / "pictures").exists(), "a check leaves nothing behind"
    call(home, "lab", "train", "trial=baseline", *SHORT, PICTURES)
    record = last(home)
    accuracy = check_pictures(record["run_dir"], 46)
    assert accuracy == pytest.approx(record["metrics"]["val/acc"], abs=1e-6)


@pytest.mark.release
def test_the_first_of_two_ranks_saves_and_sends_pictures(home):
    settings = ("trial=baseline", *SHORT, PICTURES, "trainer.devices=2")
    variables = {"WANDB_MODE": "offline", "WANDB_API_KEY": ""}
    call(home, "lab", "train", *settings, "logger=[tensorboard,wandb]", **variables)
    record = last(home)
    accuracy = check_pictures(record["run_dir"], 24)
    assert accuracy == pytest.approx(record["metrics"]["val/acc"], abs=1e-6)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(f"{record['run_dir']}/tensorboard")
    events.Reload()
    assert [image.step for image in events.Images("val/confusion")] == [11, 23]
    sent = Path(record["run_dir"]).glob("wandb/offline-run-*/files/media/images/val/*.png")
    assert len(list(sent)) == 4


def saved(tmp_path, batch, prediction):
    samples_of(batch, prediction, 3).save(tmp_path, 7, [], 16000.0)
    return sorted(path.name for path in tmp_path.iterdir()), table(
        tmp_path / "samples-00000007.csv"
    )


@pytest.mark.slow
def test_waveforms_are_drawn_with_spectrograms(tmp_path):
    wave = torch.sin(torch.arange(16000) * 0.3).repeat(4, 1, 1)
    assert kind_of(wave) == "wave"
    names, rows = saved(tmp_path, (wave, torch.tensor([0, 1, 2, 0])), torch.eye(4, 3))
    assert names == ["samples-00000007.csv", "samples-00000007.png"]
    assert [row["prediction"] for row in rows] == ["0", "1", "2"]


def test_classes_have_the_names_of_the_data_file(tmp_path):
    label = torch.tensor([0, 1, 1])
    attrs = {"y": {"classes": '["cat", "dog"]'}}
    fields = {"x": torch.eye(3, 2).numpy(), "y": label.numpy()}
    path = write_fields(
        tmp_path / "a.h5", fields, {"val": range(3)}, provenance={}, field_attrs=attrs
    )
    task = L.LightningModule()
    task.forward = lambda x: x
    task.validation_step = lambda batch, batch_idx: task(batch[0]).sum()
    trainer = L.Trainer(
        callbacks=[Pictures()], default_root_dir=tmp_path, accelerator="cpu", logger=False
    )
    trainer.validate(task, datamodule=H5DataModule(str(path)), verbose=False)
    (matrix,) = (tmp_path / "pictures").glob("confusion*.csv")
    assert table(matrix) == [
        {"label": "cat", "cat": "1", "dog": "0"},
        {"label": "dog", "cat": "1", "dog": "1"},
    ]
    (samples,) = (tmp_path / "pictures").glob("samples*.csv")
    assert [row["target"] for row in table(samples)] == ["cat", "dog", "dog"]


def test_features_become_a_table(tmp_path):
    batch = {"x": torch.tensor([[1.0, 2.0], [3.0, 4.0]]), "y": torch.tensor([0.5, 1.5])}
    names, rows = saved(tmp_path, batch, torch.tensor([[0.25], [1.25]]))
    assert names == ["samples-00000007.csv"]
    assert rows[1] == {
        "sample": "1",
        "target": "1.5",
        "prediction": "1.25",
        "x0": "3.0",
        "x1": "4.0",
    }


def test_masks_are_drawn_below_their_images(tmp_path):
    image = torch.rand(2, 3, 16, 16)
    alone, _ = saved(tmp_path, image, None)
    height = imread(tmp_path / alone[1]).shape[0]
    mask = torch.randint(5, (2, 16, 16))
    score = torch.rand(2, 5, 16, 16)
    saved(tmp_path, [image, mask], score)
    assert imread(tmp_path / alone[1]).shape[0] == pytest.approx(3 * height, abs=3)
    confusion = Confusion()
    confusion.add([image, mask], score)
    assert confusion.n.sum() == mask.numel()


def test_masks_of_three_classes_are_classes_and_no_colours(tmp_path):
    mask = torch.zeros(3, 16, 16, dtype=torch.int64)
    mask[:, 4:8, 4:8] = 2
    mask[1, 0] = -100  # these pixels do not count
    score = torch.nn.functional.one_hot(mask.clamp(min=0), 3).permute(0, 3, 1, 2).float()
    score[2] = 0  # class 0 everywhere
    _, rows = saved(tmp_path, [torch.rand(3, 3, 16, 16), mask], score)
    assert [row["iou"] for row in rows] == ["1.0", "1.0", str(round((240 / 256 + 0) / 2, 4))]
    assert [row["right"] for row in rows] == ["1.0", "1.0", "0.9375"]
    assert torch.equal(as_image(score, mask), score.argmax(1))
    pixels_HWC = imread(tmp_path / "samples-00000007.png")
    third = pixels_HWC.shape[0] // 3
    target, prediction = pixels_HWC[third : 2 * third], pixels_HWC[2 * third :]
    yellow = (target[..., :3] - [0.993, 0.906, 0.144]).__abs__().max(-1) < 0.02
    assert yellow.any(), "the largest class"
    third_sample = prediction[:, 2 * prediction.shape[1] // 3 :]
    assert not ((third_sample[..., :3] - [0.993, 0.906, 0.144]).__abs__().max(-1) < 0.02).any()


def test_labels_to_ignore_and_other_tasks_are_not_counted():
    confusion = Confusion()
    confusion.add((torch.rand(4, 8), torch.tensor([0, -100, 1, 1])), torch.eye(4, 2))
    assert confusion.n.tolist() == [[1, 0], [2, 0]]
    other = Confusion()
    other.add((torch.rand(4, 8), torch.rand(4)), torch.rand(4, 1))
    other.add(torch.rand(4, 8), None)
    assert other.n is None


def test_a_rank_without_a_batch_adds_nothing(monkeypatch):
    counted, empty = Confusion(), Confusion()
    counted.add((torch.rand(3, 8), torch.tensor([0, 1, 1])), torch.eye(3, 2))
    two_ranks = SimpleNamespace(world_size=2, global_rank=0, strategy=None)
    of_other_rank = [counted.n]

    def gather(parts, own):
        parts[:] = [own, *of_other_rank]

    monkeypatch.setattr(torch.distributed, "all_gather_object", gather)
    assert (
        counted.of_all_ranks(SimpleNamespace(world_size=1, global_rank=0, strategy=None)).n
        == counted.n.tolist()
    )
    assert counted.of_all_ranks(two_ranks).n == (2 * counted.n).tolist()
    assert empty.of_all_ranks(two_ranks).n == counted.n.tolist()
    of_other_rank[:] = [None]
    assert empty.of_all_ranks(two_ranks) is None


def test_many_validations_leave_few_files(tmp_path):
    (tmp_path / "curves.png").touch()
    for step in range(1, 200):
        (tmp_path / f"samples-{step:08d}.png").touch()
        thin_out(tmp_path)
    names = sorted(os.listdir(tmp_path))
    assert len(names) <= MAX_STEPS + 1
    assert {"curves.png", "samples-00000001.png", "samples-00000199.png"} <= set(names)


def test_curves_of_characters_touch_their_ends():
    lines = text_curves([[(0, 1.0), (10, 0.0)], [(5, 0.5)]], "step", width=60)
    assert max(map(len, lines)) <= 60
    assert "|A" in lines[0]
    assert lines[15].rstrip().endswith("A")
    assert "B" in lines[7] + lines[8]
    flat = text_curves([[(3, 2.0)]], "step")
    assert sum("A" in line for line in flat) == 1


@pytest.mark.release
@pytest.mark.slow
def test_plot_draws_runs_over_each_other(home, tmp_path):
    drawn = call(home, "lab", "runs", "plot", "@last", "@last", "--metric", "val/loss")
    assert drawn.startswith("val/loss\n")
    assert max(map(len, drawn.splitlines())) <= 80
    file = tmp_path / "x.png"
    call(home, "lab", "runs", "plot", "@last", "--metric", "val/loss", "train/lr", "-o", file)
    assert imread(file).std() > 0.01
    said = call(home, "lab", "runs", "plot", "@last", "--metric", "val/los", rc=2)
    assert "did you mean: val/loss" in said
    assert "supported formats" in call(home, "lab", "runs", "plot", "@last", "-o", "x.foo", rc=2)
    nowhere = tmp_path / "none" / "x.png"
    assert "No such file" in call(home, "lab", "runs", "plot", "@last", "-o", nowhere, rc=2)


def test_plotting_with_characters_imports_nothing_slow(home):
    first = min(home.glob("runs/baseline/2*"))
    code = "import sys; from labrig.cli import main; main(['runs', 'plot', sys.argv[1]]); "
    code += "print(sorted({'numpy', 'torch', 'hydra', 'matplotlib'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code, first.name],
        cwd=home,
        env=os.environ | {"PYTHONPATH": str(home / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "val/loss" in done.stdout
    assert done.stdout.endswith("[]\n"), done.stdout
