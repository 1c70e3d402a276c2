"""Scripts that run as they are: what they are given, what is recorded, and how they end."""

import argparse
import json
import signal
import sys
from pathlib import Path

import pytest
from labrig.training.start.script import fit_words, typed_texts, words_of
from projects import call, copy_project, equip
from trainings import add_trial, last, rows, start

OPTIONS = """
import argparse, json, sys, yaml
first = argparse.ArgumentParser(add_help=False)
first.add_argument("-c", "--config", default="")
p = argparse.ArgumentParser()
p.add_argument("-b", "--batch-size", type=int, default=128)
p.add_argument("--lr", type=float, default=None)
p.add_argument("--mixup", type=float, default=0.0)
p.add_argument("--milestones", type=int, nargs="+", default=[90, 180])
p.add_argument("--amp", action=argparse.BooleanOptionalAction, default=True)
p.add_argument("--pin", action="store_true", default=False)
p.add_argument("--on", action="store_true", default=True)
p.add_argument("--no-aug", action="store_false", dest="aug")
p.add_argument("--disable-tqdm", nargs="?", const=True, default=False, type=lambda x: x == "True")
p.add_argument("--add", action="append")
p.add_argument("--api-key", default="")
known, rest = first.parse_known_args()
if known.config:
    p.set_defaults(**yaml.safe_load(open(known.config)))
args = p.parse_args(rest)
print("had", json.dumps(vars(args)), flush=True)
"""
DRAWS = """
import random
import pickle, multiprocessing
from dataclasses import dataclass
import numpy
import torch
from helper import double
from labrig.program import log

@dataclass
class Point:
    x: float

def times(n):
    return 2 * n

if __name__ == "__main__":
    assert pickle.loads(pickle.dumps(Point(1.0))) == Point(1.0)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(times, [4]) == [8]
    order = [float(x) for x in {"1", "2", "3", "4", "5", "6", "7"}]
    values = [torch.rand(1).item(), numpy.random.rand(), random.random(), *order]
    log(1, {f"v{n}": double(x) for n, x in enumerate(values)} | {"epoch": 0.25})
"""
ENDS = """
import sys, time
from labrig.program import log
kind = sys.argv[1]
if kind == "none":
    sys.exit(None)
if kind == "three":
    sys.exit(3)
if kind == "text":
    sys.exit("no such thing")
if kind == "raise":
    raise ValueError("wrong by purpose")
if kind in ("log", "save"):
    for step in range(1, 600):
        if kind == "save":
            (log.checkpoints / "state.txt").write_text(str(step))
        log(step, {"x": step})
        time.sleep(0.1)
print("waiting", flush=True)
time.sleep(100)
"""
RANKS = """
import os
from labrig.program import log
import torch
from torch import distributed
distributed.init_process_group("gloo")
x = torch.ones(1)
distributed.all_reduce(x)
log(1, {"n": x.item()})
distributed.destroy_process_group()
"""
CLICK = """
import click
from labrig.program import log

@click.command()
@click.option("--lr", default=0.1, envvar="MYLR")
@click.option("--flag/--no-flag", default=True)
def main(lr, flag):
    log(1, {"lr": lr})

main()
"""
ENVIRONMENT = """
import argparse, os
from labrig.program import log
p = argparse.ArgumentParser()
p.add_argument("--lr", type=float, default=float(os.environ.get("MYLR", 0.1)))
p.add_argument("--model.width", default={3, 1, 2})
p.add_argument("--here", default=__file__)
p.add_argument("--out", default=os.path.abspath("out"))
p.add_argument("--bound", default=float("inf"))
p.add_argument("--seed", type=int, default=int(os.environ["LAB_SEED"]))
p.set_defaults(function=lambda: None)
log(1, {"lr": p.parse_args().lr})
"""
MODULE = """
import pickle
from labrig.program import log
from .helper import double

class Point:
    pass

assert isinstance(pickle.loads(pickle.dumps(Point())), Point)
assert __spec__.name == "myproj.trials.module.main"
log(1, {"x": double(2)})
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    folder = equip(copy_project(tmp_path_factory.mktemp("script") / "myproj"))
    add_trial(folder, "options", config_yaml="program: train.py\n")
    add_trial(folder, "draws", config_yaml="program: train.py\n")
    add_trial(folder, "ends", config_yaml="program: train.py\n")
    add_trial(folder, "ranks", config_yaml="program: train.py\n")
    add_trial(folder, "click", config_yaml="program: train.py\n")
    add_trial(folder, "environment", config_yaml="program: train.py\n")
    texts = {"options": OPTIONS, "draws": DRAWS, "ends": ENDS, "ranks": RANKS}
    for name, text in (texts | {"click": CLICK, "environment": ENVIRONMENT}).items():
        (folder / f"src/myproj/trials/{name}/train.py").write_text(text)
    add_trial(folder, "module", config_yaml="program: -m myproj.trials.module.main\n")
    (folder / "src/myproj/trials/module/main.py").write_text(MODULE)
    for name in ("draws", "module"):
        helper = folder / f"src/myproj/trials/{name}/helper.py"
        helper.write_text("def double(x):\n    return 2 * x\n")
    return folder


def had(said):
    (line,) = [line for line in said.splitlines() if line.startswith("had ")]
    return json.loads(line[4:])


def report(folder):
    return json.loads(Path(last(folder)["run_dir"], "attempts/1/program.json").read_text())


@pytest.mark.release
@pytest.mark.slow
def test_only_what_is_given_is_passed(own, tmp_path):
    config = tmp_path / "cfg.yaml"
    config.write_text("batch_size: 64\nlr: 0.05\nmixup: 0.2\n")
    options = own / "src/myproj/trials/options/train.py"
    said = call(own, "lab", "train", "trial=options", "--", "--config", config, "--mixup", "0.5")
    plain = call(own, sys.executable, options, "--config", config, "--mixup", "0.5")
    assert had(said) == had(plain)
    assert had(said)["batch_size"] == 64
    assert report(own)["argv"] == ["--config", str(config), "--mixup", "0.5"]
    assert last(own)["settings"]["argv"] == ["--config", str(config), "--mixup", "0.5"]
    parsed = report(own)["parsed"]
    assert parsed.pop("api_key") == "(not recorded)"
    assert parsed.items() <= (had(plain) | {"config": str(config)}).items()


@pytest.mark.release
@pytest.mark.slow
def test_an_option_is_written_as_its_kind_wants(own):
    given = (
        "args.milestones=[5,9]",
        "args.amp=false",
        "args.pin=true",
        "args.no-aug=true",
        "args.disable-tqdm=true",
        "args.add=[a,b c]",
        "args.b=32",
        "args.lr=1e-4",
    )
    values = had(call(own, "lab", "train", "trial=options", *given))
    expected = {"milestones": [5, 9], "amp": False, "pin": True, "aug": False, "lr": 1e-4}
    expected |= {"disable_tqdm": True, "add": ["a", "b c"], "batch_size": 32, "mixup": 0.0}
    assert {name: values[name] for name in expected} == expected
    assert last(own)["settings"]["args"]["milestones"] == [5, 9]
    said = call(own, "lab", "train", "trial=options", "args.on=false", rc=1)
    assert "--on is on without being given" in said
    assert last(own)["status"] == "failed"
    said = call(own, "lab", "train", "trial=options", "args.lr=1", "--", "--lr", "2", rc=2)
    assert "--lr is given twice" in said
    said = call(own, "lab", "train", "trial=options", "trainer.max_epochs=3", rc=2)
    assert "trainer.max_epochs has no effect on a script" in said


def fitted(parser, options, *typed):
    words = words_of(options, [], "--key=value")
    return vars(parser.parse_args(fit_words(parser, words, options, typed_texts(typed))))


@pytest.mark.parametrize("value", [True, False])
def test_false_is_false_where_argparse_makes_true_of_its_text(value):
    parser = argparse.ArgumentParser()
    parser.add_argument("--half", type=bool, default=not value)
    assert fitted(parser, {"half": value}) == {"half": value}


@pytest.mark.parametrize(
    ("text", "value"), [("1.50", 1.5), ("1e3", 1000.0), ("1_000", 1000), ("TRUE", True)]
)
def test_an_option_that_takes_a_text_gets_it_as_it_was_typed(capsys, text, value):
    parser = argparse.ArgumentParser()
    parser.add_argument("--tag")
    parser.add_argument("--size", type=float)
    assert fitted(parser, {"size": 1000.0}, "args.size=1e3") == {"tag": None, "size": 1000}
    with pytest.raises(SystemExit):
        fitted(parser, {"tag": value}, f"+args.tag={text}")
    assert f"Type: 'args.tag=\"{text}\"'" in capsys.readouterr().err
    assert fitted(parser, {"tag": text}, f'args.tag="{text}"')["tag"] == text


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.parametrize("trial", ["click", "environment"])
def test_what_is_parsed_of_the_environment_is_no_repetition(own, trial, monkeypatch):
    for seed, lr in enumerate(("0.7", "0.1", "0.1")):
        monkeypatch.setenv("MYLR", lr)
        call(own, "lab", "train", f"trial={trial}", f"seed={seed}")
        assert report(own)["parsed"]["lr"] == float(lr)
        assert "record and metrics are as recorded" in call(own, "lab", "runs", "verify", "@last")
    lines = call(own, "lab", "runs", "table", f"trial={trial}").splitlines()
    head, *lines = [line.split() for line in lines if not line.startswith("lab: ")]
    assert head == ["trial", "args.lr", "lr", "n"]
    assert [(line[1], line[-1]) for line in lines] == [("0.1", "2"), ("0.7", "1")]
    newest = last(own)["run_id"]
    runs = sorted(path.name for path in Path(last(own)["run_dir"]).parent.iterdir())
    assert "  lr: 0.7 -> 0.1\n" in call(own, "lab", "runs", "diff", runs[0], newest, rc=1)


@pytest.mark.release
@pytest.mark.slow
def test_words_that_args_cannot_write_are_typed(own):
    said = call(own, "lab", "train", "trial=click", "args.no-flag=true", rc=1)
    assert "it ended with exit code 2. Its options: lab train trial=click -- --help" in said
    assert "Words behind -- reach it as they are typed" in said
    call(own, "lab", "train", "trial=click", "--", "--no-flag")
    assert report(own)["parsed"]["flag"] is False


@pytest.mark.release
@pytest.mark.slow
def test_the_seed_seeds(own):
    seen = []
    for seed in (3, 3, 4):
        call(own, "lab", "train", "trial=draws", f"seed={seed}")
        (row,) = rows(last(own))
        seen.append([row[f"v{n}"] for n in range(10)])
        assert row["log/epoch"] == 0.25
    assert seen[0] == seen[1]
    assert all(a != b for a, b in zip(seen[0][:3], seen[2][:3], strict=True))
    attempt = json.loads(Path(last(own)["run_dir"], "attempts/1/start.json").read_text())
    assert attempt["code"]["complete"] is True
    assert "src/myproj/trials/draws/helper.py" in attempt["code"]["used"]
    assert "src/myproj/trials/draws/train.py" in attempt["code"]["used"]


@pytest.mark.release
@pytest.mark.slow
def test_a_module_runs_as_python_m_does(own):
    call(own, "lab", "train", "trial=module")
    assert last(own)["metrics"] == {"x": 4}
    attempt = json.loads(Path(last(own)["run_dir"], "attempts/1/start.json").read_text())
    used = {f"src/myproj/trials/module/{name}.py" for name in ("main", "helper")}
    assert used <= attempt["code"]["used"].keys()
    said = call(own, "lab", "train", "trial=module", "program=-m gone.main", rc=2)
    assert "there is no module gone.main" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "rc", "status", "words"),
    [
        ("none", 0, "finished", "finished"),
        ("three", 1, "failed", "exit code 3"),
        ("text", 1, "failed", "no such thing"),
        pytest.param(
            *("raise", 1, "failed", "ValueError: wrong by purpose"),
            marks=pytest.mark.traceback,
        ),
    ],
)
def test_how_it_ends_is_recorded(own, kind, rc, status, words):
    assert words in call(own, "lab", "train", "trial=ends", "--", kind, rc=rc)
    record = last(own)
    assert record["status"] == status
    if kind == "raise":
        trace = Path(record["run_dir"], "attempts/1/traceback.txt").read_text()
        assert 'raise ValueError("wrong by purpose")' in trace


@pytest.mark.slow
def test_a_wrong_option_is_failed_with_its_message(own):
    call(own, "lab", "train", "trial=options", "args.gone=1", rc=1)
    record = last(own)
    assert record["status"] == "failed"
    end = json.loads(Path(record["run_dir"], "attempts/1/end.json").read_text())
    line = end["exception"]["line"]
    assert "unrecognized arguments: --gone=1" in line
    assert line.endswith(". Its options: lab train trial=options -- --help")
    assert "--milestones" in call(own, "lab", "train", "trial=options", "--", "--help")


@pytest.mark.slow
def test_a_misspelt_option_is_answered_with_the_one_that_was_meant(own):
    said = call(own, "lab", "train", "trial=options", "args.lrr=0.5", rc=1)
    assert "unrecognized arguments: --lrr=0.5; did you mean: --lr. Its options: lab" in said
    assert "--no-flag" not in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "signum"),
    [
        ("wait", signal.SIGTERM),
        ("log", signal.SIGINT),
        ("save", signal.SIGINT),
        ("save", signal.SIGUSR2),
    ],
)
def test_a_signal_interrupts(own, kind, signum):
    until = "waiting" if kind == "wait" else "step 1"
    process, _ = start(own, "trial=ends", "--", kind, until=until)
    process.send_signal(signum)
    said, _ = process.communicate(timeout=120)
    record = last(own)
    assert record["status"] == "interrupted", said
    requeues = kind == "save" and signum != signal.SIGINT
    assert Path(record["run_dir"], "requeue").exists() is requeues
    assert process.returncode == (0 if requeues else 130), said


@pytest.mark.release
@pytest.mark.slow
def test_several_devices_are_several_processes(own):
    said = call(own, "lab", "train", "trial=ranks", "trainer.devices=2")
    assert "finished  n 2" in said
    assert last(own)["metrics"]["n"] == 2
    said = call(own, "lab", "train", "trial=ranks", "trainer.devices=[0,1]", rc=2)
    assert "trainer.devices=2" in said


@pytest.mark.slow
def test_it_is_checked(own):
    assert "ok  options" in call(own, "lab", "check", "trial=options")
    said = call(own, "lab", "check", "trial=options", "program=gone.py", rc=2)
    assert "no Python file of trials/options/ (there: __init__.py, train.py)" in said
    said = call(own, "lab", "check", "trial=options", "profile=cprofile", rc=2)
    assert "profile has no effect on a script" in said
