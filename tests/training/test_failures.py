"""Code of the user that fails: two lines name the file, the line and the error; the record has the whole traceback."""

import os
import subprocess
import sys
from functools import partial

import pytest
import torch
from projects import call
from torch.utils.data import DataLoader, Dataset
from trainings import SHORT, add_trial, last

MODEL = """\
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 10)

    def forward(self, x):
        return self.layer(x.flatten(1))
"""
CONFIG = "model: {_target_: .model.Net}\n"


@pytest.fixture
def failing(home, request):
    """failing(old, new): the name of a trial whose model.py has `new` in place of `old`."""

    def add(old, new):
        name = request.node.name.removeprefix("test_")[:40].replace("[", "_").strip("]")
        add_trial(home, name, model_py=MODEL.replace(old, new), config_yaml=CONFIG)
        return name

    return add


def lines_of(output, text):
    """The lines of an output from the one with `text` on."""
    lines = output.splitlines()
    first = next(n for n, line in enumerate(lines) if text in line)
    return lines[first:]


@pytest.mark.release
@pytest.mark.slow
def test_a_training_that_fails_ends_in_two_lines(home, failing):
    trial = failing("from torch", "import timmm\nfrom torch")
    output = call(home, "lab", "train", f"trial={trial}", *SHORT, rc=1)
    record = last(home)
    file = f"runs/{trial}/{record['run_id']}/attempts/1/traceback.txt"
    assert lines_of(output, "the training failed") == [
        "lab: the training failed. Its whole traceback:",
        file,
        f"src/myproj/trials/{trial}/model.py:1: import timmm",
        "ModuleNotFoundError: No module named 'timmm'",
        "If it is a package, add it to the project: make add PACKAGE=timmm",
    ]
    text = (home / file).read_text()
    assert text.startswith("Traceback")
    assert "myproj/train.py" in text, "from the first frame"
    assert "No module named 'timmm'" in text, "to the last"
    exception = record["attempts"][0]["end"]["exception"]
    assert exception["place"] == f"src/myproj/trials/{trial}/model.py:1: import timmm"
    shown = call(home, "lab", "runs", "show", "@last")
    assert exception["place"] in shown
    assert exception["line"] in shown
    call(home, "lab", "runs", "verify", "@last")
    (home / file).write_text("another error\n")
    assert "traceback.txt was changed" in call(home, "lab", "runs", "verify", "@last", rc=1)


@pytest.mark.slow
def test_a_syntax_error_is_reported_before_a_run_is_made(home, failing):
    trial = failing("__init__(self):", "__init__(self:")
    output = call(home, "lab", "train", f"trial={trial}", *SHORT, rc=2)
    assert f"src/myproj/trials/{trial}/model.py:5: def __init__(self:\nSyntaxError: " in output
    assert not (home / "runs" / trial).exists()


@pytest.mark.slow
def test_an_error_in_init_is_two_lines_of_lab_check(home, failing):
    trial = failing("super().__init__()", "super().__init__(); nowhere")
    output = call(home, "lab", "check", f"trial={trial}", rc=2)
    assert lines_of(output, "lab: ") == [
        "lab: one batch fails:",
        f"src/myproj/trials/{trial}/model.py:6: super().__init__(); nowhere",
        "NameError: name 'nowhere' is not defined",
    ]


@pytest.mark.release
@pytest.mark.slow
def test_a_check_ends_with_the_warnings_of_its_batch(home, failing):
    trial = failing("return self.layer", "warnings.warn('sizes differ')\n        return self.layer")
    model = home / f"src/myproj/trials/{trial}/model.py"
    model.write_text(f"import warnings\n{model.read_text()}")
    line = [*model.read_text().splitlines()].index("        warnings.warn('sizes differ')") + 1
    said = call(home, "lab", "check", f"trial={trial}").splitlines()
    assert said[-1] == f"    warning: sizes differ (src/myproj/trials/{trial}/model.py:{line})"


NO_TORCH = """
import sys
sys.modules["torch"] = None
from labrig.cli import main
sys.exit(main(["train", "trial=baseline", "data.path=gone.h5"]))
"""


@pytest.mark.slow
def test_missing_data_are_told_before_torch_is_imported_and_before_a_run(home):
    runs = sorted(home.glob("runs/*/*"))
    said = call(home, sys.executable, "-c", NO_TORCH, rc=2)
    assert "lab: no data file gone.h5 in" in said
    assert sorted(home.glob("runs/*/*")) == runs


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.traceback("LAB_DEBUG=1 shows it")
def test_with_lab_debug_an_error_is_not_caught(home, failing):
    trial = failing("nn.Linear(64", "nn.Linear(65")
    for command in ("check", "train"):
        output = call(home, "lab", command, f"trial={trial}", *SHORT, rc=1, LAB_DEBUG="1")
        lines = lines_of(output, "Traceback")
        assert lines[-1].startswith("RuntimeError: mat1 and mat2"), "the error itself comes last"
        assert any("lightning/pytorch" in line for line in lines), "frames of others are shown"
    assert last(home)["status"] == "failed"


