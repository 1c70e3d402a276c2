"""Unknown keys in conf/config.yaml: those in a section of the library are refused, those of one's own are not."""

import pytest
import yaml
from labrig.config.check import NewKeys, SettingsSource, check_keys, dotted_keys
from labrig.errors import LabError
from projects import LIBRARY

LAB_YAML = LIBRARY / "conf/lab.yaml"
LAB = yaml.safe_load(LAB_YAML.read_text(encoding="utf-8"))
del LAB["defaults"]
FREE = ("callbacks", "log.bounds", "site.sources", "site.confidence", "site.env", "site.gpu")


def check(text):
    """Checks a conf/config.yaml of this text, after lab.yaml."""
    source = SettingsSource("conf/config.yaml", new_keys=NewKeys.OWN, lab=LAB)
    check_keys(yaml.safe_load(text), LAB, source)


def nested(name, value):
    for part in reversed(name.split(".")):
        value = {part: value}
    return yaml.safe_dump(value)


REFUSED = {
    "trainer: {max_epoch: 20}": "unknown setting 'trainer.max_epoch'; did you mean: trainer.max_epochs",
    "trainer: {epochs: 20}": "unknown setting 'trainer.epochs'",
    "checkpoint: {every_mn: 5}": "did you mean: checkpoint.every_min",
    "record: {dirtyy: refuse}": "did you mean: record.dirty",
    "trainr: {max_epochs: 3}": "did you mean: trainer",
    "seeed: 3": "did you mean: seed",
    "job: {gpu: 2}": "did you mean: job.gpus",
    "speed: {channel_last: true}": "did you mean: speed.channels_last",
    "site: {paths: {rums: x}}": "did you mean: site.paths.runs",
}
ACCEPTED = [
    "augment: {p: 0.5, crop: [24, 24]}",
    "n_folds: 5",
    "teacher: {_partial_: true}",
    "train: true",  # no misspelling of the section `trainer`
    "log: {bounds: {psnr: [0, 100]}}",
    "callbacks: {}",
    "trainer: {max_epochs: 3, gradient_clip_val: 1.0}",
    "a: {b: {c: {d: 1}}}",
]


@pytest.mark.parametrize("text", REFUSED)
def test_a_key_that_a_section_lacks_is_refused_with_the_nearest(text):
    with pytest.raises(LabError) as refused:
        check(text)
    assert REFUSED[text] in str(refused.value)
    assert str(refused.value).startswith("conf/config.yaml: ")


@pytest.mark.parametrize("text", ACCEPTED)
def test_keys_of_ones_own_are_accepted(text):
    assert check(text) is None


def test_every_section_of_the_library_is_guarded():
    """A release that renames a key is noticed by each project that sets it, whichever key it is."""
    sections = {name.rpartition(".")[0] for name in dotted_keys(LAB)} - {""}
    guarded = {section for section in sections if not section.startswith(FREE)}
    assert {"trainer", "checkpoint", "record", "job", "site.paths", "site.job"} <= guarded
    for section in guarded:
        with pytest.raises(LabError, match=f"unknown setting '{section}.key_of_an_old_release'"):
            check(nested(f"{section}.key_of_an_old_release", 1))
