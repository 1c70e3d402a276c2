"""What is called the best: which values of a metric are better is written or asked for, never guessed."""

import json

import pytest
from labrig import errors
from labrig.config.compose import compose
from labrig.project import Project
from labrig.record.read.find import find_run
from labrig.record.read.ranking import mode_by_name
from labrig.record.read.rows import read_rows
from labrig.report.gather import gather_metrics
from labrig.sweep.definition import define_sweep
from labrig.trials.numbers import number_trials
from labrig.trials.result import result_table
from projects import copy_of, work_on
from record_package import call, make_project, train
from repositories import write

NO_CODE = {"dirty": None, "reason": "a test"}  # git takes most of the time
# Whose names a guess by a part of them took for another quantity
UNKNOWN = (
    *("val/elbo", "val/log_likelihood", "val/lossless", "val/inverse_error", "val/negative_loss"),
    *("val/error2", "val/neg_mean_squared_error", "val/1-acc", "val/one_minus_dice", "val/utility"),
    *("val/loss_weight", "val/acc_gap", "val/error_recall", "val/score", "val/epoch", "", "///"),
)
KNOWN = {
    "val/loss": "min",
    "val/dice_loss": "min",
    "val/iou_loss": "min",
    "val/reward_loss": "min",
    "val/test-error": "min",
    "val/loss_epoch": "min",
    "rmse": "min",
    "val/fid": "min",
    "val/acc": "max",
    "top1_acc": "max",
    "val/f1_score": "max",
    "val/mIoU": "max",
    "test/R2": "max",
}


@pytest.mark.parametrize("metric", UNKNOWN)
def test_a_name_that_may_mean_either_is_not_known(metric):
    """c-direction."""
    assert mode_by_name(metric) is None


@pytest.mark.parametrize(("metric", "mode"), KNOWN.items())
def test_the_last_word_of_a_name_is_known(metric, mode):
    assert mode_by_name(metric) == mode


