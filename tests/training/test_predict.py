"""`lab predict`: a row for each sample, in the order of the data, on any number of processes."""

import csv
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pyarrow.parquet
import pytest
from labrig.data import H5Dataset, read_layout, write_data_file
from labrig.errors import LabError
from labrig.hdf5.file.errors import DataFileError
from labrig.hdf5.pack.writer import write_fields
from labrig.record.files.code_section import library_name
from labrig.training.trained.predict import is_prediction, refuse_other_data
from labrig.training.trained.prediction_table import write_table
from labrig.training.trained.predictions import mean_of, merge_parts
from projects import call
from trainings import SHORT, add_trial, first, last

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


@pytest.mark.release
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


@pytest.mark.release
@pytest.mark.slow
def test_two_processes_write_what_one_writes(home, rich, val):
    """179 samples in steps of 100: the last step is uneven, and no process pads it."""
    two = home / "two.h5"
    predict(home, rich, "split=val", "trainer.devices=2", "--to", two)
    one = fields_of(val)
    for name, values in fields_of(two).items():
        np.testing.assert_allclose(values, one[name], rtol=1e-2, err_msg=name)
    assert rows_of(rich)[-1]["path"] == str(two)


@pytest.mark.release
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


@pytest.mark.slow
def test_other_data_without_labels_and_without_splits(home, rich):
    with h5py.File(home / "data/digits.h5") as data:
        images = data["data/x"][:21]
    write_data_file(home / "data/new.h5", {"x": images}, {})
    predict(home, rich, "data.path=new.h5", "data.fields=[x]", "--checkpoint", "best")
    new = fields_of(Path(rich["run_dir"], "predictions/best-new-all.h5"))
    assert new["row"].tolist() == list(range(21))
    assert new["brightness"].tolist() == images.reshape(21, -1).sum(1, dtype=int).tolist()


@pytest.mark.slow
def test_a_mistake_is_reported(home):
    run = first(home)
    assert "lab predict takes data=NAME, split=NAME" in predict(home, run, "optimizer.lr=1", rc=2)


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


@pytest.mark.release
@pytest.mark.slow
def test_a_table_has_the_true_and_the_predicted_class_of_each_sample(home, rich, val):
    assert "scores.xlsx has no ending that predictions are written as" in predict(
        home, rich, "--to", "scores.xlsx", rc=2
    )
    table = home / "scores.csv"
    said = predict(home, rich, "split=val", "data=digits", "--to", table)
    assert "scores.csv lacks strokes, of several dimensions or lengths" in said
    with open(table) as file:
        lines = list(csv.DictReader(file))
    predicted = fields_of(val)
    with h5py.File(home / "data/digits.h5") as data:
        labels = data["data/y"][:][predicted["row"]]
    assert [int(line["true"]) for line in lines] == labels.tolist()
    assert [int(line["predicted"]) for line in lines] == predicted["class"].tolist()
    assert {line["split"] for line in lines} == {"val"}
    scores = [[float(line[f"score_{i}"]) for i in range(10)] for line in lines]
    np.testing.assert_allclose(scores, predicted["score"], rtol=1e-6)
    notes = home / "notes.csv"
    notes.write_text("my own notes")
    assert "this command did not make it" in predict(home, rich, "--to", notes, rc=4)


CLASSES = ["cat", "dog", "eel"]


@pytest.fixture
def pets(tmp_path):
    """Data of four samples with names, and what was predicted for the last three of them."""
    label = np.array([0, 1, 2, -100])
    splits = {"train": np.array([0]), "test": np.array([1, 2])}
    data = write_fields(
        tmp_path / "pets.h5",
        {"x": np.eye(4), "y": label},
        splits,
        provenance={},
        field_attrs={"y": {"classes": json.dumps(CLASSES)}},
    )
    names = "row,split,sample\n0,train,a.png\n1,test,b.png\n2,test,c.png\n3,,d.png\n"
    (tmp_path / "pets.names.csv").write_text(names)
    fields = {
        "row": np.array([1, 2, 3]),
        "score": np.array([[0, 1, 0], [3, 1, 2], [0, 0, 1]], np.float32),
        "class": np.array([1, 0, 2]),
        "age": np.array([0.5, 1, 2]),
    }
    file = write_data_file(tmp_path / "test.h5", fields, {"all": np.arange(3)})
    return file, {"split": "all", "data": {"path": str(data), "size_bytes": 1}}


