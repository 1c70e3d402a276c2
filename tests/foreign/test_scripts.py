"""Scripts of others: adopted by one command, with the losses and weights that they have when they are run alone."""

import contextlib
import io
import re
import runpy
import sys
from pathlib import Path

import pytest
import torch
from foreign import own_modules
from projects import call, copy_project, equip
from repositories import git
from trainings import last, rows, start

SCRIPTS = Path(__file__).parent / "scripts"
PAGE = (Path(__file__).parents[2] / "docs/from-loop.md").read_text(encoding="utf-8")
ITERATION = re.compile(r"^iter (\d+): loss (\S+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A project that adopts all of them."""
    return equip(copy_project(tmp_path_factory.mktemp("scripts") / "myproj"))


@pytest.fixture(scope="module")
def loop(tmp_path_factory):
    """The directory of the loop, with its data."""
    place = tmp_path_factory.mktemp("loop")
    for file in (SCRIPTS / "loop").glob("*.py"):
        (place / file.name).write_bytes(file.read_bytes())
    runpy.run_path(str(SCRIPTS / "prepare.py"))["write_letters"](place)
    return place


@pytest.fixture(scope="module")
def letters(folder, loop):
    """The trial of the loop, after what the command asks for was done by hand; and what it said."""
    said = call(folder, "lab", "adopt", loop / "train.py", "--as", "letters")
    script = folder / "src/myproj/trials/letters/train.py"
    assert script.read_text() == (loop / "train.py").read_text().replace(
        "from model import", "from .model import"
    )
    text = script.read_text()
    text = text.replace("open('configurator.py')", f"open('{loop}/configurator.py')")
    text = text.replace("join('data', dataset)", f"join('{loop}/data', dataset)")
    begin, save = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    text = text.replace("while True:", f"{begin}while True:")
    text = text.replace("    iter_num += 1\n", f"    iter_num += 1\n{indented(save)}")
    script.write_text(text)
    return said


def indented(block):
    return "".join(f"    {line}" for line in block.splitlines(keepends=True))


def alone(script, monkeypatch, *arguments):
    """What a script prints and leaves in its globals when it is run in its own directory."""
    monkeypatch.chdir(script.parent)
    monkeypatch.setattr(sys, "argv", [script.name, *arguments])
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), own_modules(script.parent, "model"):
        left = runpy.run_path(str(script), run_name="__main__")
    return printed.getvalue(), left


@pytest.mark.slow
def test_a_loop_has_the_losses_that_it_has_alone(folder, loop, letters, monkeypatch):
    plain, left = alone(loop / "train.py", monkeypatch, "--max_iters=22", "--dropout=0.2")
    said = call(
        folder, "lab", "train", "trial=letters", "+program.max_iters=22", "+program.dropout=0.2"
    )
    assert ITERATION.findall(said) == ITERATION.findall(plain)
    assert len(ITERATION.findall(plain)) == 23
    record = last(folder)
    assert record["status"] == "finished"
    assert record["metrics"]["loss"] == left["loss"].item()
    kept = torch.load(Path(record["run_dir"], "out/ckpt.pt"), weights_only=True)
    there = torch.load(loop / "out/ckpt.pt", weights_only=True)
    assert kept["iter_num"] == there["iter_num"] == 20
    assert all(torch.equal(kept["model"][name], one) for name, one in there["model"].items())
    assert record["settings"]["program"] == {"max_iters": 22, "dropout": 0.2}


def test_what_is_left_to_decide_is_named(letters):
    by_hand = letters.partition("to decide by hand:")[2]
    number = (SCRIPTS / "loop/train.py").read_text().splitlines().index("    optimizer.step()") + 1
    assert f"train.py:{number} is the step of the loop" in by_hand
    assert "names configurator.py, which lies next to the script" in by_hand
    assert "names data, which lies next to the script" in by_hand
    assert "a resumed run calls the script again" in by_hand
    assert "--epochs=2 of train.py is +program.epochs=2" in letters


@pytest.mark.slow
def test_a_loop_that_saves_its_state_continues(folder, letters):
    settings = ("trial=letters", "+program.max_iters=300", "+program.eval_interval=1000")
    call(folder, "lab", "train", *settings)
    whole = [(row["step"], row["loss"]) for row in rows(last(folder))]
    process, _ = start(folder, *settings, until="iter 20:")
    process.terminate()
    process.communicate(timeout=120)
    stopped = last(folder)
    assert stopped["status"] == "interrupted"
    assert len(rows(stopped)) < len(whole) == 301
    call(folder, "lab", "resume", "@last")
    assert [(row["step"], row["loss"]) for row in rows(last(folder))] == whole


@pytest.mark.slow
def test_a_script_for_lightning_has_the_weights_that_it_has_alone(folder, tmp_path, monkeypatch):
    script = SCRIPTS / "lightning_script.py"
    said = call(folder, "lab", "adopt", script, "--as", "waves")
    assert "nothing is left to decide by hand" in said
    assert (folder / "src/myproj/waves/lightning_script.py").read_bytes() == script.read_bytes()
    call(folder, "lab", "train", "trial=waves", "trainer.threads=1")
    record = last(folder)
    torch.set_num_threads(1)
    monkeypatch.chdir(tmp_path)  # it writes into the directory in which it runs
    trainer, model = runpy.run_path(str(script))["main"]()
    saved = torch.load(Path(record["run_dir"], "checkpoints/last.ckpt"), weights_only=True)
    weights = model.state_dict()
    assert all(torch.equal(saved["state_dict"][name], one) for name, one in weights.items())
    assert record["metrics"]["val_loss"] == trainer.callback_metrics["val_loss"].item()
    assert record["settings"]["callbacks"]["early_stopping"]["patience"] == 4


def test_nothing_else_was_changed(folder, letters):
    assert git(folder, "diff", "--name-only") == "pyproject.toml"
    assert '"src/myproj/trials/letters"' in (folder / "pyproject.toml").read_text()
