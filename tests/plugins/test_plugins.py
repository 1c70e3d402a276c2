"""What packages add to labrig by entry points, and how mistakes in them are told."""

import json
import os
import re
import shutil

import pytest
from labrig.project import CONF
from labrig.version import __version__
from projects import ROOT, call, copy_project, equip

MODULE = '''
import lightning.pytorch as L
import numpy as np

from labrig.cluster.schedulers.scheduler import ListedJob, Scheduler


class First(L.Callback):
    before = "profiler"

    def __init__(self, config):
        self.seed = config.seed


def last(config):
    return L.Callback()


last.after = "checkpoints"


def nowhere(config):
    return L.Callback()


nowhere.after = "chekpoints"


def nothing(config):
    return None


def wrong(config):
    return 3


def read_dots(path):
    """One sample for each line of numbers."""
    for number, line in enumerate(path.read_text().splitlines()):
        yield {"x": np.array(line.split(), dtype=np.float32), "y": number % 2}


class Toy(Scheduler):
    name = "toy"
    submit_command = ("toysub",)
    options = ("-name {name}", "-t {time}")
    log = "-o {run_dir}/job.log"
    prefix = "#TOY "
    job_id = "$TOY_JOB"
    host_variable = "TOY_HOSTS"
    list_command = ("toystat",)
    waiting = "Q"

    def read_jobs(self, answer):
        for line in answer.splitlines():
            job_id, state = line.split()
            yield ListedJob(job_id, state, "waits its turn", "")
'''
ENTRY_POINTS = {
    "callbacks": "first = added:First",
    "packers": "dots = added:read_dots",
    "schedulers": "toy = added:Toy",
}


@pytest.fixture
def installed(tmp_path):
    """Installs a package with entry points, as pip leaves it; returns the variables of a command."""

    def install(**entry_points):
        info = tmp_path / "installed/added-2.1.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: added\nVersion: 2.1\n")
        text = "".join(f"[labrig.{group}]\n{lines}\n" for group, lines in entry_points.items())
        (info / "entry_points.txt").write_text(text)
        (info.parent / "added.py").write_text(MODULE)
        path = os.pathsep.join(filter(None, [str(info.parent), os.environ.get("PYTHONPATH", "")]))
        return {"PYTHONPATH": path}

    return install


@pytest.fixture
def own(tmp_path):
    return equip(copy_project(tmp_path / "myproj"))


ORDER = """
import sys
from types import SimpleNamespace
from pathlib import Path
from labrig.config.compose import compose
from labrig.project import Project, enter
from labrig.training.parts.callbacks import fit_callbacks
from labrig.training.parts.settings import resolve_auto
project = Project.find()
enter(project)
config = resolve_auto(compose(project, ["trial=baseline", *sys.argv[1:]]).config, first_attempt={})
run = SimpleNamespace(dir=Path("x"), checkpoints=Path("x/checkpoints"), record={})
print([type(callback).__name__ for callback in fit_callbacks(config, run, 1)])
"""


@pytest.mark.release
@pytest.mark.slow
def test_a_callback_stands_where_it_says(own, installed):
    variables = installed(
        callbacks="first = added:First\nlast = added:last\nnothing = added:nothing"
    )
    names = call(own, "python", "-c", ORDER, **variables)
    assert "['First', 'Validations', 'EpochSums'," in names
    assert "'Checkpoints', 'Callback', 'TellAdded']" in names
    without = call(own, "python", "-c", ORDER, "callbacks.first=null", **variables)
    assert "'First'" not in without


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("added:nowhere", "the callback mine of added 2.1 wants to stand next to chekpoints; did you mean"),
        ("added:wrong", "the plug-in mine of added 2.1 gave a int. It must give a Lightning Callback, or None"),
        ("added:missing", "the plug-in mine of added 2.1 cannot be loaded"),
    ],
)  # fmt: skip
@pytest.mark.release
@pytest.mark.slow
def test_a_callback_that_is_wrong_ends_the_training_before_it_begins(
    own, installed, value, message
):
    call(own, "lab", "data", "pack", "digits")
    words = ("train", "trial=baseline", "trainer.max_epochs=1", "trainer.devices=1")
    said = call(own, "lab", *words, rc=1, **installed(callbacks=f"mine = {value}"))
    assert message in said
    assert "Traceback" not in said


