"""conf/.schema.json: what an editor underlines is what `lab` refuses."""

import json

import jsonschema
import pytest
from labrig.config.editor_schema import write_schema
from labrig.project import CONF, Project, read_yaml
from projects import SOURCE, project_in

PACKAGE = SOURCE / "myproj"


@pytest.fixture
def faults(tmp_path):
    """faults(text): the places of a trial's YAML that an editor underlines."""
    schema = json.loads(write_schema(project_in(tmp_path)).read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)

    def faults(text):
        file = tmp_path / "trial.yaml"
        file.write_text(text)
        errors = validator.iter_errors(read_yaml(file))
        return [f"{'.'.join(map(str, error.absolute_path))}: {error.message}" for error in errors]

    return faults


def test_files_of_a_project_and_debug_options_have_no_fault(faults):
    files = [PACKAGE / "conf/config.yaml", *PACKAGE.glob("trials/*/*.yaml")]
    files += CONF.glob("debug/*.yaml")
    for file in files:
        assert faults(file.read_text()) == [], file


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("trainer: {max_epoch: 3}", "trainer: "),
        ("trainer: {max_epochs: three}", "trainer.max_epochs: "),
        ("checkpoint: {mode: minimum}", "checkpoint.mode: "),
        ("checkpoint: {monitr: val/loss}", "checkpoint: "),
        ("model: {widht: 32}", "model: 'widht'"),
        ("optimzer: {lr: 0.1}", ": 'optimzer'"),
        ("logger: {wandb: {entity: me}}", None),
        ("seed: ${oc.env:SEED}", None),
        ("trainer: {gradient_clip_val: 1.0}", None),
        ("callbacks: {mine: {_target_: .callbacks.Mine, n: 3}}", None),
    ],
)
def test_a_misspelt_key_and_a_wrong_value_are_underlined(faults, text, place):
    found = faults(text)
    assert [each.startswith(place) for each in found] == ([True] if place else [])


def test_a_key_of_ones_own_is_written_in_the_primary_file(faults, tmp_path):
    assert faults("defaults: [lab, _self_]\nmine: 3") == []
    assert faults("mine: 3")
    config = tmp_path / "src/myproj/conf/config.yaml"
    config.write_text(f"{config.read_text()}\nmine: 3\n")
    schema = json.loads(write_schema(Project(tmp_path, "myproj")).read_text())
    assert list(jsonschema.Draft7Validator(schema).iter_errors({"mine": 4})) == []
