"""`lab doctor --nodes`: what ranks have otherwise than the site's profile says, in one line with what to write."""

import pytest
from job_scripts import ANN, request_of
from labrig.cluster.doctor.command import advise
from labrig.cluster.doctor.node_check import NodeReport
from labrig.cluster.sites.site import load_site
from labrig.project import read_yaml


@pytest.fixture(autouse=True)
def no_settings_of_a_user(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("LAB_SITE_PATH", raising=False)


OF_PERLMUTTER = {"NCCL_SOCKET_IFNAME": "hsn", "NCCL_NET_GDR_LEVEL": "PHB", "NCCL_CROSS_NIC": "1"}


def reports(**of_last):
    """Of two nodes with four ranks as Perlmutter's profile says; what the last rank has otherwise."""
    usual = {"cores": 32, "n_gpus": 4, "variables": OF_PERLMUTTER}
    ranks = [NodeReport(rank=rank, host=f"n{rank // 4}", **usual) for rank in range(7)]
    return [*ranks, NodeReport(rank=7, host="n1", **usual | of_last)]


def advice(site_name="perlmutter", **of_last):
    site = load_site(ANN, site_name)
    return advise(site, request_of(site, gpus=4, nodes=2), reports(**of_last))


def test_ranks_as_the_profile_says_need_no_advice():
    assert advice() == []
    silent = NodeReport(rank=7, host="?")
    site = load_site(ANN, "perlmutter")
    assert advise(site, request_of(site, gpus=4, nodes=2), [*reports()[:7], silent]) == []


@pytest.mark.parametrize(
    ("of_last", "found", "to_write"),
    [
        (
            {"variables": OF_PERLMUTTER | {"NCCL_SOCKET_IFNAME": "eth0"}},
            "NCCL_SOCKET_IFNAME is eth0 on n1, but hsn in env of ",
            "take out what changes it on the node",
        ),
        (
            {"variables": {"NCCL_SOCKET_IFNAME": "hsn", "NCCL_NET_GDR_LEVEL": "PHB"}},
            "NCCL_CROSS_NIC is not set on n1, but 1 in env of ",
            "take out what changes it",
        ),
        (
            {"variables": OF_PERLMUTTER | {"NCCL_IB_DISABLE": "1"}},
            "NCCL_IB_DISABLE=1 on n1 is of your shell, not of ",
            "unset NCCL_IB_DISABLE, or write there: env: {NCCL_IB_DISABLE: 1}",
        ),
        (
            {"cores": 2},
            "a process may use 2 of its 32 cores on n1",
            'launcher_options: ["--gpu-bind=none", "--cpu-bind=none"]',
        ),
        (
            {"n_gpus": 1},
            "a process sees 1 of its node's 4 GPUs on n1, and NCCL needs the others",
            'launcher_options: ["--gpu-bind=none"',
        ),
    ],
)
def test_each_difference_is_a_line_with_what_to_write(of_last, found, to_write):
    (finding,) = advice(**of_last)
    assert finding.level == "note"
    assert found in finding.text
    assert to_write in finding.advice


def test_a_launcher_without_an_option_sends_to_the_help_desk():
    site = load_site(ANN, "wisteria_a")
    request = request_of(site, gpus=8, nodes=2)
    ranks = [NodeReport(rank=rank, host=f"n{rank // 8}", cores=1, n_gpus=8) for rank in range(16)]
    (finding,) = advise(site, request, ranks)
    assert finding.text == "a process may use 1 of its 9 cores on n0, n1"
    assert finding.advice.startswith("ask the help desk how mpiexec")


def test_a_variable_of_a_profile_need_not_be_of_nccl():
    site = load_site(ANN, "slurm")
    site = load_site(
        ANN, "slurm", read_yaml(site.path) | {"env": {"FI_CXI_RX_MATCH_MODE": "hybrid"}}
    )
    (finding,) = advise(site, request_of(site, gpus=0), [NodeReport(rank=0, host="n0", cores=1)])
    assert "FI_CXI_RX_MATCH_MODE is not set on n0" in finding.text
