"""What a Hydra user knows holds here: groups, defaults lists, packages, overrides, a notebook's own Hydra."""

import pytest
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra_tree import MODEL, TEMPLATE, make_tree
from labrig.config.compose import compose
from labrig.errors import LabError
from labrig.project import CONF
from omegaconf import OmegaConf

AUGMENT = {"conf/augment/weak.yaml": "p: 0.1\nflip: true\n", "conf/augment/none.yaml": ""}
CIRCLE = {"conf/augment/circle.yaml": "defaults: [circle]\n"}
STRONG = {**AUGMENT, "conf/augment/strong.yaml": "defaults: [weak, _self_]\np: 0.9\n"}


def trial(text):
    return {"trials/wide/config.yaml": text + MODEL}


# name: (files, settings, {key: value})
HABITS = {
    "own group in a trial": (
        AUGMENT | trial("defaults: [/augment: weak]\n"),
        ["trial=wide"],
        {"augment": {"p": 0.1, "flip": True}},
    ),
    "own group on the command line": (AUGMENT, ["+augment=weak"], {"augment.p": 0.1}),
    "group at depth": (
        {"conf/model/vit/small.yaml": "_target_: torch.nn.Identity\n"}
        | {"trials/wide/config.yaml": "defaults: [/model: vit/small]\n"},
        ["trial=wide"],
        {"model": {"_target_": "torch.nn.Identity"}},
    ),
    "group below a group": (
        {"conf/model/vit/small.yaml": "depth: 3\n"},
        ["+model/vit=small"],
        {"model.vit.depth": 3},
    ),
    "defaults list of an option": (
        STRONG | trial("defaults: [/augment: strong]\n"),
        ["trial=wide"],
        {"augment": {"p": 0.9, "flip": True}},
    ),
    "_self_ first": (
        STRONG | {"conf/augment/strong.yaml": "defaults: [_self_, weak]\np: 0.9\n"},
        ["+augment=strong"],
        {"augment.p": 0.1},
    ),
    "_self_ first in a trial": (
        AUGMENT | trial("defaults: [_self_, /augment: weak]\naugment: {p: 0.5}\n"),
        ["trial=wide"],
        {"augment.p": 0.1},
    ),
    "override in a trial": (
        trial("defaults: [override /optimizer: sgd]\noptimizer: {lr: 0.3}\n"),
        ["trial=wide"],
        {"optimizer._target_": "torch.optim.SGD", "optimizer.lr": 0.3, "optimizer.momentum": 0.9},
    ),
    "command line over a trial": (
        trial("defaults: [override /optimizer: sgd]\n"),
        ["trial=wide", "optimizer=adam"],
        {"optimizer._target_": "torch.optim.Adam"},
    ),
    "variant over its trial": (
        trial("defaults: [override /optimizer: sgd]\noptimizer: {lr: 0.3}\n")
        | {"trials/wide/low.yaml": "defaults: [override /schedule: constant]\noptimizer: {lr: 0.1}\n"},
        ["trial=wide/low"],
        {"optimizer.lr": 0.1, "optimizer.momentum": 0.9, "schedule": {}, "trial": "wide/low"},
    ),
    "a trial on top of another": (
        trial("defaults: [override /optimizer: sgd]\noptimizer: {lr: 0.3}\n")
        | {"trials/next/config.yaml": "defaults: [/trial/wide@_global_, _self_]\nseed: 4\n"},
        ["trial=next"],
        {"optimizer.lr": 0.3, "seed": 4},
    ),
    "optional": (trial("defaults: [optional /nowhere: x]\n"), ["trial=wide"], {"seed": 0}),
    "package in a defaults list": (
        AUGMENT | trial("defaults: [/augment: weak, /augment@augment_b: none]\n"),
        ["trial=wide"],
        {"augment.p": 0.1, "augment_b": {}},
    ),
    "package header": (
        {"conf/preset/fast.yaml": "# @package _global_\ntrainer: {max_epochs: 3}\nnote: {x: 1}\n"},
        ["+preset=fast"],
        {"trainer.max_epochs": 3, "note": {"x": 1}},
    ),
    "package header with a name": (
        {"conf/preset/fast.yaml": "# @package note.inside\nx: 1\n"},
        ["+preset=fast"],
        {"note": {"inside": {"x": 1}}},
    ),
    "list of options": (
        {},
        ["logger=[files,tensorboard,wandb]"],
        {"logger.tensorboard.flush_secs": 30, "logger.wandb.mode": "auto"},
    ),
    "interpolations": (
        {"conf/note/a.yaml": "x: ${seed}\ny: ${oc.env:NOWHERE,7}\nz: ${oc.select:nowhere.at_all,8}\n"},
        ["+note=a", "seed=5"],
        {"note": {"x": 5, "y": "7", "z": 8}},
    ),
    "plus, two pluses, tilde": (
        AUGMENT,
        ["+augment=weak", "+augment.x=3", "++seed=4", "++own.part=5", "~augment.flip"],
        {"augment": {"p": 0.1, "x": 3}, "seed": 4, "own.part": 5},
    ),
    "a group taken away": (AUGMENT, ["~profile"], {"profile": {}}),
    "an item of a list": ({}, ["data.fields.0=z"], {"data.fields": ["z", "y"]}),
    "a section of settings": (
        {},
        ["optimizer={lr: 0.5}", "+optimizer={eps: 1e-6}"],
        {"optimizer.lr": 0.5, "optimizer.eps": 1e-6},
    ),
    "an argument that no file holds": ({}, ["optimizer.eps=1e-6"], {"optimizer.eps": 1e-6}),
    "config.yaml over its groups": (
        {"conf/data/digits.yaml": "_target_: ${package}.data.Digits\nbatch_size: 8\n"},
        ["optimizer=sgd"],
        {"trainer.max_epochs": 20, "data.batch_size": 8},
    ),
}  # fmt: skip


