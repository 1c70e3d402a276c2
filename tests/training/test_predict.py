"""`lab predict`: a row for each sample, in the order of the data, on any number of processes."""

import json
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
from labrig.data import H5Dataset, read_layout, write_data_file
from labrig.hdf5.file.errors import DataFileError
from labrig.hdf5.pack.merge import merge_parts
from labrig.record.files.code_section import library_name
from projects import call
from trainings import SHORT, add_trial, last

TASK = """
import torch

from ... import task


class Task(task.Classifier):
    def predict_step(self, batch, batch_idx):
        image_B1HW = batch[0]
        score_BC = self.model(image_B1HW)
        brightness_B = (16 * image_B1HW).sum((1, 2, 3)).long()
        strokes = [image[image > 0.5] for image in image_B1HW]  # as many values as the image has
        return {
            "class": score_BC.argmax(1),
            "score": score_BC.bfloat16(),
            "is_dark": brightness_B < 300,
            "brightness": brightness_B,
            "strokes": strokes,
        }
"""
CONFIG = "task:\n  _target_: .task.Task\nmodel:\n  _target_: .model.CNN\n"


@pytest.fixture(scope="module")
def rich(home):
    """A run of a task whose predictions have several fields, and its directory."""
    add_trial(home, "rich", config_yaml=CONFIG, task_py=TASK)
    shutil.copy(home / "src/myproj/trials/baseline/model.py", home / "src/myproj/trials/rich")
    call(home, "lab", "train", "trial=rich", *SHORT, "trainer.limit_train_batches=2")
    return last(home)


def predict(home, rich, *words, **options):
    return call(home, "lab", "predict", rich["run_id"], "data.batch_size=50", *words, **options)


def fields_of(path):
    """The values of each field of a file of predictions; of a ragged one also the lengths."""
    layout = read_layout(path)
    names = [
        *layout.fields,
        *(f"{name}_lengths" for name in layout.fields if layout.is_ragged(name)),
    ]
    (split,) = layout.splits
    values = H5Dataset(layout, split, names).__getitems__(range(layout.n_samples))
    return {name: value.numpy() for name, value in zip(names, values, strict=True)}


@pytest.fixture(scope="module")
def val(home, rich):
    """The file with what one process predicted for the validation split."""
    assert "179 samples" in predict(home, rich, "split=val")
    return Path(rich["run_dir"], "predictions/last-digits-val.h5")


def test_every_sample_has_a_row_in_the_order_of_the_data(home, rich, val):
    predicted = fields_of(val)
    with h5py.File(home / "data/digits.h5") as data:
        rows = data["splits/val"][:]
        images = data["data/x"][:][rows]
    assert predicted["row"].tolist() == rows.tolist()
    brightness = images.reshape(len(rows), -1).sum(1, dtype=int)
    assert predicted["brightness"].tolist() == brightness.tolist()
    assert predicted["strokes_lengths"].tolist() == [int((image > 8).sum()) for image in images]
    assert predicted["score"].shape == (179, 10)
    assert predicted["score"].dtype == np.float32
    assert predicted["is_dark"].dtype == bool


@pytest.mark.slow
def test_the_file_is_a_data_file_and_in_the_record(home, rich, val):
    assert "all 179 samples are as they were written" in call(home, "lab", "data", "verify", val)
    shown = call(home, "lab", "data", "info", val)
    assert "strokes    float32  ragged" in shown
    assert f"run: {rich['run_id']}" in shown
    row = rows_of(rich)[0]
    assert (row["path"], row["n"]) == ("predictions/last-digits-val.h5", 179)
    assert row["code"].pop("used")["src/myproj/trials/rich/task.py"]
    assert row["code"] == {
        "commit": rich["code"]["commit"],
        "library": library_name(rich["code"]),
        "same": True,
        "complete": True,
        "not_frozen": [],
    }
    shown = call(home, "lab", "runs", "show", rich["run_id"])
    assert "predictions/last-digits-val.h5, 179 samples" in shown
    assert "predictions are as recorded" in call(home, "lab", "runs", "verify", rich["run_id"])
    with h5py.File(val, "r+") as changed:
        changed["data/class"][0] += 1
    said = call(home, "lab", "runs", "verify", rich["run_id"], rc=1)
    assert "last-digits-val.h5 was changed" in said
    with h5py.File(val, "r+") as changed:
        changed["data/class"][0] -= 1


