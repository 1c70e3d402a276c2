"""Settings of Hydra itself: what does the same here is named, and what has no effect is said."""

import pytest
from hydra_tree import MODEL, make_tree
from labrig.config.compose import compose
from labrig.config.overrides import sweep_points
from labrig.errors import LabError
from labrig.project import say_once


@pytest.fixture(autouse=True)
def nothing_said_before():
    say_once.cache_clear()


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (["hydra.job.chdir=true"], "no effect here: hydra.job.chdir=true."),
        (
            ["hydra.run.dir=out", "hydra.verbose=true"],
            "no effect here: hydra.run.dir=out, hydra.verbose=true.",
        ),
        (["hydra/launcher=basic"], "no effect here: hydra/launcher=basic."),
        (["hydra/job_logging=colorlog"], "no effect here: hydra/job_logging=colorlog."),
        (["seed=3"], ""),
    ],
)
def test_what_has_no_effect_is_said_in_one_line(tmp_path, capsys, typed, told):
    tree = make_tree(tmp_path, {})
    sweep_points(["trial=baseline", "seed=1,2", *typed])  # as lab train -m and lab submit
    if "colorlog" not in typed[0]:  # Hydra has no such option here, and says so
        compose(tree, ["trial=baseline", *typed])
    said = capsys.readouterr().err
    assert said.count("\n") == bool(told)
    assert told in said


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("hydra/launcher=submitit_slurm", "lab submit trial=baseline seed=1,2"),
        ("hydra.launcher.partition=gpu", "lab submit trial=baseline seed=1,2"),
        ("hydra/sweeper=optuna", "lab sweep trial=baseline seed=1,2"),
        ("hydra.sweeper.n_trials=20", "lab sweep trial=baseline seed=1,2"),
        ("+hydra.sweeper.n_trials=20,30", "lab sweep trial=baseline seed=1,2"),
    ],
)
def test_a_launcher_or_sweeper_names_the_command_that_does_the_same(typed, told):
    with pytest.raises(LabError) as refusal:
        sweep_points(["trial=baseline", "seed=1,2", typed])
    assert str(refusal.value).endswith(told)
    assert repr(typed) in str(refusal.value)


def test_settings_of_hydra_in_a_file_are_named_with_it(tmp_path, capsys):
    tree = make_tree(tmp_path, {"trials/wide/config.yaml": "hydra: {run: {dir: out}}\n" + MODEL})
    assert "hydra" not in compose(tree, ["trial=wide"]).config
    said = capsys.readouterr().err
    assert "no effect here: hydra.run.dir in src/myproj/trials/wide/config.yaml." in said


def test_a_file_in_the_group_of_hydra_is_named(tmp_path, capsys):
    files = {"conf/hydra/default.yaml": "run: {dir: out}\n"}
    files |= {"trials/wide/config.yaml": "defaults: [/hydra: default]\n" + MODEL}
    compose(make_tree(tmp_path, files), ["trial=wide"])
    assert "no effect here: src/myproj/conf/hydra/default.yaml." in capsys.readouterr().err


def test_a_launcher_in_a_file_names_the_command_that_does_the_same(tmp_path):
    text = "defaults: [override /hydra/launcher: submitit_slurm]\n"
    tree = make_tree(tmp_path, {"trials/wide/config.yaml": text + MODEL})
    with pytest.raises(LabError, match=r"Take it out of that file.*lab submit trial=NAME"):
        compose(tree, ["trial=wide"])


def test_the_search_path_counts(tmp_path, capsys):
    tree = make_tree(tmp_path, {})
    config = tree.source / "conf/config.yaml"
    config.write_text(f"{config.read_text()}\nhydra: {{searchpath: ['file://{tmp_path}']}}\n")
    compose(tree, ["trial=baseline", f"hydra.searchpath=[file://{tmp_path}]"])
    assert capsys.readouterr().err == ""
