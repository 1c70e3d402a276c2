"""Old names of settings and options work everywhere, with a warning that names the new one."""

import pytest
from hydra_tree import MODEL, make_tree
from labrig import project as lab_project
from labrig.config import renamed
from labrig.config.compose import compose
from labrig.config.overrides import sweep_points
from labrig.config.recorded import read_recorded, with_changes
from labrig.errors import LabError
from omegaconf import OmegaConf

NAMES = {
    "settings": {
        "checkpoint.every": "checkpoint.every_min",
        "fit": "trainer",
        "trainer.fast": "speed.compile",
        "log.colour": None,
    },
    "options": {"site/lanta_2023": "site/lanta", "optimizer/adam_w": "optimizer/adamw"},
}


@pytest.fixture(autouse=True)
def names(monkeypatch):
    """A release that has renamed what NAMES says."""
    read_yaml = lab_project.read_yaml
    monkeypatch.setattr(
        lab_project,
        "read_yaml",
        lambda path: NAMES if path.name == "renamed.yaml" else read_yaml(path),
    )
    lab_project.new_names.cache_clear()
    renamed.warn.cache_clear()
    yield
    lab_project.new_names.cache_clear()


def config_yaml(tree, text, site="workstation"):
    path = tree.source / "conf/config.yaml"
    path.write_text(path.read_text().replace("site: workstation", f"site: {site}") + text)


def test_typed(tmp_path, capsys):
    tree = make_tree(tmp_path, {})
    words = ["trial=baseline", "checkpoint.every=7", "fit.max_epochs=3", "++fit.devices=2"]
    composition = compose(tree, [*words, "site=lanta_2023", "optimizer=adam_w"])
    assert composition.config.checkpoint.every_min == 7
    assert (composition.config.trainer.max_epochs, composition.config.trainer.devices) == (3, 2)
    assert composition.choices["site"] == "lanta"
    assert composition.config.optimizer._target_ == "torch.optim.AdamW"
    text = capsys.readouterr().err
    assert "lab: command line: checkpoint.every is now called checkpoint.every_min.\n" in text
    assert "command line: site=lanta_2023 is gone, and site=lanta takes its place" in text
    assert text.count("fit is now called trainer") == 1
    assert sweep_points(["checkpoint.every=1,2"]) == [
        ["checkpoint.every_min=1"],
        ["checkpoint.every_min=2"],
    ]
    with pytest.raises(LabError, match=r"command line: there is no log\.colour any more"):
        compose(tree, ["trial=baseline", "log.colour=true"])


def test_in_the_projects_files(tmp_path, capsys):
    files = {
        "trials/wide/config.yaml": "defaults: [override /trainer: mine]\nfit: {devices: 2}\n" + MODEL,
        "trials/wide/low.yaml": "checkpoint: {every: 9}\nlog: {colour: true}\n",
        "conf/trainer/mine.yaml": "defaults: [cpu]\nmax_epochs: 4\n",
    }  # fmt: skip
    tree = make_tree(tmp_path, files)
    config_yaml(tree, "\ncheckpoint: {every: 7}\n", site="lanta_2023")
    composition = compose(tree, ["trial=wide"])
    assert composition.config.checkpoint.every_min == 7
    assert composition.config.trainer.devices == 2
    assert composition.choices["site"] == "lanta"
    assert tree.paths.runs == tmp_path / "runs"
    assert compose(tree, ["trial=wide/low"]).config.checkpoint.every_min == 9
    text = capsys.readouterr().err
    assert "conf/config.yaml: checkpoint.every is now called checkpoint.every_min" in text
    assert "conf/config.yaml: site=lanta_2023 is gone, and site=lanta" in text
    assert "trials/wide/config.yaml: fit is now called trainer" in text
    assert "there is no log.colour any more, so it changes nothing" in text


def test_in_a_trials_defaults_and_a_group_of_the_users(tmp_path):
    files = {
        "trials/wide/config.yaml": f"defaults: [override /site: lanta_2023]\n{MODEL}",
        "conf/trainer/mine.yaml": "fast: default\n",
    }
    tree = make_tree(tmp_path, files)
    assert compose(tree, ["trial=wide"]).choices["site"] == "lanta"
    with pytest.raises(LabError, match=r"trainer\.fast is now called speed\.compile; write it in"):
        compose(tree, ["trial=baseline", "trainer=mine"])


def test_the_new_name_wins_where_both_are_written(tmp_path):
    tree = make_tree(tmp_path, {})
    config_yaml(tree, "\ncheckpoint: {every: 7, every_min: 8}\n")
    assert compose(tree, ["trial=baseline"]).config.checkpoint.every_min == 8


def test_in_a_record_without_a_warning(tmp_path, capsys):
    path = tmp_path / "config.yaml"
    path.write_text("fit: {max_epochs: 3}\ncheckpoint: {every: 7}\nlog: {colour: 1}\nseed: 1\n")
    config = read_recorded(path)
    assert OmegaConf.to_container(config) == {
        "seed": 1,
        "trainer": {"max_epochs": 3},
        "checkpoint": {"every_min": 7},
    }
    assert capsys.readouterr().err == ""
    changed = with_changes(config, ["fit.max_epochs=4"], ("trainer.",), "")
    assert changed.trainer.max_epochs == 4


def test_a_path_is_found_by_the_old_name_of_a_site(tmp_path):
    tree = make_tree(tmp_path, {})
    assert tree.site_file("lanta_2023").name == "lanta.yaml"
