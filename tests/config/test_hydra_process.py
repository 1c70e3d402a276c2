"""Hydra's habits that need a process of their own: registered configs, two projects, several runs, completion."""

import subprocess
import sys
from pathlib import Path

import pytest
from hydra_tree import MODEL
from labrig.project import CONF
from programs import need
from projects import call, copy_project, environment_of

REGISTER = """
from dataclasses import dataclass

from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf


@dataclass
class Augment:
    p: float = 0.1
    flip: bool = True
    name: str = "weak"


ConfigStore.instance().store(group="augment", name="typed", node=Augment)
ConfigStore.instance().store(group="augment", name="plain", node={"p": 0.3})
OmegaConf.register_new_resolver("double", lambda value: 2 * value, replace=True)
"""


@pytest.fixture
def registered(own_project):
    """A project with conf/register.py, and a trial that uses what it registers."""
    package = own_project / "src/myproj"
    (package / "conf/register.py").write_text(REGISTER)
    (package / "trials/typed").mkdir()
    text = "defaults: [/augment: typed]\naugment: {p: 0.5}\nseed: '${double:21}'\n"
    (package / "trials/typed/config.yaml").write_text(text + MODEL)
    return own_project


@pytest.mark.release
@pytest.mark.slow
def test_structured_configs_and_resolvers(registered):
    def lab(*settings, rc=0):
        return call(registered, "lab", "config", "trial=typed", "--origin", *settings, rc=rc)

    said = lab("augment.flip=false")
    assert "seed=42  # src/myproj/trials/typed/config.yaml" in said
    assert "augment.p=0.5  # src/myproj/trials/typed/config.yaml" in said
    assert "augment.name=weak  # src/myproj/conf/register.py" in said
    assert "augment.flip=False  # command line" in said
    assert "did you mean: augment.flip" in lab("augment.flop=false", rc=2)
    assert "augment.p must be a number" in lab("augment.p=much", rc=2)
    assert "augment.p=0.3" in call(
        registered, "lab", "config", "trial=baseline", "+augment=plain", "--origin"
    )


TWO_PROJECTS = """
import sys
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra

nodes = ConfigStore.instance().repo
groups = set(nodes)
from labrig.config.compose import compose
from labrig.project import Project, enter
from pathlib import Path

here, there = (Project.find(Path(sys.argv[1]) / name) for name in ("myproj", "other"))
for _ in range(2):
    enter(here)
    assert compose(here, ["trial=typed"]).config.augment.p == 0.5
    enter(there)
    config = compose(there, ["trial=baseline"]).config
    assert config.package == "other" and config.model._target_ == "other.trials.baseline.model.CNN"
    assert compose(there, ["trial=baseline", "+augment=typed"]).config.augment == "typed"
    try:
        compose(there, ["trial=typed"])
    except Exception as error:
        print(type(error).__name__, error)
assert ConfigStore.instance().repo is nodes
assert set(nodes) - groups == set(), set(nodes) - groups
assert not GlobalHydra.instance().is_initialized()
assert not {"torch", "lightning"} & set(sys.modules)
"""


@pytest.mark.release
@pytest.mark.slow
def test_two_projects_in_one_process(registered, tmp_path):
    other = copy_project(tmp_path / "other")
    (other / "src/myproj").rename(other / "src/other")
    pyproject = other / "pyproject.toml"
    pyproject.write_text(pyproject.read_text().replace("myproj", "other"))
    said = call(registered, sys.executable, "-c", TWO_PROJECTS, tmp_path)
    assert said.count("LabError no trial 'typed'. Trials: baseline") == 2


@pytest.mark.release
@pytest.mark.slow
def test_completion_in_bash(own_project):
    home = own_project.parent / "data-home"
    call(own_project, "lab", "completion", "bash", XDG_DATA_HOME=str(home))
    script = home / "bash-completion/completions/lab"

    def complete(line):
        program = f"""
            . '{script}'
            COMP_LINE='{line}' COMP_POINT={len(line)} COMP_WORDS=(lab)
            _lab
            printf '%s\\n' "${{COMPREPLY[@]}}"
        """
        done = subprocess.run(
            ["bash", "-c", program],
            cwd=own_project,
            env=environment_of(own_project),
            capture_output=True,
            text=True,
        )
        return done.stdout.split()

    assert complete("lab train trial=ba") == ["baseline"]
    assert complete("lab train trial=baseline optimizer=ad") == ["adam", "adamw"]
    assert complete("lab train trial=baseline optimizer.l") == ["optimizer.lr="]
    assert complete("lab train trial=baseline sched") == ["schedule.", "schedule="]
    assert complete("lab train +model.wi") == ["+model.width="]
    assert complete("lab que") == ["queue"]
    assert complete("lab runs rep") == ["reproduce"]


# What a shell would do when somebody presses Tab
COMPLETE_IN_FISH = "source '{script}'; complete -C '{line}'"
COMPLETE_IN_ZSH = """
compdef() {{ }}
compadd() {{ shift 3; print -l -- "$@" }}
words=(lab) LBUFFER='{line}'
source '{script}'
_lab
"""


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.parametrize(
    ("shell", "options", "program"),
    [("zsh", ["-f"], COMPLETE_IN_ZSH), ("fish", ["--no-config"], COMPLETE_IN_FISH)],
)
def test_completion_of_other_shells(own_project, shell, options, program):
    homes = {"XDG_DATA_HOME": str(own_project.parent), "XDG_CONFIG_HOME": str(own_project.parent)}
    said = call(own_project, "lab", "completion", shell, **homes)
    script = said.splitlines()[0].removeprefix("wrote ")
    assert "completion query" in Path(script).read_text()
    need(shell)
    lines = {
        "lab train trial=ba": ["trial=baseline"],
        "lab que": ["queue"],
        "lab train +debug=": ["+debug=fast", "+debug=limit", "+debug=overfit"],
    }
    for line, expected in lines.items():
        text = program.format(script=script, line=line)
        assert call(own_project, shell, *options, "-c", text).split() == expected


def test_all_settings_of_the_library_are_printed_with_their_comments(project):
    text = call(project, "lab", "config", "--all")
    for line in (CONF / "lab.yaml").read_text().splitlines():
        assert line in text.splitlines()
    options = {
        f"{path.parent.name}={path.stem}"
        for path in CONF.glob("*/*.yaml")
        if path.parent.name != "site"
    }
    titles = {
        line.split()[-1].removeprefix("+")
        for line in text.splitlines()
        if line.startswith("# ----")
    }
    assert titles == options