@pytest.fixture
def project(made, tmp_path):
    """A copy of the project with two runs, to change."""
    return work_on(Project(copy_of(made.root, tmp_path / "project"), "myproj"))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two finished runs, of which the first has the lower numbers."""
    project = make_project(tmp_path_factory.mktemp("numbers") / "project")
    for value in (0.25, 0.75):
        train(
            project,
            code=NO_CODE,
            metrics={"val/utility": value, "test/utility": value, "val/loss": value},
        )
    return project


COMMANDS = {
    "@best": (["runs show", "@best:val/utility"], "@best:val/utility:max (or :min)"),
    "of a trial": (["runs show", "@best:val/utility::baseline"], "@best:val/utility:baseline:max"),
    "--sort": (["runs list", "--sort", "val/utility"], "--sort val/utility:max"),
    "prune": (
        ["runs prune", "status=failed", "--metric", "val/utility"],
        "--metric val/utility:max",
    ),
}


@pytest.mark.parametrize("words", COMMANDS)
def test_each_command_asks_with_what_to_type(project, words):
    """c-direction: @best, --sort, prune."""
    command, advice = COMMANDS[words]
    command = [word.replace("::", ":") for word in command]
    with pytest.raises(errors.LabError) as asked:
        call(project, *command)
    assert "val/utility: is higher better? write" in str(asked.value)
    assert advice in str(asked.value)
    assert "metrics: {val/utility: max} (or min) in conf/config.yaml" in str(asked.value)


def test_what_is_typed_is_what_happens(project, capsys):
    low, high = sorted(
        read_rows([project.root / "runs"]), key=lambda row: row["metrics"]["val/loss"]
    )
    for mode, best in (("min", low), ("max", high)):
        for metric in ("val/utility", "val/loss"):
            assert find_run([project.root / "runs"], f"@best:{metric}:{mode}").id == best["run_id"]
        trial = f"@best:val/utility:baseline:{mode}"
        assert find_run([project.root / "runs"], trial).id == best["run_id"]
        call(project, "runs list", "--sort", f"val/utility:{mode}", "--json")
        assert json.loads(capsys.readouterr().out)[0]["run_id"] == best["run_id"]
    call(project, "runs list", "--sort", "val/utility:max")
    assert "val/utility" in capsys.readouterr().out.splitlines()[0]


def test_a_trial_of_that_name_is_not_taken_for_a_direction(project):
    train(project, code=NO_CODE, trial="max", metrics={"val/utility": 0.1})
    with pytest.raises(errors.LabError, match=r"'max' is the name of a trial too"):
        find_run([project.root / "runs"], "@best:val/utility:max")
    assert find_run([project.root / "runs"], "@best:val/utility:max:max").trial == "max"
    assert find_run([project.root / "runs"], "@best:val/utility:*:max").trial == "baseline"


@pytest.mark.parametrize("key", ["val/utility", "utility"])
@pytest.mark.parametrize(("mode", "best"), [("min", 0.25), ("max", 0.75)])
def test_the_configuration_of_today_also_counts_for_earlier_runs(project, key, mode, best):
    write(project.root, {"src/myproj/conf/config.yaml": f"metrics:\n  {key}: {mode}\n"})
    found = find_run([project.root / "runs"], "@best:val/utility")
    assert read_rows([project.root / "runs"])
    assert json.loads((found.dir / "summary.json").read_text())["metrics"]["val/utility"] == best


@pytest.mark.parametrize(
    "section",
    [
        "metrics:\n  val/utility: {mode}\n",
        "metrics:\n  utility: {mode}\n",
        "checkpoint:\n  monitor: val/utility\n  mode: {mode}\n",
    ],
    ids=["whole name", "last part", "monitor"],
)
@pytest.mark.parametrize(("mode", "best"), [("min", 0.25), ("max", 0.75)])
def test_the_configuration_of_the_runs_says_it(tmp_path, section, mode, best):
    project = make_project(tmp_path / "project")
    settings = "seed: 0\n" + section.format(mode=mode)
    for value in (0.25, 0.75):
        train(project, code=NO_CODE, config_yaml=settings, metrics={"val/utility": value})
    row = find_run([project.root / "runs"], "@best:val/utility")
    assert json.loads((row.dir / "summary.json").read_text())["metrics"]["val/utility"] == best


def test_a_forgotten_checkpoint_mode_is_asked_for(tmp_path):
    """checkpoint.monitor=val/acc alone leaves checkpoint.mode at min."""
    project = make_project(tmp_path / "project")
    settings = "seed: 0\ncheckpoint:\n  monitor: val/acc\n  mode: min\n"
    train(project, code=NO_CODE, config_yaml=settings, metrics={"val/acc": 0.5})
    with pytest.raises(errors.LabError, match="val/acc: is higher better"):
        find_run([project.root / "runs"], "@best:val/acc")
    with pytest.raises(errors.LabError, match="val/acc: is higher better"):
        find_run([project.root / "runs"], "@best")


@pytest.mark.parametrize(("section", "is_bold"), [("{}", False), ("{utility: min}", True)])
def test_no_cell_is_bold_where_nothing_says_what_is_better(tmp_path, capsys, section, is_bold):
    """c-direction: bold in exports."""
    project = make_project(tmp_path / "project")
    for trial, value in (("baseline", 0.2), ("wide", 0.1)):
        for seed in range(3):
            metrics = {"test/utility": value * (1 + seed / 10)}
            settings = f"seed: {seed}\n"
            train(
                project, code=NO_CODE, trial=trial, seed=seed, config_yaml=settings, metrics=metrics
            )
    write(project.root, {"src/myproj/conf/config.yaml": f"metrics: {section}\n"})
    file = project.root / "results.md"
    call(project, "runs export", "-o", str(file), "--metric", "test/utility", "--by", "trial")
    assert ("**" in file.read_text()) == is_bold
    assert ("is higher better" in capsys.readouterr().err) == (not is_bold)


def test_the_page_calls_no_run_the_best_where_nothing_says_it(project):
    """c-direction: the report."""
    modes = {each["name"]: each["mode"] for each in gather_metrics(all_rows(project), [])}
    assert modes == {"val/loss": "min", "val/utility": None, "test/utility": None}


def all_rows(project):
    return read_rows([project.root / "runs"])


SEARCH = ("trial=baseline", "optimizer.lr=0.1,0.2", "sweep.metric=val/utility")


@pytest.mark.release
@pytest.mark.slow
def test_a_sweep_asks_before_it_begins(prepared):
    """c-direction: lab sweep."""
    with pytest.raises(
        errors.LabError, match=r"\? write sweep\.metric=val/utility:max \(or :min\)"
    ):
        define_sweep(prepared, list(SEARCH))
    for typed, direction in (
        ("sweep.direction=maximize", "maximize"),
        ("sweep.metric=val/utility:max", "maximize"),
        ("sweep.metric=val/loss:max", "maximize"),
        ("metrics.utility=min", "minimize"),
        ("checkpoint.monitor=val/utility", "minimize"),
    ):
        definition, _ = define_sweep(prepared, [*SEARCH, typed])
        assert definition.directions == [direction]
        assert definition.metrics[0].startswith("val/")
        assert ":" not in definition.metrics[0]
    with pytest.raises(errors.LabError, match="write one"):
        define_sweep(
            prepared, [*SEARCH[:2], "sweep.metric=val/utility:max", "sweep.direction=minimize"]
        )


def test_the_section_takes_min_and_max_alone(prepared):
    with pytest.raises(errors.LabError, match=r"metrics\.utility must be min or max"):
        compose(prepared, ["trial=baseline", "metrics.utility=high"])


@pytest.fixture
def prepared(home):
    return Project(home, "myproj")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ([], []),
        (["checkpoint.monitor=val/acc", "checkpoint.mode=max"], []),
        (["checkpoint.monitor=val/utility"], []),
        (["checkpoint.monitor=null"], []),
        (["checkpoint.monitor=val/acc", "metrics.acc=min"], []),
        (
            ["checkpoint.monitor=val/acc"],
            [
                "lab: checkpoint.mode is min, so best.ckpt has the lowest val/acc. "
                "For the highest: checkpoint.mode=max"
            ],
        ),
    ],
)
def test_the_training_says_that_the_mode_may_be_forgotten(prepared, typed, told):
    from labrig.training.watch.no_effect import contrary_mode  # torch, which no other test needs

    assert contrary_mode(compose(prepared, ["trial=baseline", *typed]).config) == told


def test_the_tree_asks_below_the_line_of_a_trial(tmp_path, capsys):
    """c-direction: a trial whose direction nothing says has no best, and the others keep theirs."""
    project = make_project(tmp_path / "project")
    settings = "seed: 0\ncheckpoint:\n  monitor: val/acc\n  mode: min\n"
    train(project, code=NO_CODE, trial="wide", config_yaml=settings, metrics={"val/acc": 0.5})
    train(project, code=NO_CODE, metrics={"val/loss": 0.5})
    numbers = number_trials(project, all_rows(project), ["baseline", "wide"])
    assert (numbers["baseline"].best, numbers["wide"].best) == (0.5, None)
    with pytest.raises(errors.LabError, match=r"write --metric val/acc:max \(or :min\)"):
        result_table(project, "wide")
    assert "0.5" in result_table(project, "wide", "val/acc:max")
    with pytest.raises(errors.LabError, match="val/acc: is higher better"):
        number_trials(project, all_rows(project), ["wide"], "val/acc")
