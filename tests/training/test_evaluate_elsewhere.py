"""`lab eval` on other data and splits: what it measures, records, shows and verifies."""

import json

import h5py
import pytest
from labrig.errors import LabError
from labrig.training.trained.evaluate import refuse_part
from projects import call, copy_of
from repositories import commit
from trainings import SHORT, first, last

pytestmark = pytest.mark.slow
OTHER = "digits2"


@pytest.fixture(scope="module")
def trained(home, tmp_path_factory):
    """A project with a finished run, and a second data set: the same samples with other splits."""
    folder = copy_of(home, tmp_path_factory.mktemp("elsewhere") / "myproj")
    conf = folder / "src/myproj/conf/data"
    text = (conf / "digits.yaml").read_text().replace("digits.h5", f"{OTHER}.h5")
    (conf / f"{OTHER}.yaml").write_text(text.replace("drop_last: false", "drop_last: true"))
    commit(folder, "Add data")
    call(folder, "lab", "data", "pack", OTHER, "--seed", "7")
    call(folder, "lab", "train", "trial=baseline", *SHORT)
    return folder


def evaluate(folder, *words):
    return call(folder, "lab", "eval", "@last", *words)


def metrics_of(printed):
    (line,) = [line for line in printed.splitlines() if line.startswith("{")]
    return json.loads(line)


def evaluations(folder):
    with open(f"{last(folder)['run_dir']}/evaluations.jsonl") as file:
        return [json.loads(line) for line in file]


def place(folder):
    """What the metrics of the newest evaluation are called after."""
    row = evaluations(folder)[-1]
    return f"{row['data_name']}-{row['data']['sha256'][:6]}"


def n_samples(folder, name, split):
    with h5py.File(folder / "data" / f"{name}.h5") as file:
        return len(file["splits"][split])


@pytest.mark.release
def test_another_data_set_is_measured_recorded_and_shown(trained):
    printed = evaluate(trained, f"data={OTHER}", "--json")
    assert f"lab: data={OTHER} has other settings than the run: drop_last False -> True" in printed
    metrics = metrics_of(printed)
    row = evaluations(trained)[-1]
    assert row["metrics"] == metrics
    assert (row["data_name"], row["split"]) == (OTHER, "test")
    info = call(trained, "lab", "data", "verify", OTHER, "--json")
    assert row["data"]["sha256"] == json.loads(info)["sha256"]
    record = last(trained)
    named = {f"{name}@{place(trained)}": value for name, value in metrics.items()}
    assert named.items() <= record["metrics"].items()
    shown = call(trained, "lab", "runs", "show", "@last")
    assert (
        f"evaluated   last.ckpt on {OTHER}.h5, split test, sha256 {row['data']['sha256'][:12]}"
        in shown
    )
    assert f"data        {trained}/data/digits.h5 sha256 " in shown
    listed = call(trained, "lab", "runs", "list", "--columns", f"test/acc@{place(trained)}")
    assert f"{named[f'test/acc@{place(trained)}']:.4f}"[:6] in listed
    table = call(trained, "lab", "runs", "table")
    own, _, elsewhere = table.partition(f"\non {place(trained)}:\n")
    assert "test/acc" in own
    assert "test/acc" in elsewhere
    assert "test/acc@" not in table, "a table for each data set"


@pytest.mark.release
def test_every_sample_is_the_sum_of_the_splits(trained):
    """Accuracies are means over samples, so that of all of them follows from those of the splits."""
    n_right = 0.0
    n_all = 0
    for split in ("train", "val", "test"):
        metrics = metrics_of(evaluate(trained, f"split={split}", "--json"))
        n = n_samples(trained, "digits", split)
        n_right += metrics[f"{split}/acc"] * n
        n_all += n
    whole = metrics_of(evaluate(trained, "split=all", "--json"))
    assert whole["test/acc"] * n_all == pytest.approx(n_right, abs=0.01)
    names = last(trained)["metrics"]
    assert names[f"test/acc@{place(trained)}/all"] == whole["test/acc"]
    assert f"test/acc@{place(trained)}" not in names, "its own test has its name already"
    # The samples of the second file are the same, in other splits.
    there = metrics_of(evaluate(trained, f"data={OTHER}", "split=all", "--json"))
    assert there["test/acc"] == pytest.approx(whole["test/acc"], abs=1e-6)


@pytest.mark.release
def test_verify_notices_that_the_data_of_an_evaluation_changed(trained):
    evaluate(trained, f"data={OTHER}")
    assert "evaluations" in call(trained, "lab", "runs", "verify", "@last")
    path = trained / f"data/{OTHER}.h5"
    whole = path.read_bytes()
    try:
        path.unlink()
        assert f"{path} is gone" in call(trained, "lab", "runs", "verify", "@last")
        path.write_bytes(whole)
        with h5py.File(path, "r+") as file:
            file["data/y"][0] += 1
        refused = call(trained, "lab", "runs", "verify", "@last", rc=1)
        assert f"{path} has other content now than the evaluation read" in refused
    finally:
        path.write_bytes(whole)


@pytest.mark.release
def test_other_weights_change_no_metric_of_the_run(trained):
    expected = metrics_of(evaluate(trained, f"data={OTHER}", "--json"))
    others = metrics_of(evaluate(trained, f"data={OTHER}", "--checkpoint", "previous", "--json"))
    assert others["test/loss"] != expected["test/loss"]
    assert last(trained)["metrics"][f"test/loss@{place(trained)}"] == expected["test/loss"]


@pytest.mark.release
def test_data_of_one_name_with_other_content_have_a_metric_of_their_own(trained):
    evaluate(trained, f"data={OTHER}")
    before = place(trained)
    path = trained / f"data/{OTHER}.h5"
    whole = path.read_bytes()
    try:
        call(trained, "lab", "data", "pack", OTHER, "--seed", "8")
        evaluate(trained, f"data={OTHER}")
        after = place(trained)
    finally:
        path.write_bytes(whole)
    assert before != after
    assert {f"test/acc@{before}", f"test/acc@{after}"} <= last(trained)["metrics"].keys()


def test_a_number_is_of_the_samples_that_tables_take_it_for():
    few, whole = {"limit_test_batches": 1}, {"limit_test_batches": 1.0}
    refuse_part(few, few)
    refuse_part(whole, {})
    with pytest.raises(LabError, match=r"batches=1: .*Type trainer\.limit_test_batches=1\.0"):
        refuse_part(few, {})  # other data, by the limit that the run has recorded
    with pytest.raises(LabError, match=r"batches=1\.0: .*Type trainer\.limit_test_batches=1;"):
        refuse_part(whole, few)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("split=tset", "has no split 'tset'; did you mean: test. Write split=NAME, one of: "),
        ("data=digitz", "no data set 'digitz'; did you mean: digits"),
        ("data=built", "Name the file: data.path=other.h5"),
        ("trainer.limit_test_batches=1", "lab eval measures every sample of a split"),
        ("optimizer.lr=1", "lab eval takes data=NAME, split=NAME, data.* and trainer.*"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(home, word, said):
    built = home / "src/myproj/conf/data/built.yaml"
    built.write_text("defaults: [digits]\n_target_: myproj.data.Digits\npath: other.h5\n")
    try:
        assert said in call(home, "lab", "eval", first(home)["run_id"], word, rc=2)
    finally:
        built.unlink()