@pytest.mark.release
@pytest.mark.slow
def test_the_page_has_every_name_in_its_order(own, installed):
    call(own, "lab", "data", "pack", "digits")
    words = ("train", "trial=baseline", "trainer.devices=1")
    said = call(own, "lab", *words, rc=1, **installed(callbacks="mine = added:nowhere"))
    names = re.search(r"The names are: (.*)", said)[1].split(", ")
    table = (
        (ROOT / "docs/training-design.md")
        .read_text()
        .partition("## The callbacks of a step")[2]
        .partition("###")[0]
    )
    assert re.findall(r"^`(\w+)` \|", table, re.M) == names


@pytest.mark.release
@pytest.mark.slow
def test_a_packer_reads_what_labrig_does_not(own, installed, tmp_path):
    variables = installed(packers=ENTRY_POINTS["packers"])
    raw = tmp_path / "raw.dots"
    raw.write_text("".join(f"{i} {i + 1}\n" for i in range(20)))
    said = call(own, "lab", "data", "pack", "dotted", raw, "--as", "dots", **variables)
    assert "20 samples" in said
    assert "packer" in said
    info = call(own, "lab", "data", "info", "dotted")
    assert "added:read_dots of added 2.1" in info
    assert "dots" in call(
        own, "lab", "data", "pack", "more", raw, "--as", "dotz", rc=2, **variables
    )


def test_a_name_that_labrig_has_is_refused(own, installed, tmp_path):
    raw = tmp_path / "raw.csv"
    raw.write_text("a,b\n1,2\n")
    said = call(
        own,
        "lab",
        "data",
        "pack",
        "t",
        raw,
        "--as",
        "table",
        rc=2,
        **installed(packers="table = added:read_dots"),
    )
    assert "added 2.1 adds the packer table, which labrig" in said


@pytest.mark.release
@pytest.mark.slow
def test_a_scheduler_of_a_plugin_gets_jobs(own, installed, tmp_path):
    variables = installed(schedulers=ENTRY_POINTS["schedulers"])
    profiles = tmp_path / "profiles"
    profiles.mkdir()
    (profiles / "toybox.yaml").write_text(
        "scheduler: toy\nlauncher: mpirun\npaths: {runs: runs}\njob: {gpus: 0}\nresources: [{gpus: 0, options: []}]\n"
    )
    variables["LAB_SITE_PATH"] = str(profiles)
    script = call(own, "lab", "submit", "--dry-run", "trial=baseline", "site=toybox", **variables)
    assert "#TOY -name baseline" in script
    assert "HOST_FILE=${TOY_HOSTS" in script
    assert "would be sent with: toysub" in script
    without = call(
        own,
        "lab",
        "submit",
        "--dry-run",
        "trial=baseline",
        "site=toybox",
        rc=2,
        LAB_SITE_PATH=str(profiles),
    )
    assert "scheduler is 'toy'" in without


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.parametrize(
    ("commands", "message"),
    [
        ("", "commands.py has no list of commands, such as\n  COMMANDS = [("),
        ("COMMANDS = [('grades', 'g')]", "commands.py has no list of commands, such as"),
        ("COMMANDS = [('runs list', 'g', 'grades:go')]", "adds the command `lab runs list`, which there is"),
        ("COMMANDS = [('grades', 'g', 'grades:go')]", "is go of myproj.grades, which there is not"),
        ("COMMANDS = [('grades', 'g', 'task:go')]", "is go of myproj.task, which there is not"),
    ],
)  # fmt: skip
def test_a_wrong_list_of_commands_is_told_and_stops_no_other_command(own, commands, message):
    (own / "src/myproj/commands.py").write_text(commands)
    assert message in call(own, "lab", "grades", rc=2)
    assert "no runs yet" in call(own, "lab", "runs", "list")