@pytest.mark.release
@pytest.mark.slow
def test_leaving_the_debugger_is_no_failure(home, failing):
    """The input of the warm process is empty, at which the debugger quits."""
    trial = failing("return self.layer", "breakpoint()\n        return self.layer")
    output = call(home, "lab", "check", f"trial={trial}", rc=130)
    assert "(Pdb)" in output
    assert "lab: interrupted" in output
    call(home, "lab", "train", f"trial={trial}", *SHORT, rc=130)
    assert last(home)["status"] == "interrupted"


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.traceback("the debugger shows it")
def test_the_debugger_shows_the_line_after_the_error(home, failing):
    """`python -m pdb` gets the error itself, also where the record and the check turn it into a message."""
    trial = failing("super().__init__()", "super().__init__(); nowhere")
    command = [sys.executable, "-m", "pdb", "-c", "continue", "-m", "labrig"]
    done = subprocess.run(
        [*command, "check", f"trial={trial}"],
        cwd=home,
        env=os.environ | {"PYTHONPATH": str(home / "src"), "LAB_DEBUG": "1"},
        input="w\nq\nq\n",
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "Running 'cont' or 'step' will restart the program" in done.stdout
    assert f"trials/{trial}/model.py(6)__init__()\n-> super().__init__(); nowhere" in done.stdout


@pytest.mark.slow
def test_lab_eval_and_bench_end_in_two_lines_too(home, failing):
    trial = failing("nn.Linear(64", "nn.Linear(65")
    output = call(home, "lab", "bench", f"trial={trial}", *SHORT, rc=1)
    assert lines_of(output, "lab: ")[:2] == [
        "lab: LAB_DEBUG=1 shows the whole traceback of:",
        f"src/myproj/trials/{trial}/model.py:10: return self.layer(x.flatten(1))",
    ]
    assert "Traceback" not in output


@pytest.mark.parametrize("word", ["-m myproj.train", "src/myproj/train.py"])
def test_train_py_names_the_command(project, word):
    done = subprocess.run(
        [sys.executable, *word.split()],
        cwd=project,
        env=os.environ | {"PYTHONPATH": str(project / "src")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 2
    assert "lab train trial=" in done.stderr


class Broken(Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        raise ValueError("no such picture")


def error_of(function):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - of any kind
        function()
    return caught.value


def test_an_error_in_a_worker_process_has_its_own_line(module, monkeypatch):
    failure = module("failure")
    monkeypatch.setattr(failure, "is_own", lambda file: str(file) == __file__)
    error = error_of(lambda: list(DataLoader(Broken(), num_workers=1)))
    place, message = failure.describe(error).splitlines()
    assert place.endswith('raise ValueError("no such picture")')
    assert message == "ValueError: no such picture"


@pytest.mark.slow
def test_an_empty_data_set_has_a_reason(module):
    error = error_of(lambda: DataLoader([], shuffle=True))
    text = module("failure").describe(error)
    assert "num_samples=0" in text
    assert f"looked up in\n{os.getcwd()}" in text


def test_a_damaged_class_number_has_a_reason(module):
    scores = torch.zeros(1, 3)
    for label in (torch.tensor([5]), torch.tensor([-1])):
        error = error_of(partial(torch.nn.functional.cross_entropy, scores, label))
        assert "lab data info" in module("failure").describe(error)


@pytest.mark.release
@pytest.mark.slow
def test_a_last_batch_of_one_sample_has_a_reason(module):
    error = error_of(lambda: torch.nn.BatchNorm1d(2)(torch.zeros(1, 2)))
    assert "data.drop_last=true" in module("failure").describe(error)


def test_a_long_text_is_cut_and_lines_fit(module):
    text = module("failure").describe(ValueError("\n".join("abcdef")))
    assert text == "ValueError: a\nb\nc\n..."
    for error in (
        ValueError("num_samples=0"),
        IndexError("Target 5 is out of bounds."),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4 bytes"),
        RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"),
        MemoryError(),
        ValueError("Expected more than 1 value per channel when training, got input size [1, 2]"),
    ):
        advice = module("failure").advice_for(error)
        assert max(map(len, advice.splitlines())) <= max(80, len(os.getcwd()) + 60)


@pytest.mark.parametrize(
    ("text", "package"),
    [
        ("`Monitor` needs it. HINT: Try running `pip install -U 'psutill'` ", "psutill"),
        (
            "`Bar` requires `richh` >= 10.2.2. Install it by running `pip install -U richh`.",
            "richh",
        ),
        ('Missing: pip install --upgrade "timmm>=1"', "timmm"),
        ("Neither `a` nor `b` is available. Try `pip install`ing either.", "NAME"),
        ("gone", "NAME"),
    ],
)
def test_the_advice_names_the_package_of_a_message(module, text, package):
    """audit-2, defect 2: Lightning's errors have no name, and the advice ended with PACKAGE=."""
    advice = module("failure").advice_for(ModuleNotFoundError(text))
    assert advice.endswith(f": make add PACKAGE={package}")


def test_a_package_of_a_message_that_is_there_gets_no_advice(module):
    assert module("failure").advice_for(ModuleNotFoundError("old: pip install -U torch")) is None