@pytest.mark.parametrize("habit", HABITS)
def test_habits(tmp_path, habit):
    files, settings, expected = HABITS[habit]
    named = any(setting.startswith("trial=") for setting in settings)
    settings = settings if named else ["trial=baseline", *settings]
    config = compose(make_tree(tmp_path, files), settings).config
    values = {key: OmegaConf.select(config, key) for key in expected}
    plain = {
        key: OmegaConf.to_container(value) if OmegaConf.is_config(value) else value
        for key, value in values.items()
    }
    assert plain == expected


def test_config_yaml_may_name_a_trial(tmp_path):
    tree = make_tree(tmp_path, trial(""))
    config = tree.source / "conf/config.yaml"
    config.write_text(config.read_text().replace("trial: ???", "trial: wide"))
    assert compose(tree, []).trial == "wide"
    assert compose(tree, ["trial=baseline"]).trial == "baseline"


def test_search_path_of_the_user(tmp_path):
    shared = tmp_path / "shared/augment"
    shared.mkdir(parents=True)
    (shared / "ours.yaml").write_text("p: 0.7\n")
    tree = make_tree(tmp_path / "project", {})
    path = f"file://{tmp_path}/shared"
    typed = compose(tree, ["trial=baseline", f"hydra.searchpath=[{path}]", "+augment=ours"])
    assert typed.config.augment.p == 0.7
    config = tree.source / "conf/config.yaml"
    config.write_text(f"{config.read_text()}\nhydra: {{searchpath: ['{path}']}}\n")
    written = compose(tree, ["trial=baseline", "+augment=ours"])
    assert written.config.augment.p == 0.7
    assert written.origin["augment.p"] == str(shared / "ours.yaml")
    assert "hydra" not in written.config


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        [],
        ["experiment=example"],
        ["experiment=example", "debug=overfit", "logger=many"],
        ["hparams_search=search", "trainer=ddp", "data.batch_size=16", "~extras.enforce_tags"],
    ],
    ids=lambda settings: " ".join(settings) or "plain",
)
def test_the_usual_tree_composes_as_in_hydra(tmp_path, settings):
    tree = make_tree(tmp_path, TEMPLATE)
    ours = compose(tree, ["trial=first", *settings])

    store = ConfigStore.instance()
    before = dict(store.repo)
    try:
        node = {"data": {"batch_size": 32}}
        store.store(group="trial", name="first", node=node, package="_global_")
        with initialize_config_dir(str(tree.source / "conf"), version_base="1.3"):
            search_path = f"hydra.searchpath=[file://{CONF}]"
            theirs = hydra_compose(
                "config", ["trial=first", "package=myproj", search_path, *settings]
            )
    finally:
        store.repo = before
    expected = OmegaConf.to_container(theirs, resolve=True)
    expected.setdefault("logger", {})  # none chosen
    expected["data"].setdefault("seed", expected["seed"])  # which the data leave open
    values = OmegaConf.to_container(ours.config)
    assert values.pop("trial") == "first"
    for name in ("runs", "data"):  # absolute here
        assert values["paths"].pop(name) != expected["paths"].pop(name)
    assert values == expected