def test_a_site_that_is_no_package_is_told(own, installed):
    said = call(own, "lab", "site", "show", "x", rc=2, **installed(sites="ours = added"))
    assert "the plug-in ours of added 2.1 names added, which is no package" in said


@pytest.mark.slow
def test_the_version_of_a_plugin_is_in_the_record(own, installed):
    call(own, "lab", "data", "pack", "digits")
    variables = installed(callbacks="first = added:First")
    call(
        own,
        "lab",
        "train",
        "trial=baseline",
        "trainer.max_epochs=1",
        "trainer.devices=1",
        **variables,
    )
    (run,) = (own / "runs/baseline").iterdir()
    assert json.loads((run / "attempts/1/start.json").read_text())["callbacks"] == {
        "first": "added 2.1"
    }


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.parametrize("name", ["means", "health", "checkpoints", "progress"])
def test_a_callback_replaces_none_of_labrig(own, installed, name):
    variables = installed(callbacks=f"{name} = added:last")
    call(own, "lab", "data", "pack", "digits")
    words = ("train", "trial=baseline", "trainer.max_epochs=1", "trainer.devices=1")
    said = call(own, "lab", *words, rc=1, **variables)
    assert f"added 2.1 adds the callback {name}, which labrig {__version__} has. Rename" in said
    names = call(own, "python", "-c", ORDER, f"callbacks.{name}=null", **variables)
    assert "TellAdded" not in names


@pytest.mark.release
@pytest.mark.slow
def test_a_second_package_with_the_name_is_refused_with_both_named(own, installed, tmp_path):
    variables = installed(schedulers="toy = added:Toy")
    info = tmp_path / "installed/other-3.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 3.0\n")
    (info / "entry_points.txt").write_text("[labrig.schedulers]\ntoy = added:Toy\n")
    write_site(own)
    words = ("submit", "--dry-run", "trial=baseline", "site=mine")
    said = call(own, "lab", *words, rc=2, **variables)
    assert "other 3.0 adds the scheduler toy, which added 2.1 has" in said


def write_site(own):
    """A profile of the project for the scheduler."""
    file = own / "src/myproj/conf/site/mine.yaml"
    file.parent.mkdir(exist_ok=True)
    file.write_text("scheduler: toy\n")


@pytest.mark.release
@pytest.mark.slow
def test_a_site_replaces_none_of_labrig_but_the_project_s_may(own, installed, tmp_path):
    variables = installed(sites="sites = added_sites")
    folder = tmp_path / "installed/added_sites"
    folder.mkdir()
    (folder / "__init__.py").touch()
    shipped = next(CONF.glob("site/*.yaml"))
    shutil.copy(shipped, folder)
    said = call(own, "lab", "site", "show", shipped.stem, rc=2, **variables)
    assert f"added 2.1 adds the site {shipped.stem}, which labrig {__version__} has" in said
    (own / "src/myproj/conf/site").mkdir(exist_ok=True)
    shutil.copy(shipped, own / "src/myproj/conf/site")
    call(own, "lab", "site", "show", shipped.stem, **variables)


@pytest.mark.slow
@pytest.mark.parametrize(
    "broken", [{"commands": "c = nothing_there"}, {"sites": "s = nothing.there"}], ids=str
)
def test_a_broken_plugin_costs_its_own_feature_only(own, installed, broken):
    variables = installed(**broken)
    said = call(own, "lab", "--help", **variables)
    assert "lab train" in said
    said += call(own, "lab", "runs", "list", **variables)
    assert "of added 2.1" in said


@pytest.mark.slow
def test_a_broken_list_of_commands_of_the_project_leaves_the_help(own):
    (own / "src/myproj/commands.py").write_text("1 / 0\n")
    said = call(own, "lab", "--help")
    assert "lab train" in said
    assert "commands.py adds no command; correct it." in said
