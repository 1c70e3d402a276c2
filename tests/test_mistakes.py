"""A mistake is answered with exit code 2, no traceback and the nearest valid thing, before torch is imported."""

import os
import subprocess
import sys

import pytest
from projects import call

WRAPPER = """
import sys
from labrig.cli import main
code = main(sys.argv[1:])
heavy = sorted({"torch", "lightning", "h5py"} & set(sys.modules))
print(f"HEAVY={heavy}")
sys.exit(code)
"""


def answer(project, *args, cwd=None):
    """Exit code, text and heavy modules of one lab command in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-c", WRAPPER, *args],
        cwd=cwd or project,
        env=os.environ | {"PYTHONPATH": str(project / "src")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    text = done.stdout + done.stderr
    assert "Traceback" not in text, text
    heavy = [line.removeprefix("HEAVY=") for line in text.splitlines() if line.startswith("HEAVY=")]
    return done.returncode, text, heavy[0] if heavy else "[]"


TYPED = {
    "trial=baseline trainer.max_epoch=3": "trainer.max_epochs",
    "trial=baseline optimizer.lrr=1": "did you mean: lr",
    "trial=baseline +trainer.max_epoch=3": "trainer.max_epochs",
    "trial=baseline model.widht=8": "did you mean: width",
    "trial=baseline epochs=3": "did you mean: trainer.max_epochs.",
    "trial=baseline batch_size=3": "did you mean: data.batch_size",
    "trial=baseline lr=3": "did you mean: optimizer.lr",
    "trial=baseline seeed=1": "did you mean: seed",
    "": "no trial named; add trial=NAME. Trials: baseline",
    "trail=baseline": "no trial named, but 'trail'; add trial=NAME. Trials: baseline",
    "trial=baselin": "did you mean: baseline",
    "trial=baseline/lowlr": "no variant 'lowlr'",
    "trial=baseline optimizer=adamm": "lab: Could not find 'optimizer/adamm'; did you mean: adam",
    "trial=baseline trainer=gpuu": "did you mean: gpu",
    "trial=baseline trainer.max_epochs=abc": "a whole number of passes",
    "trial=baseline optimizer.lr=fast": "must be a number",
    "trial=baseline log.progress.bar=1": "unknown setting",
    "trial=baseline trainer=3 optimizer": "not a setting",
    "experiment=baseline": "did you mean: trial=baseline",
    "trial=baseline seed=0,1": "lab train ... seed=0,1 -m",
    "trial = baseline": "key=value without spaces",
    'trial=baseline notify.command.run=say"it"': 'own: \'notify.command.run="say\\"it\\""\'',
    "trial=baseline log.derived={ppl:exp(loss)}": "such as 'log.derived={name: \"f(x)\"}'",
    "trial=baseline -m seed=0,1 model.widht=8": "did you mean: width",
    "trial=baseline --cfg job seed=1": "lab config trial=baseline seed=1",
    "trial=baseline --info defaults": "lab config trial=baseline --defaults",
    "trial=baseline +seeed=1": "did you mean: seed",
    "trial=baseline ~optimizer.lrr": "did you mean: optimizer.lr",
    "trial=baseline model.depth={_target_: torch.nn.Linear": "not a setting",
    "trial=baseline model=resnet": "_target_",
    "baseline": "Did you mean: trial=baseline",
    "trial=baseline --lr 0.1": "Settings are written without dashes: optimizer.lr=0.1",
    "trial=baseline --max-epochs=3": "without dashes: trainer.max_epochs=3",
    "--trial baseline": "Settings are written without dashes: trial=baseline",
    "--trial=baseline seed=1": "Settings are written without dashes: trial=baseline",
    "trial=baseline --optimizer sgd": "without dashes: optimizer=sgd",
    "trial=baseline --wy": "did you mean: --why",
    "trial=baseline -why": "lab: there is no -why; did you mean: --why. See: lab train --help",
    "trial=baseline -x": "lab: there is no -x. See: lab train --help",
    "trial=baseline optimizer.learning_rate=1": "did you mean: lr",
    "trial=baseline trainer.epochs=1": "did you mean: trainer.max_epochs",
    "trial=baseline lr=1e-3": "did you mean: optimizer.lr",
    "trial=baseline logger.wandb.project=x": "It comes with logger=wandb",
    "trial=baseline +logger.wandb.project=x": "It comes with logger=wandb",
    "trial=baseline logger=tensorboard logger.wandb.project=x": "It comes with logger=wandb",
    "trial=baseline schedule=constant schedule.warmup_steps=3": "It comes with schedule=cosine",
}


@pytest.mark.slow
@pytest.mark.parametrize("typed", TYPED)
def test_a_mistake_on_the_command_line(project, typed):
    args = typed.split(" ") if "{" not in typed else typed.split(" ", 1)
    code, text, heavy = answer(project, "train", *[word for word in args if word])
    assert code == 2
    assert TYPED[typed] in text
    assert heavy == "[]"
    assert not (project / "runs").exists(), "a mistake leaves no run behind"


IN_A_TRIAL = {
    "trainer:\n  max_epoch: 3\n": "trainer.max_epochs",
    "model:\n  _target_: .model.CNN\n  widht: 3\n": "did you mean: width",
    "model:\n  _target_: .model.CMN\n": "did you mean: CNN",
    "model:\n  _target_: .modle.CNN\n": "modle",
    "model:\n  width: 3\n": "needs a `_target_`",
    "optimizer: sgd\n": "defaults:\n  - override /optimizer: sgd",
    "schedule: constant\n": "defaults:\n  - override /schedule: constant",
    "model: CNN\n": "must hold `_target_",
    "seed: [\n": "not valid YAML",
    "seed: one\n": "must be a whole number",
    "seed: 1\nseed: 2\n": "duplicate",
    "- seed\n": "must hold `key: value` lines",
    "site:\n  paths:\n    rums: x\n": "site.paths.runs",
    "logger:\n  wandb:\n    project: x\n": "It comes with logger=wandb",
    "defaults:\n  - override /schedule: constant\nschedule:\n  warmup_steps: 3\n": "It comes with schedule=cosine",
    "defaults:\n  - optimiser: sgd\n": "- override /optimizer: sgd",
    "defaults:\n  - optimizer: sgd\n": "- override /optimizer: sgd",
    "defaults:\n  - override /optimiser: sgd\n": "did you mean: optimizer",
    "defaults:\n  - override /optimizer: sgdd\n": "did you mean: sgd",
    "defaults:\n  - /optimiser: sgd\n": "did you mean: optimizer",
    "model:\n  _target_: myproj.trials.baseline.model.CNN\n": "another trial",
    "task:\n  _target_: nowhere.Task\n": "no module 'nowhere'",
    "seed: ${sed}\n": "seed: Interpolation key 'sed' not found",
}


@pytest.mark.parametrize("config", IN_A_TRIAL)
@pytest.mark.slow
def test_a_mistake_in_a_trial(own_project, config):
    folder = own_project / "src/myproj/trials"
    (folder / "wrong").mkdir()
    (folder / "wrong/model.py").write_text((folder / "baseline/model.py").read_text())
    (folder / "wrong/config.yaml").write_text(
        config
        if "model:" in config or config[0] == "-"
        else f"{config}model: {{_target_: .model.CNN}}\n"
    )
    code, text, heavy = answer(own_project, "train", "trial=wrong")
    assert code == 2
    assert IN_A_TRIAL[config] in text
    assert heavy == "[]"
    assert answer(own_project, "config", "trial=baseline")[0] == 0, "a broken trial breaks no other"


IN_OTHER_FILES = {
    "conf/config.yaml": {
        "trainer:\n  max_epoch: 3\n": "trainer.max_epochs",
        "trainer:\n  epochs: 3\n": "unknown setting 'trainer.epochs'",
        "optimizer: sgd\n": "defaults:\n  - optimizer: sgd",
        "seeed: 3\n": "did you mean: seed",
        "trianer:\n  max_epochs: 3\n": "did you mean: trainer",
        "seed: one\n": "must be a whole number",
        "task:\n  _target_: ${package}.task.Classifer\n": "did you mean: Classifier",
        "task:\n  _target_: ${package}.task.Classifier\n  optimiser: null\n": "did you mean: optimizer",
    },
    "conf/optimizer/adamw.yaml": {
        "defaults:\n  - bases\n": "optimizer/bases",
        "lr: [\n": "optimizer/adamw.yaml, line 2",
    },
    "conf/trainer/auto.yaml": {
        "max_epoch: 3\n": "did you mean: trainer.max_epochs",
        "max_epochs: many\n": "a whole number of passes",
    },
}
OTHER_CASES = [(file, text) for file, texts in IN_OTHER_FILES.items() for text in texts]


@pytest.mark.parametrize(("file", "text"), OTHER_CASES)
def test_a_mistake_in_a_file_of_the_configuration(own_project, file, text):
    path = own_project / "src/myproj" / file
    path.parent.mkdir(exist_ok=True)
    before = path.read_text().split("task:")[0] if path.exists() else ""
    path.write_text(before + text)
    code, answered, heavy = answer(own_project, "train", "trial=baseline")
    assert code == 2
    assert IN_OTHER_FILES[file][text] in answered
    assert f"src/myproj/{file}" in answered
    assert heavy == "[]"


@pytest.mark.release
@pytest.mark.slow
def test_an_argument_of_a_class_of_others_is_met_when_it_is_built(home):
    said = call(home, "lab", "check", "trial=baseline", "+optimizer.lrr=3", rc=2)
    assert "AdamW: TypeError: got an unexpected keyword argument 'lrr'; did you mean: lr" in said


COMMANDS = {
    ("trian",): "did you mean: train",
    ("runs", "lst"): "did you mean: list",
    ("runs", "show", "2020"): "no runs",
    ("resume", "@last"): "no runs",
    ("resume",): "name the run first",
    ("resume", "trainer.max_epochs=3"): "name the run first",
    ("runs", "list", "since=lastweek"): "12h, 7d or 2w",
    ("eval", "2020"): "no runs",
    ("eval",): "name the run first",
    ("trials", "new", "Wide"): "lower-case",
    ("trials", "new", "wide", "--from", "baselin"): "did you mean: baseline",
    ("data", "pack", "digit"): "did you mean: digits",
    (
        "submit",
        "trial=baseline",
        "site=slurm",
        "job.gpus=4",
        "batch.global=100",
    ): "times 4 processes; take one of 256, 512, 768",
}


@pytest.mark.parametrize("words", COMMANDS)
def test_a_mistake_in_a_command(project, words):
    code, text, heavy = answer(project, *words)
    assert code == 2
    assert COMMANDS[words] in text
    assert heavy == "[]"


@pytest.mark.parametrize("command", ["resume", "eval"])
def test_the_usage_names_the_run(project, command):
    code, text, heavy = answer(project, command, "--help")
    assert code == 0
    assert " RUN [key=value ...]" in text
    assert heavy == "[]"


def test_outside_of_projects(project, tmp_path):
    code, text, *_ = answer(project, "runs", "list", cwd=tmp_path)
    assert code == 2
    assert "cd into a project" in text
    assert answer(project, "--help", cwd=tmp_path)[0] == 0
    assert answer(project, "docs", "record", cwd=tmp_path)[0] == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.labrig]\n", "must name the directory in src/ with the project's code"),
        ('[tool.labrig]\npackage = "gone"\n', "it says package = 'gone'"),
        ("[tool.labrig]\npackage = \n", "pyproject.toml is not valid TOML: "),
        ("[tool.labrig]\n<<<<<<< before\npackage = 1\n", "holds two versions of some lines"),
    ],
)
def test_a_project_that_does_not_say_what_it_is(project, tmp_path, text, message):
    (tmp_path / "pyproject.toml").write_text(text)
    code, said, *_ = answer(project, "runs", "list", cwd=tmp_path)
    assert code == 2
    assert message in said


@pytest.mark.slow
def test_the_lab_of_another_environment_or_version_says_so(project, own_project, tmp_path):
    assert "this is the lab of" not in call(own_project, "lab", "runs", "list")
    (own_project / ".venv").unlink()
    (own_project / ".venv").mkdir()
    said = call(own_project, "lab", "runs", "list")
    assert f"the project has its own: {own_project}/.venv/bin/lab" in said
    file = own_project / "pyproject.toml"
    file.write_text(file.read_text().replace('template = "0.1.0"', 'template = "0.9.2"'))
    assert "but the project is of 0.9.2. Type: make setup" in call(
        own_project, "lab", "runs", "list"
    )


@pytest.mark.parametrize(
    "command", [["--help"], ["runs", "list"], ["trials", "tree"], ["runs", "list", "--json"]]
)
def test_commands_that_only_read_import_nothing_heavy(project, command):
    code = (
        "import sys\nfrom labrig.cli import main\nmain(sys.argv[1:])\n"
        "slow = {'torch', 'lightning', 'hydra', 'omegaconf', 'numpy', 'h5py'}\n"
        "print(sorted(slow & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command],
        cwd=project,
        env=os.environ | {"PYTHONPATH": str(project / "src")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr.strip() == "[]"