def test_a_table_names_samples_and_classes(pets, tmp_path, capsys):
    file, row = pets
    write_table(tmp_path / "p.csv", file, row)
    assert (tmp_path / "p.csv").read_text().splitlines() == [
        "row,split,sample,true,predicted,age,score_cat,score_dog,score_eel",
        "1,test,b.png,dog,dog,0.5,0.0,1.0,0.0",
        "2,test,c.png,eel,cat,1.0,3.0,1.0,2.0",
        "3,,d.png,,eel,2.0,0.0,0.0,1.0",
    ]
    write_table(tmp_path / "p.parquet", file, row)
    table = pyarrow.parquet.read_table(tmp_path / "p.parquet").to_pydict()
    assert table["predicted"] == ["dog", "cat", "eel"]
    assert table["score_cat"] == [0, 3, 0]
    write_table(tmp_path / "p.npz", file, row)
    with np.load(tmp_path / "p.npz") as arrays:
        assert arrays["score"].shape == (3, 3)
        assert arrays["true"].tolist() == ["dog", "eel", ""]
    for name in ("p.csv", "p.parquet", "p.npz"):
        assert is_prediction((tmp_path / name).read_bytes())
    assert not capsys.readouterr().err
    (tmp_path / "pets.names.csv").write_text("row,split,sample\n0,test,a.png\n")
    write_table(tmp_path / "p.csv", file, row)
    assert "pets.names.csv is of other data" in capsys.readouterr().err


def test_data_without_labels_have_the_class_names_of_the_run(pets, tmp_path):
    file, row = pets
    new = write_data_file(tmp_path / "new.h5", {"x": np.eye(4)}, {"test": range(4)})
    row = row | {"data": {"path": str(new), "size_bytes": 1}}
    write_table(tmp_path / "p.csv", file, row, lambda: read_layout(tmp_path / "pets.h5"))
    assert (tmp_path / "p.csv").read_text().splitlines()[:2] == [
        "row,split,predicted,age,score_cat,score_dog,score_eel",
        "1,test,dog,0.5,0.0,1.0,0.0",
    ]


def test_the_mean_of_scores_decides_the_class_of_an_ensemble(tmp_path):
    def member(name, score, **more):
        score = np.array(score, np.float32)
        fields = {"row": np.array([1, 4]), "score": score, "class": score.argmax(1)} | more
        return read_layout(write_data_file(tmp_path / f"{name}.h5", fields, {}))

    one = member("one", [[0.4, 0.6], [1, 0]])
    two = member("two", [[0.9, 0.1], [0.8, 0.2]])
    mean = mean_of([one, two])
    np.testing.assert_allclose(mean["score"], [[0.65, 0.35], [0.9, 0.1]])
    assert mean["class"].tolist() == [0, 0]
    assert mean["row"].tolist() == [1, 4]
    other = member("other", [[0, 1], [0, 1]], row=np.array([1, 5]))
    with pytest.raises(LabError, match="predicted other samples"):
        mean_of([one, other])
    alone = member("alone", [[0, 1], [0, 1]], **{"class": np.array([0, 0])})
    with pytest.raises(LabError, match="differ in class, whole numbers"):
        mean_of([member("third", [[0, 1], [0, 1]]), alone])


def test_no_ensemble_of_predictions_for_other_data():
    runs = [SimpleNamespace(id=name) for name in "ab"]
    row = {"data": {"path": "a.h5", "sha256": "1"}}
    refuse_other_data(runs, [row, row])
    with pytest.raises(LabError, match=r"other data: a.h5 and b.h5. Name those .*: data=NAME"):
        refuse_other_data(runs, [row, {"data": {"path": "b.h5", "sha256": "2"}}])


@pytest.mark.release
@pytest.mark.slow
def test_an_ensemble_is_the_mean_of_its_runs(home, rich, val):
    call(home, "lab", "train", "trial=rich", *SHORT, "seed=7", "trainer.limit_train_batches=2")
    other = last(home)
    words = [rich["run_id"], other["run_id"], "split=val"]
    assert "there are 2 runs. For the mean of what they predict, add: --mean" in call(
        home, "lab", "predict", *words, rc=2
    )
    refused = call(home, "lab", "predict", *words, "--mean", rc=2)
    assert "strokes varies in length, so it has no mean" in refused
    config = CONFIG.replace(".task.Task", "${package}.task.Classifier")
    add_trial(home, "plain", config_yaml=config)
    shutil.copy(home / "src/myproj/trials/baseline/model.py", home / "src/myproj/trials/plain")
    runs = []
    for seed in (1, 2):
        call(home, "lab", "train", "trial=plain", *SHORT, f"seed={seed}")
        runs.append(last(home))
    ids = [run["run_id"] for run in runs]
    said = call(home, "lab", "predict", *ids, "--mean", "split=val")
    assert "2 runs, 179 samples, the mean of what they predict" in said
    scores = [
        fields_of(Path(run["run_dir"], "predictions/last-digits-val.h5"))["score"] for run in runs
    ]
    mean = fields_of(Path(runs[0]["run_dir"], "predictions/mean.h5"))
    np.testing.assert_allclose(mean["score"], np.mean(scores, 0), rtol=1e-6)
    assert mean["class"].tolist() == mean["score"].argmax(1).tolist()
    assert rows_of(runs[0])[-1]["runs"] == ids
    assert "predictions are as recorded" in call(home, "lab", "runs", "verify", ids[0])
