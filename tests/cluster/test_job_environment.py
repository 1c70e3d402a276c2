"""The variables, modules and lines of a site in a job: bash runs what the job script has of them."""

import subprocess
from pathlib import Path

import pytest
from labrig.cluster.job import environment
from labrig.cluster.job.environment import job_environment, rank_environment
from labrig.cluster.sites.site import Site, check_profile

SCRATCH = Path("/scratch")


@pytest.fixture(autouse=True)
def no_caches_of_this_process(monkeypatch):
    monkeypatch.setattr(environment, "own_cache_variables", dict)


def site_with(**values):
    return Site("here", Path("here.yaml"), "", check_profile({"scheduler": "slurm"} | values, "x"))


def printed(lines, *names, **variables):
    """What bash has of some variables after the lines."""
    script = "\n".join([*lines, *(f'printf "%s\\n" "${name}"' for name in names)])
    done = subprocess.run(
        ["bash", "-euc", script],
        env={"PATH": "/usr/bin:/bin"} | variables,
        capture_output=True,
        text=True,
    )
    assert not done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("written", "becomes"),
    [
        ("/tmp/$USER-miopen", "/tmp/ann-miopen"),
        ("${USER}s", "anns"),
        ("a b", "a b"),
        ('say "$USER"', 'say "ann"'),
        ("$(touch broken)$USER", "$(touch broken)ann"),
        ("`touch broken`$USER", "`touch broken`ann"),
        ("5$", "5$"),
        (3, "3"),
    ],
)
def test_variables_in_a_value_are_expanded_in_the_job_and_nothing_else_is(written, becomes):
    lines = job_environment(
        site_with(env={"PLACE": written}, internet={"jobs": True}), SCRATCH, None
    )
    assert printed(lines, "PLACE", USER="ann") == [becomes]


def test_a_value_of_a_rank_is_exported_in_the_rank():
    site = site_with(env={"CACHE": "/tmp/$SLURM_LOCALID", "A": "1"}, internet={"jobs": True})
    assert job_environment(site, SCRATCH, None) == ["export A=1"]
    for rank in "01":
        assert printed(rank_environment(site), "CACHE", SLURM_LOCALID=rank) == [f"/tmp/{rank}"]


def test_modules_of_other_places_and_the_lines_of_a_site():
    modules = {"use": ["$HOME/modules", "/appl/ai"], "load": ["pytorch"]}
    site = site_with(modules=modules, prologue=["ulimit -s 1024"], internet={"jobs": True})
    lines = job_environment(site, SCRATCH, None)
    assert lines[-1] == "ulimit -s 1024"
    module = 'module() { USED="${USED:-} $*"; }'
    assert printed([module, *lines], "USED", HOME="/home/ann") == [
        " use /home/ann/modules use /appl/ai load pytorch"
    ]