@pytest.mark.slow
def test_two_processes_write_what_one_writes(home, rich, val):
    """179 samples in steps of 100: the last step is uneven, and no process pads it."""
    two = home / "two.h5"
    predict(home, rich, "split=val", "trainer.devices=2", "--to", two)
    one = fields_of(val)
    for name, values in fields_of(two).items():
        np.testing.assert_allclose(values, one[name], rtol=1e-2, err_msg=name)
    assert rows_of(rich)[-1]["path"] == str(two)


@pytest.mark.slow
def test_any_data_module_on_two_processes(home):
    """Lightning divides the samples of a DataLoader; 64 of them, in batches of 1."""
    (home / "src/myproj/conf/data/boring.yaml").write_text(
        "_target_: lightning.pytorch.demos.boring_classes.BoringDataModule\n"
    )
    config = "defaults:\n  - override /data: boring\ntask:\n  _target_: .task.Task\n"
    task = "from lightning.pytorch.demos.boring_classes import BoringModel\n"
    add_trial(
        home, "boring", config_yaml=config, task_py=f"{task}class Task(BoringModel):\n    pass\n"
    )
    call(home, "lab", "train", "trial=boring", *SHORT)
    record = last(home)
    files = []
    for n in (1, 2):
        files.append(home / f"boring-{n}.h5")
        words = [record["run_id"], f"trainer.devices={n}", "--to", files[-1]]
        assert "64 samples" in call(home, "lab", "predict", *words)
    one, two = map(fields_of, files)
    assert one["row"].tolist() == two["row"].tolist() == list(range(64))
    np.testing.assert_allclose(one["prediction"], two["prediction"], rtol=1e-5)


def rows_of(record):
    with open(f"{record['run_dir']}/predictions.jsonl") as file:
        return [json.loads(line) for line in file]


def test_other_data_without_labels_and_without_splits(home, rich):
    with h5py.File(home / "data/digits.h5") as data:
        images = data["data/x"][:21]
    write_data_file(home / "data/new.h5", {"x": images}, {})
    predict(home, rich, "data.path=new.h5", "data.fields=[x]", "--checkpoint", "best")
    new = fields_of(Path(rich["run_dir"], "predictions/best-new-all.h5"))
    assert new["row"].tolist() == list(range(21))
    assert new["brightness"].tolist() == images.reshape(21, -1).sum(1, dtype=int).tolist()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["split=vla"], "has no split 'vla'; did you mean: val"),
        (["data.file=new.h5"], "did you mean: data.path"),
        (["optimizer.lr=1"], "lab predict takes split=NAME"),
    ],
)
def test_a_mistake_is_reported(home, rich, words, expected):
    assert expected in predict(home, rich, *words, rc=2)


@pytest.fixture
def part(tmp_path):
    """part(rows, **fields): a part as a process writes it."""

    def part(rows, **fields):
        path = tmp_path / f"part-{len(list(tmp_path.glob('part*')))}.h5"
        return read_layout(write_data_file(path, {"row": np.array(rows), **fields}, {}))

    return part


def test_parts_of_one_length_and_of_several_become_one_field(part, tmp_path):
    parts = [
        part([4, 0], wav=np.array([[1, 2], [3, 4]], np.int16), x=np.eye(2)),
        part([7, 2], wav=[np.array([5], np.int16), np.array([], np.int16)], x=np.ones((2, 2))),
    ]
    merged = merge_parts(parts, tmp_path)
    assert merged["row"].tolist() == [0, 2, 4, 7]
    wav = [merged["wav"].sample(i).tolist() for i in range(4)]
    assert wav == [[3, 4], [], [1, 2], [5]]
    assert merged["x"].tolist() == [[0, 1], [1, 1], [1, 0], [1, 1]]


def test_a_row_twice_and_other_fields_are_refused(part, tmp_path):
    with pytest.raises(DataFileError, match="row 3 came twice"):
        merge_parts([part([1, 3], x=np.ones(2)), part([3], x=np.ones(1))], tmp_path)
    with pytest.raises(DataFileError, match="different fields or types"):
        merge_parts([part([1], x=np.ones(1)), part([3], y=np.ones(1))], tmp_path)
    with pytest.raises(DataFileError, match="may vary in length"):
        merge_parts([part([1], x=np.ones((1, 2, 2))), part([3], x=np.ones((1, 3, 2)))], tmp_path)


def test_a_file_of_another_format_is_refused(home, rich):
    said = call(home, "lab", "predict", rich["run_id"], "--to", "scores.csv", rc=2)
    assert "scores.csv is no name of an HDF5 file" in said
    assert "--to scores.h5" in said
