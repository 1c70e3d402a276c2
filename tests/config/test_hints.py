"""A hint names what was meant: the section of a setting, a trial's new name, the line of a mistake."""

import pytest
from labrig.config.hydra_loader import yaml_errors
from labrig.config.recorded import with_changes
from labrig.config.trial_names import what_became_of
from labrig.errors import LabError, nearest
from labrig.project import read_yaml
from omegaconf import OmegaConf

NAMES = ["logger", "optimizer", "optimizer.lr", "trainer.max_epochs", "data.batch_size", "paths"]


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("lr", "optimizer.lr"),
        ("learning_rate", "optimizer.lr"),
        ("max_epochs", "trainer.max_epochs"),
        ("epochs", "trainer.max_epochs"),
        ("bs", "data.batch_size"),
        ("optimiser", "optimizer"),
        ("path", "paths"),
    ],
)
def test_a_setting_without_its_section_is_that_of_a_section(word, meant):
    assert nearest(word, NAMES) == f"; did you mean: {meant}"


def test_a_setting_of_several_sections_is_named_in_each():
    names = ["task.n_classes", "model.n_classes", "model.head.n_classes"]
    assert nearest("n_classes", names) == "; did you mean: task.n_classes or model.n_classes"


# a mistake in a YAML file, and its line
WRONG = {
    "a: 1\ntrainer\nmax: 3\n": 2,
    "a: 1\ntrainer\n  max: 3\n": 2,
    "trainer:\n  max_epochs:3\n  log: 3\n": 2,
    "a: 1\n# a comment\nx: [1, 2\ny: 2\n": 3,
    'a: 1\nx: "one\ny: 2\n': 2,
    "a: 1\nx: 2\n y: 3\n": 3,
    "a: b: c\n": 1,
    "a: 1\n\tb: 2\n": 2,
    "a: 1\nb: ]\n": 2,
}


@pytest.mark.parametrize("text", WRONG)
def test_the_line_of_a_mistake_in_yaml_is_named_and_not_the_next_one(tmp_path, text):
    file = tmp_path / "a.yaml"
    file.write_text(text)
    with pytest.raises(LabError, match=rf"a\.yaml:{WRONG[text]}:\d+ is not valid YAML"):
        read_yaml(file)
    with pytest.raises(LabError, match=rf"a\.yaml, line {WRONG[text]}, column"), yaml_errors(file):
        OmegaConf.load(file)


PAGE = """
- 2026-01-02 renamed `wide` to `wider`
- 2026-01-03 renamed `wider` to `zebra`
- 2026-01-04 dropped `deep` at `abc123`
- 2026-01-05 renamed `old` to `deep`
"""


def test_a_trial_that_is_gone_says_what_became_of_it(tmp_path):
    (tmp_path / "TRIALS.md").write_text(PAGE)
    trials = tmp_path / "trials"
    (trials / "zebra").mkdir(parents=True)

    def became(name):
        return what_became_of(name, tmp_path / "TRIALS.md", trials)

    assert became("wide") == became("wider") == "; it was renamed: zebra"
    assert "dropped on 2026-01-04. To bring it back: lab trials restore deep" in became("deep")
    assert "lab trials restore deep" in became("old")
    assert became("nothing") == ""


def test_other_data_of_a_run_are_chosen_by_their_file(tmp_path):
    config = OmegaConf.create({"data": {"path": "a.h5", "seed": 0}})
    with pytest.raises(LabError, match=r"the same form: data\.path=cells2\.h5"):
        with_changes(config, ["data=cells2"], ("trainer.", "data."), "advice")
