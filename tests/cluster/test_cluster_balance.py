"""What is left of an allocation: the centre's own command, which may fail or hang."""

import re
import time
from pathlib import Path

import pytest
from labrig.cluster.doctor import checks as doctor_balance
from labrig.cluster.sites import site
from labrig.cluster.sites.site import Site, balance_lines, check_profile
from projects import project_in
from recorded_answers import lab  # noqa: F401  the fixture

ANSWER = "Project abc\n\nGPU hours: 120 of 1000\nCPU hours: 3 of 10\n"
PROFILE = """\
scheduler: slurm
paths: {runs: runs, checkpoints: null, data: [data], scratch: null, environment: .venv}
balance: {command: show_hours --mine, pattern: GPU}
"""


def lines_of(command, pattern=None):
    values = {"scheduler": "slurm", "balance": {"command": command, "pattern": pattern}}
    return balance_lines(Site("x", Path("x.yaml"), "", check_profile(values, "x.yaml")))


def printing(text):
    return f"printf '{text}'"


def test_the_lines_that_match_are_shown():
    assert lines_of(None) == []
    assert lines_of(printing(ANSWER)) == [line for line in ANSWER.splitlines() if line]
    assert lines_of(printing(ANSWER), "GPU") == ["GPU hours: 120 of 1000"]
    assert lines_of(printing(ANSWER), r"(\d+) of (\d+)") == ["120 1000", "3 10"]
    assert len(lines_of(printing("line\\n" * 50))) == site.MAX_LINES
    assert lines_of(printing("\\033[2J left")) == ["\\x1b[2J left"]


@pytest.mark.parametrize(
    ("command", "pattern", "reason"),
    [
        ("no-such-command", None, "not installed here"),
        ("sh -c 'echo down >&2; exit 3'", None, "failed: down"),
        (printing(ANSWER), "points", "no line of .* matches points"),
        (printing(ANSWER), "(", "in balance of x.yaml"),
        ("printf 'open", None, "in balance of x.yaml"),
    ],
)
def test_a_command_that_fails_costs_one_line(command, pattern, reason):
    (line,) = lines_of(command, pattern)
    assert line.startswith("not known: ")
    assert re.search(reason, line)


def test_a_command_that_hangs_is_left_alone_after_a_while(monkeypatch):
    monkeypatch.setattr(site, "PATIENCE_S", 0.3)
    began_s = time.monotonic()
    (line,) = lines_of("sh -c 'sleep 3 & sleep 3'")
    assert "did not answer" in line
    assert time.monotonic() - began_s < 2.5


@pytest.fixture
def ours(tmp_path, monkeypatch):
    """A site with a command for what is left."""
    (tmp_path / "ours.yaml").write_text(PROFILE)
    monkeypatch.setenv("LAB_SITE_PATH", str(tmp_path))
    return tmp_path / "ours.yaml"


def test_the_doctor_shows_it_and_what_to_correct(ours, monkeypatch):
    project = project_in(ours.parent)
    assert list(doctor_balance.balance(project)) == []  # site=workstation has none
    monkeypatch.setattr(doctor_balance, "site_of_host", lambda _: "ours")
    (finding,) = doctor_balance.balance(project)
    assert finding.level == "note"
    assert "show_hours is not installed here" in finding.text
    assert str(ours) in finding.advice
    ours.write_text(PROFILE.replace("show_hours --mine", "echo GPU hours 7"))
    (finding,) = doctor_balance.balance(project)
    assert (finding.level, finding.text) == ("ok", "GPU hours 7")


@pytest.mark.slow
def test_submit_shows_it_and_continues_without_it(lab, ours):  # noqa: F811
    lab.fake("sbatch", "12\n")
    lab.fake("squeue")
    lab.fake("show_hours", "", rc=1)
    output = lab("submit", "site=ours", "job.gpus=0", "--no-batch", "--", "true")
    assert "balance: not known: show_hours --mine failed" in output
    assert "job 12 " in output
