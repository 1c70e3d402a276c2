"""The numbers table of a README marks the best where `lab runs export` does, in the same digits."""

import re

import pytest
from labrig.trials.result import result_table
from record_package import call, make_project, train

CELL = re.compile(r"\d[\d.]* ± [\d.]+")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("second", "bold"), [((0.8, 0.83, 0.8), ["0.510 ± 0.010"]), ((0.8, 0.3, 0.6), [])]
)
def test_bold_and_digits_are_those_of_the_table(tmp_path, second, bold):
    project = make_project(tmp_path / "project")
    for lr, losses in ((0.1, (0.5, 0.52, 0.51)), (0.2, second)):
        for seed, loss in enumerate(losses):
            config = f"seed: {seed}\noptimizer:\n  lr: {lr}\n"
            train(project, seed=seed, config_yaml=config, metrics={"val/loss": loss})
    result = result_table(project, "baseline")
    call(project, "runs export", "--metric", "val/loss", "-o", tmp_path / "table.md")
    exported = (tmp_path / "table.md").read_text().partition("<!--")[0]
    for text in (result, exported):
        assert re.findall(r"\*\*(.+?)\*\*", text) == bold
    assert sorted(CELL.findall(result)) == sorted(CELL.findall(exported))
