"""Scripts of others run as they are: with the losses, weights and settings that they have when they are run alone."""

import contextlib
import io
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from foreign import own_modules
from projects import call, copy_project, equip
from repositories import git
from trainings import last, rows, start

HERE = Path(__file__).parent
SCRIPTS = HERE / "scripts"
PROGRAMS = HERE / "programs"
PAGE = (Path(__file__).parents[2] / "docs/from-loop.md").read_text(encoding="utf-8")
ITERATION = re.compile(r"^iter (\d+): loss (\S+)$", re.MULTILINE)
LOSS = re.compile(r"^loss (.+)$", re.MULTILINE)
HAD = re.compile(r"^had (.+)$", re.MULTILINE)
HF = {
    **{"use_cpu": True, "max_steps": 14, "logging_steps": 1, "report_to": "none"},
    **{
        "per_device_train_batch_size": 8,
        "learning_rate": 0.01,
        "disable_tqdm": True,
        "dropout": 0.3,
    },
    **{"eval_strategy": "steps", "eval_steps": 5, "save_strategy": "no"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A project that has adopted all of them."""
    folder = equip(copy_project(tmp_path_factory.mktemp("scripts") / "myproj"))
    for script in sorted(PROGRAMS.glob("*.py")):
        call(folder, "lab", "adopt", script)
    return folder


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
    assert script.read_bytes() == (loop / "train.py").read_bytes()
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


def in_this_process(script, monkeypatch, *arguments):
    """What a script prints and leaves in its globals when it is run in its own directory."""
    monkeypatch.chdir(script.parent)
    monkeypatch.setattr(sys, "argv", [script.name, *arguments])
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), own_modules(script.parent, "model"):
        left = runpy.run_path(str(script), run_name="__main__")
    return printed.getvalue(), left


def alone(folder, *words):
    """What `python WORDS` prints in an empty directory."""
    folder.mkdir()
    command = [sys.executable, *map(str, words)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def trained(folder, *words, **variables):
    """What `lab train` prints, and the record of its run."""
    said = call(folder, "lab", "train", *words, cold=bool(variables), **variables)
    return said, last(folder)


def report(record):
    return json.loads(Path(record["run_dir"], "attempts/1/program.json").read_text())


def values_of(record):
    return [(row["step"], row["loss"]) for row in rows(record) if "loss" in row]


@pytest.mark.slow
def test_a_loop_has_the_losses_that_it_has_alone(folder, loop, letters, monkeypatch):
    plain, left = in_this_process(loop / "train.py", monkeypatch, "--max_iters=22", "--dropout=0.2")
    said, record = trained(folder, "trial=letters", "args.max_iters=22", "args.dropout=0.2")
    assert ITERATION.findall(said) == ITERATION.findall(plain)
    assert len(ITERATION.findall(plain)) == 23
    assert record["status"] == "finished"
    assert record["metrics"]["loss"] == left["loss"].item()
    kept = torch.load(Path(record["run_dir"], "out/ckpt.pt"), weights_only=True)
    there = torch.load(loop / "out/ckpt.pt", weights_only=True)
    assert kept["iter_num"] == there["iter_num"] == 20
    assert all(torch.equal(kept["model"][name], one) for name, one in there["model"].items())
    assert record["settings"]["args"] == {"max_iters": 22, "dropout": 0.2}


def test_what_is_left_to_decide_is_named(letters):
    by_hand = letters.partition("to decide by hand:")[2]
    assert "a curve, and a run that can be resumed: from labrig.program import log" in by_hand
    assert "not copied from next to train.py: configurator.py, data. The script works in" in by_hand


@pytest.mark.release
@pytest.mark.slow
def test_a_loop_that_saves_its_state_continues(folder, letters):
    settings = ("trial=letters", "args.max_iters=300", "args.eval_interval=1000")
    _, record = trained(folder, *settings)
    whole = values_of(record)
    process, _ = start(folder, *settings, until="iter 20:")
    process.terminate()
    process.communicate(timeout=120)
    stopped = last(folder)
    assert stopped["status"] == "interrupted"
    assert len(rows(stopped)) < len(whole) == 301
    call(folder, "lab", "resume", "@last")
    assert values_of(last(folder)) == whole


@pytest.mark.release
@pytest.mark.slow
def test_the_trainer_of_hugging_face(folder, tmp_path):
    """As alone; stopped in the middle of an epoch and resumed it has the same rows and weights."""
    words = [word for name, value in HF.items() for word in (f"--{name}", str(value))]
    plain = alone(tmp_path / "alone", PROGRAMS / "hf.py", *words)
    settings = ["trial=hf", *(f"args.{name}={value}" for name, value in HF.items())]
    said, whole = trained(folder, *settings)
    assert "lr 0.01 tqdm off True" in said
    line = next(line for line in plain.splitlines() if line.startswith("history"))
    assert line in said
    weights = Path(whole["run_dir"], "weights.pt")
    plain_weights = torch.load(tmp_path / "alone/weights.pt")
    assert all(torch.equal(one, plain_weights[name]) for name, one in torch.load(weights).items())
    history = json.loads(line.removeprefix("history "))
    assert values_of(whole) == [(row["step"], row["loss"]) for row in history if "loss" in row]
    epochs = [row["log/epoch"] for row in rows(whole) if "loss" in row]
    assert epochs == [row["epoch"] for row in history if "loss" in row]
    assert report(whole)["parsed"]["learning_rate"] == 0.01

    call(folder, "lab", "train", *settings, rc=130, cold=True, LAB_STOP_STEP="10")
    assert last(folder)["status"] == "interrupted"
    call(folder, "lab", "resume", "@last")
    resumed = last(folder)
    assert resumed["status"] == "finished"
    assert values_of(resumed) == values_of(whole)
    again = torch.load(Path(resumed["run_dir"], "weights.pt"))
    assert all(torch.equal(one, plain_weights[name]) for name, one in again.items())


@pytest.mark.release
@pytest.mark.slow
def test_a_loop_with_accelerate_on_two_processes(folder, tmp_path):
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    plain = alone(tmp_path / "two", *launcher, PROGRAMS / "accelerated.py", "--lr", "0.05")
    said, record = trained(folder, "trial=accelerated", "trainer.devices=2", "args.lr=0.05")
    assert "processes 2" in said
    assert LOSS.findall(said) == LOSS.findall(plain)
    assert [f"{step} {loss!r}" for step, loss in values_of(record)] == LOSS.findall(plain)
    assert len(values_of(record)) == 3 * 6
    assert record["settings"]["trainer"]["devices"] == 2


@pytest.mark.release
@pytest.mark.slow
def test_a_loop_with_accelerate_continues_in_mid_epoch(folder):
    _, whole = trained(folder, "trial=accelerated", "args.epochs=2")
    settings = ("trial=accelerated", "args.epochs=2")
    call(folder, "lab", "train", *settings, rc=130, cold=True, LAB_STOP_STEP="17")
    call(folder, "lab", "resume", "@last")
    assert values_of(last(folder)) == values_of(whole)
    assert len(values_of(whole)) == 24


@pytest.mark.release
@pytest.mark.slow
def test_timm_has_the_settings_that_it_parses_itself(folder, tmp_path):
    """A YAML file by set_defaults, lists, switches; by the words as they are, and by `args`."""
    config = tmp_path / "rsb.yaml"
    config.write_text("batch_size: 16\nepochs: 3\nmixup: 0.2\nlr: 0.05\ndecay_milestones: [2]\n")
    words = ("--config", config, "--no-amp", "--mean", "0.5", "0.25", "--model-kwargs", "p=0.3")
    plain = alone(tmp_path / "alone", PROGRAMS / "timm_train.py", *words)
    said, record = trained(folder, "trial=timm_train", "--", *words)
    assert LOSS.findall(said) == LOSS.findall(plain)
    assert len(LOSS.findall(plain)) == 3 * 4
    had = json.loads(HAD.findall(plain)[0])
    assert (had["batch_size"], had["amp"], had["aug"]) == (16, False, True)
    assert report(record)["parsed"] == had | {"config": str(config)}
    shown = call(folder, "lab", "runs", "show", "@last")
    assert f"argv        --config {config} --no-amp --mean 0.5 0.25 --model-kwargs p=0.3\n" in shown
    assert "parsed      " in shown
    assert "batch_size=16" in shown
    args = (f"args.config={config}", "args.amp=false", "args.mean=[0.5,0.25]")
    said, record = trained(folder, "trial=timm_train", *args, "args.model-kwargs=['p=0.3']")
    assert LOSS.findall(said) == LOSS.findall(plain)
    assert json.loads(HAD.findall(said)[0]) == had
    assert {"--no-amp", "--model-kwargs", "p=0.3"} <= set(report(record)["argv"])


@pytest.mark.release
@pytest.mark.slow
def test_lightning_cli_reads_its_own_settings(folder, tmp_path):
    config = tmp_path / "cli.yaml"
    act = "{class_path: torch.nn.LeakyReLU, init_args: {negative_slope: 0.3}}"
    config.write_text(
        f"fit:\n  trainer: {{max_epochs: 3}}\n  data: {{batch_size: 16}}\n  model: {{act: {act}}}\n"
    )
    plain = alone(
        tmp_path / "alone",
        *(PROGRAMS / "cli.py", "--config", config, "fit", "--model.width", "12"),
    )
    words = ("--config", config, "fit", "--model.width", "12")
    said, record = trained(folder, "trial=cli", "--", *words)
    assert LOSS.findall(said) == LOSS.findall(plain) != []
    assert HAD.findall(said) == HAD.findall(plain)
    assert "epochs 3 seed 1234" in said
    parsed = report(record)["parsed"]["fit"]
    assert parsed["seed_everything"] == 1234
    assert parsed["trainer"]["gradient_clip_val"] == 0.1
    slope = parsed["model"].pop("act")["init_args"]["negative_slope"]
    assert slope == 0.3
    assert parsed["model"] == {"lr": 0.05, "width": 12, "batch": 16}
    settings = ("argv=[fit]", "args.trainer.max_epochs=1", f"args.model.act={act}")
    said, record = trained(folder, "trial=cli", *settings)
    assert "epochs 1 seed 1234" in said
    assert report(record)["parsed"]["fit"]["model"]["act"]["init_args"]["negative_slope"] == 0.3


@pytest.mark.release
@pytest.mark.slow
def test_hydra_zen_finds_itself_in_main(folder, tmp_path):
    plain = alone(tmp_path / "alone", PROGRAMS / "zen_main.py", "lr=0.5", "words=[b,c d]")
    settings = ("args.lr=0.5", "args.words=[b,c d]", "args.point.label=two words")
    said, record = trained(folder, "trial=zen_main", *settings)
    assert HAD.findall(plain) == ["0.5 ['b', 'c d'] 1.0 none"]
    assert HAD.findall(said) == ["0.5 ['b', 'c d'] 1.0 two words"]
    assert Path(record["run_dir"], "x.pt").exists() or list(Path(record["run_dir"]).rglob("x.pt"))


@pytest.mark.release
@pytest.mark.slow
def test_a_gan_without_a_seed_gets_the_runs(folder, tmp_path):
    seeded = tmp_path / "seeded.py"
    seeded.write_text(
        "import random, runpy, sys, numpy, torch\nrandom.seed(5), numpy.random.seed(5), torch.manual_seed(5)\n"
        "sys.argv = sys.argv[1:]\nrunpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    plain = alone(tmp_path / "alone", seeded, PROGRAMS / "wgan_gp.py", "--n_critic", "2")
    said, record = trained(folder, "trial=wgan_gp", "args.n_critic=2", "seed=5")
    assert LOSS.findall(said) == LOSS.findall(plain) != []
    assert report(record)["parsed"] == {"n_epochs": 3, "n_critic": 2, "b1": 0.5}
    again, _ = trained(folder, "trial=wgan_gp", "args.n_critic=2", "seed=6")
    assert LOSS.findall(again) != LOSS.findall(said)


@pytest.mark.release
def test_a_sweep_varies_the_options(folder):
    words = ("trial=accelerated", "args.epochs=1", "args.lr=0.05,0.1", "sweep.metric=loss")
    call(folder, "lab", "sweep", *words, "sweep.workers=1")
    records = [json.loads(file.read_text()) for file in folder.glob("runs/accelerated/*/run.json")]
    assert {0.05, 0.1} <= {record["settings"]["args"].get("lr") for record in records}


def test_nothing_else_was_changed(folder, letters):
    assert git(folder, "diff", "--name-only") == ""
    git(folder, "add", "-A")
    assert "ruff" not in call(folder, "lab", "hooks"), "the code of others keeps its style"
