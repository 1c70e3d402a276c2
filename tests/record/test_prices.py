"""`lab runs cost` with the prices of a user's own file."""

import re

import pytest
from labrig.errors import LabError
from labrig.project import Project
from labrig.record.list.cost import LISTS, read_prices
from labrig.record.write.begin import begin_attempt
from projects import copy_of, work_on
from record_package import PACKAGE, call, create, make_project

PRICES = """\
unit: EUR
per_gpu_hour: {H100: 2.5, A100 80GB: 1.6, A100: 1.2}
kg_co2_per_kwh: 0.05
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A project with a run of two GPU-hours on each of three GPUs. Shared: copy it."""
    project = make_project(tmp_path_factory.mktemp("prices") / "project")
    for device in ("NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", "NVIDIA T4"):
        attempt = begin_attempt(create(project), project, device=device)
        attempt.end("finished", seconds=3600, gpu_seconds=7200, energy_j=3.6e6)
    return project


@pytest.fixture
def own(trained, tmp_path):
    return work_on(Project(copy_of(trained.root, tmp_path / "project"), PACKAGE))


@pytest.fixture
def write_prices(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "lab").mkdir()
    return (tmp_path / "lab/prices.yaml").write_text


def cost(project, capsys):
    call(project, "runs cost")
    return capsys.readouterr().out.splitlines()


def test_money_and_co2_come_from_the_users_prices(own, write_prices, capsys):
    without = cost(own, capsys)
    write_prices(PRICES)
    lines = cost(own, capsys)
    assert lines[0].split() == ["runs", "hours", "GPU-hours", "kWh", "EUR", "kg", "CO2"]
    # 2 h x 2.5 for the H100, 2 h x 1.6 for the A100 of 80 GB, nothing for the T4
    total = ["all", "3", "3.00", "6.00", "3.000", "8.20", "0.150"]
    assert total in [line.split() for line in lines]
    assert "EUR leaves out 2.00 GPU-hours of NVIDIA T4: add its price" in lines[-1]
    assert max(map(len, lines[:-1])) <= 80
    assert [line[: len(old)] for line, old in zip(lines, without, strict=False)] == without


def test_a_price_is_for_the_gpu_it_names(write_prices):
    write_prices("per_gpu_hour: {A10: 1, L4: 2, H200: 3, a100: 4}\n")
    prices = read_prices()
    names = ("NVIDIA A10", "NVIDIA A100-SXM4-80GB", "NVIDIA L40S", "NVIDIA GH200 480GB", None)
    assert [prices.of_gpu(name) for name in names] == [1, 4, None, None, None]


def test_a_default_is_for_all_others(own, write_prices, capsys):
    write_prices("unit: points\nper_gpu_hour: {H100: 10, default: 1}\n")
    lines = cost(own, capsys)
    assert lines[0].split()[-1] == "points"
    assert ["all", "3", "3.00", "6.00", "3.000", "24.00"] in [line.split() for line in lines]
    assert "leaves out" not in lines[-1]


def test_each_attempt_costs_by_its_own_gpu_and_kwh_say_what_they_lack(own, write_prices, capsys):
    run = create(own)
    begin_attempt(run, own, device="NVIDIA H100 80GB HBM3").end(
        "interrupted", seconds=3600, gpu_seconds=7200, energy_j=3.6e6
    )
    begin_attempt(run, own, device="NVIDIA A100-SXM4-40GB").end(
        "finished", seconds=3600, gpu_seconds=7200, energy_j=None
    )
    write_prices("per_gpu_hour: {H100: 10, default: 1}\n")
    lines = cost(own, capsys)
    # 2 h x 10 twice for the H100, and 2 h x 1 for each of the others
    assert ["all", "4", "5.00", "10.00", "4.000", "46.00"] in [line.split() for line in lines]
    assert "kWh leaves out 2.00 GPU-hours of 1 run: " in lines[-1]


def test_without_a_file_there_are_no_prices(own, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert read_prices() is None
    assert cost(own, capsys)[0].split() == ["runs", "hours", "GPU-hours", "kWh"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("per_gpu_hours: {H100: 2}\n", "did you mean: per_gpu_hour"),
        ("per_gpu_hour: 2\n", "not names of GPUs. For example"),
        ("per_gpu_hour: {H100: two}\n", r"per_gpu_hour.H100 is 'two'.*number from 0 on"),
        ("kg_co2_per_kwh: -1\n", "number from 0 on"),
        ("kg_co2_per_kwh: .nan\n", "number from 0 on"),
    ],
)
def test_a_mistake_in_the_file_is_named(write_prices, text, message):
    write_prices(text)
    with pytest.raises(LabError, match=message):
        read_prices()


def test_lists_of_clouds_say_when_and_where_they_were_read(own, capsys):
    for file in sorted(LISTS.glob("*.yaml")):
        call(own, "runs cost", "--list", file.stem)
        lines = capsys.readouterr().out.splitlines()
        assert re.search(
            r"^prices were read on 202\d-\d\d-\d\d at https://.*; yours may differ$", lines[-1]
        )
        assert lines[0].split()[-1] == "USD"
    call(own, "runs cost", "--list", "lambda")
    (total,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("all ")]
    # 2 h x 3.99 for the H100 and 2 h x 2.79 for the A100 of 80 GB; the list has no T4
    assert total.split()[-1] == "13.56"


def test_a_list_that_is_not_there_names_those_that_are(own):
    with pytest.raises(LabError, match=r"no list of prices 'amazon'.*Lists: aws, lambda, runpod"):
        call(own, "runs cost", "--list", "amazon")
