"""The search space in Hydra's grammar, and the samplers that move in it."""

from types import SimpleNamespace

import pytest
from labrig.errors import LabError
from labrig.sweep.begin import grid_of
from labrig.sweep.definition import SweepDefinition, check_definition, parse_setting
from labrig.sweep.journal import sampler_of
from optuna import samplers
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from record_package import make_project
from search import make_search

SPACE = ("optimizer.lr=tag(log,interval(1e-4,1e-1))", "model.width=range(16,65,16)")


@pytest.mark.parametrize(
    ("text", "distribution"),
    [
        ("x=interval(0,1)", FloatDistribution(0, 1)),
        ("x=tag(log,interval(1e-5,1e-1))", FloatDistribution(1e-5, 1e-1, log=True)),
        ("x=int(interval(1,9))", IntDistribution(1, 9)),
        ("x=tag(log,int(interval(1,64)))", IntDistribution(1, 64, log=True)),
        ("x=range(1,10)", IntDistribution(1, 9)),
        ("x=range(16,65,16)", IntDistribution(16, 64, step=16)),
        ("x=range(0,1,0.25)", FloatDistribution(0, 0.75, step=0.25)),
        ("x=choice(a,b)", CategoricalDistribution(["a", "b"])),
        ("x=1e-3,3e-4", CategoricalDistribution(["0.001", "0.0003"])),
        ("x=[1,2],[3]", CategoricalDistribution(["[1,2]", "[3]"])),
    ],
)
def test_hydras_sweep_syntax(text, distribution):
    setting = parse_setting(text)
    assert setting.distribution == distribution
    assert setting.name == "x"


@pytest.mark.parametrize(
    "text", ["x=1", "x=interval(1,0)", "x=range(3,3)", "x=tag(log,interval(0,1))", "x=glob(*)"]
)
def test_what_cannot_be_searched(text):
    with pytest.raises(LabError, match=r"tag\(log"):
        parse_setting(text)


def test_a_grid_has_every_combination():
    grid = grid_of([parse_setting("a=range(0,0.3,0.1)"), parse_setting("+b=x,y")])
    assert [tuple(point.values()) for point in grid] == [
        (a, b) for a in (0, 0.1, 0.2) for b in ("x", "y")
    ]
    assert list(grid[0]) == ["a", "b"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sampler": "grid"}, "is an interval"),
        ({"sampler": "cmaes", "space": ["x=a,b", "y=a,b"]}, "is a list"),
        ({"sampler": "cmaes", "space": ["x=interval(0,1)"]}, "two settings"),
        (
            {"sampler": "cmaes", "space": ["x=interval(0,1)", "y=interval(0,1)"]},
            r"cmaes learns after each 6 points. Write at least sweep.points=18",
        ),
        ({"pruner": "asha", "metrics": ["a", "b"]}, "one metric only"),
        ({"sampler": "cmaes", "metrics": ["a", "b"]}, "nsga2"),
    ],
)
def test_a_sampler_or_pruner_that_does_not_fit(changes, message):
    usual = {"sampler": "tpe", "space": ["x=interval(0,1)"], "metrics": ["val/loss"]}
    definition = SweepDefinition(
        "t", [], directions=["minimize"], **{"pruner": None} | usual | changes
    )
    with pytest.raises(LabError, match=message):
        check_definition(definition, n_points=17)


def values_of(points, n, objective):
    values = []
    for _ in range(n):
        trial = points.take()
        value = objective(trial.params)
        points.study.tell(trial.number, value)
        values.append(value)
    return values


@pytest.mark.release
@pytest.mark.parametrize(
    "sampler", ["random", "tpe", "cmaes", pytest.param("gp", marks=pytest.mark.slow)]
)
def test_each_sampler_stays_in_the_space(tmp_path, sampler):
    project = make_project(tmp_path / "project")
    points = make_search(project, *SPACE, sampler=sampler, n_points=14)

    def objective(params):
        assert 1e-4 <= params["optimizer.lr"] <= 1e-1
        assert params["model.width"] in (16, 32, 48, 64)
        return params["optimizer.lr"] + params["model.width"]

    values_of(points, 14, objective)
    assert points.take() is None


@pytest.mark.release
@pytest.mark.parametrize("sampler", ["tpe", "nsga2", pytest.param("gp", marks=pytest.mark.slow)])
def test_three_quarters_of_few_points_are_chosen(tmp_path, monkeypatch, sampler):
    """Optuna draws the first 10 of tpe and gp at random, and the first 50 of nsga2."""
    drawn = []
    draw = samplers.RandomSampler.sample_independent
    monkeypatch.setattr(
        samplers.RandomSampler,
        "sample_independent",
        lambda *args: drawn.append(args) or draw(*args),
    )
    two = {"metrics": ["a", "b"], "directions": ["minimize"] * 2} if sampler == "nsga2" else {}
    project = make_project(tmp_path / "project")
    space = ("x=interval(-9,9)", "y=interval(-9,9)")
    points = make_search(project, *space, sampler=sampler, n_points=12, **two)
    squares = lambda params: [(params["x"] - n) ** 2 + params["y"] ** 2 for n in range(2)]  # noqa: E731
    values_of(points, 12, lambda params: squares(params)[: 2 if two else 1])
    if two:  # which draws a value anew with a chance of a half
        assert 2 * 3 <= len(drawn) < 2 * 12
    else:
        assert len(drawn) == 2 * 3


def test_two_metrics_have_a_front(tmp_path):
    two = {"metrics": ["a", "b"], "directions": ["minimize", "maximize"]}
    project = make_project(tmp_path / "project")
    points = make_search(project, "x=interval(0,1)", sampler="nsga2", n_points=6, **two)
    values_of(points, 6, lambda params: [params["x"], params["x"]])
    assert len(points.study.best_trials) == 6  # all of them: better in one is worse in the other


def test_the_name_of_a_sampler_is_its_algorithm():
    algorithms = {
        "tpe": samplers.TPESampler,
        "gp": samplers.GPSampler,
        "cmaes": samplers.CmaEsSampler,
        "nsga2": samplers.NSGAIISampler,
        "random": samplers.RandomSampler,
    }
    for name, algorithm in algorithms.items():
        assert type(sampler_of(SimpleNamespace(sampler=name, space=["x"]), 20)) is algorithm