def test_origin_and_tree_go_through_nested_defaults(tmp_path):
    files = STRONG | trial("defaults: [/augment: strong]\n")
    made = compose(make_tree(tmp_path, files), ["trial=wide", "seed=3"])
    assert made.origin["augment.p"] == "src/myproj/conf/augment/strong.yaml"
    assert made.origin["augment.flip"] == "src/myproj/conf/augment/weak.yaml"
    assert made.origin["trainer.max_epochs"] == "src/myproj/conf/config.yaml"
    assert made.origin["seed"] == "command line"
    lines = [line.partition("  #")[0] for line in made.defaults_tree]
    nested = ["    augment: strong", "      augment/weak", "      _self_", "    _self_"]
    assert lines[-5:] == ["  trial: wide", *nested]
    assert lines[0] == "config"


WRONG = {
    "augment: {flop: true}\n": "did you mean: augment.flip",
    "augmnt: {flip: true}\n": "did you mean: augment",
    "augment: {p: much}\n": "augment.p must be a number",
}


@pytest.mark.parametrize("text", WRONG)
def test_keys_of_an_own_group_are_checked_in_a_trial(tmp_path, text):
    tree = make_tree(tmp_path, AUGMENT | trial(f"defaults: [/augment: weak]\n{text}"))
    with pytest.raises(LabError, match="src/myproj/trials/wide/config") as error:
        compose(tree, ["trial=wide"])
    assert WRONG[text] in str(error.value)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (["+augment=wek"], "did you mean: weak. Options of augment: circle, none, weak"),
        (["augment=weak"], "+augment=weak"),
        (["+augmnt=weak", "augmnt.p=1"], "augmnt"),
        (["~augmnt"], "did you mean"),
        (["trainer=[auto,gpuu]"], "trainer/gpuu"),
        (["optimizer@other=sgd"], "optimizer"),
        (["data.path=${nowhere}"], "Interpolation key 'nowhere' not found"),
        (["data.path=${hydra:runtime.cwd}"], "paths.runs"),
        (["+augment=circle"], "in a circle"),
    ],
)
def test_wrong_choices_keep_hydras_text_and_name_the_nearest(tmp_path, settings, expected):
    with pytest.raises(LabError) as error:
        compose(make_tree(tmp_path, AUGMENT | CIRCLE), ["trial=baseline", *settings])
    assert expected in str(error.value)


def test_a_shared_site_profile_is_an_option(tmp_path, monkeypatch):
    profiles = tmp_path / "profiles"
    profiles.mkdir()
    text = (CONF / "site/workstation.yaml").read_text()
    (profiles / "ours.yaml").write_text(text.replace("poll_s: 2", "poll_s: 5"))
    monkeypatch.setenv("LAB_SITE_PATH", str(profiles))
    made = compose(make_tree(tmp_path / "project", {}), ["trial=baseline", "site=ours"])
    assert made.config.site.poll_s == 5
    assert made.origin["site.poll_s"] == str(profiles / "ours.yaml")
    assert made.choices["site"] == "ours"


def test_a_deleted_argument_is_gone_for_the_settings_after_it(tmp_path):
    project = make_tree(tmp_path, {})
    other = "optimizer._target_=torch.optim.SGD"
    made = compose(project, ["trial=baseline", "~optimizer.betas", other])
    assert "betas" not in made.config.optimizer
