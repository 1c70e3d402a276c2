"""Seeds are seeds: what the library seeds follows `seed`, and `lab check` names what does not."""

import pytest
from labrig.config.compose import compose
from labrig.data import H5DataModule
from labrig.project import Project
from labrig.training.check import check_and_print, describe_seed_of_data
from projects import work_on
from trial_runs import replace_in

LINE = "seed: ${seed}            # of the order and of random augmentation\n"


@pytest.fixture
def project(own_project):
    """A project whose conf/data/digits.yaml leaves the seed open."""
    replace_in(own_project / "src/myproj/conf/data/digits.yaml", LINE, "")
    return work_on(Project(own_project, "myproj"))


def told_by_check(project, capsys, *overrides):
    assert check_and_print(project, ["trial=baseline", *overrides], batch=False) == 0
    return capsys.readouterr().out


@pytest.mark.release
@pytest.mark.slow
def test_a_data_yaml_without_a_seed_follows_the_seed_of_the_run(project, capsys):
    """new-user-2: 0.7612 twice, every digit equal, for two seeds."""
    for seed in (0, 7):
        composition = compose(project, ["trial=baseline", f"seed={seed}"])
        assert composition.config.data.seed == seed
        assert "data:\n  _target_: myproj.data.Digits\n  path: digits.h5\n" in composition.yaml
        assert composition.yaml.count(f"seed: {seed}\n") == 2, "the record holds it"
    assert "data.seed is left open, so it follows seed" in told_by_check(project, capsys)
    # the class that `lab data pack` writes, which labrig.data names for editors only
    words = ["trial=baseline", "seed=7", "data._target_=labrig.data.H5DataModule"]
    assert compose(project, words).config.data.seed == 7


@pytest.mark.release
@pytest.mark.slow
def test_a_seed_that_was_set_on_purpose_stays_and_is_named(project, capsys):
    data = project.source / "conf/data/digits.yaml"
    data.write_text(data.read_text() + "seed: 5\n")
    assert compose(project, ["trial=baseline", "seed=7"]).config.data.seed == 5
    told = told_by_check(project, capsys)
    assert "data.seed=5 does not follow seed (src/myproj/conf/data/digits.yaml)" in told
    assert "To follow it: data.seed=${seed}" in told
    assert "does not follow" not in told_by_check(project, capsys, "data.seed=${seed}")
    assert "data.seed=3 does not follow seed (command line)" in told_by_check(
        project, capsys, "data.seed=3"
    )


@pytest.mark.slow
def test_a_seed_of_a_class_of_ones_own_may_mean_something_else(project, capsys):
    (project.source / "own.py").write_text(
        "import lightning.pytorch as L\n\n\nclass Own(L.LightningDataModule):\n"
        "    def __init__(self, split_seed=0, seed=42):\n        super().__init__()\n"
    )
    (project.source / "conf/data/own.yaml").write_text("_target_: ${package}.own.Own\n")
    assert "seed" not in compose(project, ["trial=baseline", "data=own"]).config.data
    told = told_by_check(project, capsys, "data=own")
    assert "data.seed is left open, and Own takes its default, which does not follow seed" in told


@pytest.mark.slow
def test_nothing_is_said_where_every_seed_follows(own_project, capsys):
    project = work_on(Project(own_project, "myproj"))
    assert told_by_check(project, capsys) == "ok  baseline: keys, targets and arguments\n"


class Deaf(H5DataModule):
    """Takes a seed, and does not pass it on."""

    def __init__(self, path, seed=0):
        super().__init__(path)


def test_a_class_that_passes_no_seed_on_is_named():
    (told,) = describe_seed_of_data(Deaf("a.h5", seed=3), seed=3)
    assert "have the seed 0, which does not follow seed. Have Deaf.__init__ take seed" in told
    assert describe_seed_of_data(H5DataModule("a.h5", seed=3), seed=3) == []
    assert describe_seed_of_data(object(), seed=3) == []


@pytest.mark.slow
def test_a_typed_seed_is_no_obstacle_to_the_check(project, capsys):
    assert "does not follow" not in told_by_check(project, capsys, "seed=3")
    assert "data.seed=4 does not follow" in told_by_check(project, capsys, "seed=3", "data.seed=4")
