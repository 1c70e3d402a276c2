"""Points of a list: the same as Hydra composes one by one, though it composes only the first of them."""

import pytest
import yaml
from hydra_tree import MODEL, make_tree
from hypothesis import given, settings
from hypothesis import strategies as st
from labrig.config import compose_points as module
from labrig.config.compose import compose
from labrig.config.overrides import sweep_points
from labrig.config.resolve import yaml_of
from labrig.errors import LabError
from omegaconf import OmegaConf

TRIAL = {
    "trials/wide/config.yaml": "defaults: [override /optimizer: sgd]\noptimizer: {lr: 0.3}\n"
    + MODEL
}
OWN = """
own:
  {rate: '${optimizer.lr}', list: ['${seed}', 'lr ${optimizer.lr}'], all: '${optimizer}',
  chain: '${own.rate}', one: '${own.list[1]}', near: '${.rate}', made: '${oc.decode:"${seed}"}'}
"""
LISTS = {
    "numbers": ["trial=wide", "seed=0,1,7", "optimizer.lr=1e-3,0.5"],
    "texts and nothing": [
        "trial=wide",
        "checkpoint.monitor=val/loss,'val/acc 2'",
        "init_from=null",
    ],
    "groups": ["trial=wide", "optimizer=adamw,sgd", "seed=1,2"],
    "trials": ["trial=wide,baseline", "seed=1,2"],
    "a new argument of a class": ["trial=wide", "optimizer.weight_decay=0.1,0.2"],
    "added": ["trial=wide", "+optimizer.dampening=0,0.5"],
    "parts of a list": ["trial=wide", "data.fields=[x,y],[x]", "seed=1,2"],
    "interpolations": ["trial=wide", "seed=1,2", "trainer.max_epochs=${seed},3"],
    "a class": ["trial=wide", "model._target_=torch.nn.Identity,torch.nn.Flatten"],
    "directories": ["trial=wide", "paths.runs=/a,/b"],
    "directories of the site": ["trial=wide", "site.paths.runs=/a,/b"],
    "twice": ["trial=wide", "seed=1,2", "seed=3"],
}


def tree_in(folder, more=""):
    """A project whose configuration has interpolations of values, of a list and of a section."""
    tree = make_tree(folder, TRIAL)
    path = tree.source / "conf/config.yaml"
    path.write_text(path.read_text() + OWN + more)
    return tree


def composed_twice(tree, overrides):
    """Each point as the list gives it, and as Hydra composes it alone."""
    points = sweep_points(overrides)
    alone = [compose(tree, point) for point in points]
    return list(zip(module.compose_points(tree, points), alone, strict=True))


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.parametrize("typed", LISTS.values(), ids=LISTS)
def test_points_are_those_that_hydra_composes(tmp_path, typed):
    for made, expected in composed_twice(tree_in(tmp_path), typed):
        assert made == expected
        assert made.config == expected.config
        assert made.yaml == expected.yaml


@pytest.mark.slow
def test_a_directory_that_depends_on_a_value(tmp_path):
    tree = tree_in(tmp_path, "paths: {scratch: '/scratch/${seed}'}\n")
    for made, expected in composed_twice(tree, ["trial=wide", "seed=1,2"]):
        assert made == expected


@pytest.mark.slow
def test_a_long_list_asks_hydra_once(tmp_path, monkeypatch):
    tree = tree_in(tmp_path)
    asked = []
    by_hydra = module.compose_by_hydra
    monkeypatch.setattr(
        module, "compose_by_hydra", lambda *given: asked.append(given) or by_hydra(*given)
    )
    points = sweep_points(["trial=wide", "seed=range(50)", "optimizer.lr=0.1,0.2"])
    made = module.compose_points(tree, points)
    assert len(made) == 100
    assert len(asked) == 1
    assert made[77] == compose(tree, points[77])


@pytest.mark.slow
def test_a_wrong_value_is_refused_wherever_it_stands(tmp_path):
    tree = tree_in(tmp_path)
    with pytest.raises(LabError, match=r"trainer.max_epochs must be null or a whole number"):
        module.compose_points(tree, sweep_points(["trial=wide", "trainer.max_epochs=1,2,many"]))
    with pytest.raises(LabError, match=r"checkpoint.mode"):
        module.compose_points(tree, sweep_points(["trial=wide", "checkpoint.mode=min,mni"]))


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=12).filter(
    lambda text: "${" not in text
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS
TRICKY = st.sampled_from(
    ["on", "1e-3", "1_0", "0x1", "12:30", "2020-01-01", "", "~", "null", "- a", "a: b"]
)


@pytest.mark.release
@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,5}", fullmatch=True), SCALARS | TRICKY | st.lists(TRICKY)
    )
)
def test_the_recorded_text_is_read_as_the_same_values(values):
    text = yaml_of(values)
    assert OmegaConf.to_container(OmegaConf.create(text)) == values
    as_before = OmegaConf.to_yaml(OmegaConf.create(values))
    assert yaml.safe_load(text) == yaml.safe_load(as_before)
