"""Profiles of sites: every fact has a source, and a job that breaks a rule is refused before sending."""

import re

import pytest
import yaml
from job_scripts import ANN, SITES, job_request, job_script
from labrig.cluster.job_size import format_hms, parse_seconds
from labrig.cluster.site import check_profile, load_site, site_of_host
from labrig.cluster.site_rules import build_request
from labrig.errors import LabError


@pytest.fixture(autouse=True)
def config_home(monkeypatch, tmp_path):
    """The configuration directory of a user without settings."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("LAB_SITE_PATH", raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "job", "rule"),
    [
        ("jean_zay_h100", {"gpus": 5}, "4 GPUs.*gpu.per_node"),
        ("jean_zay_h100", {"time": "101:00:00"}, "qos_gpu_h100-t4 ends after 100 h"),
        ("jean_zay_h100", {"gpus": 4, "nodes": 20, "time": "30:00:00"}, "at most 64 GPUs"),
        ("jean_zay_h100", {"queue": "qos_gpu_h100-dev", "time": "3:00:00"}, "ends after 2 h"),
        ("jean_zay_a100", {"account": None}, "needs an account.*IDRIS"),
        ("lanta", {"account": "l t"}, "is not an account name"),
        ("abci3", {"gpus": 2}, "no such resource type"),
        ("abci3", {"gpus": 1, "nodes": 2}, "no such resource type"),
        ("tsubame4", {"time": "25:00:00"}, "ends after 24 h"),
        ("workstation", {"nodes": 2}, "one machine"),
        ("workstation", {"mail": "a@b.org"}, "job.mail.*job.extra"),
        ("miyabi_c", {"gpus": 1}, "has no GPUs"),
        ("tsubame4", {"queue": "trial", "time": "4m"}, "trial ends after 3 min"),
        ("tsubame4", {"queue": "trial", "time": "3m", "gpus": 4, "nodes": 3}, "at most 2 nodes"),
        ("wisteria_a", {"gpus": 4, "time": "30h"}, "share gives at most 2 GPUs; share ends after 24 h"),
        ("wisteria_a", {"reservation": "r1"}, "job.reservation.*job.extra"),
        ("slurm", {"time": "soon"}, "is not a time"),
        ("slurm", {"time": "2h", "chunk": "soon"}, "job.chunk=soon is not a time"),
        ("slurm", {"time": "2h", "chunk": "2h"}, "not shorter than job.time=02:00:00.*20h"),
        ("workstation", {"time": "2h", "chunk": "1h", "gpus": 0}, "lab resume RUN"),
        ("slurm", {"time": "59s"}, "at least 60 s"),
        ("slurm", {"tasks_per_node": 2}, "share a GPU"),
        ("slurm", {"nodes": 0}, "at least 1"),
        ("slurm", {"cpus_per_task": "many"}, "whole number"),
    ],
)  # fmt: skip
def test_what_a_site_forbids_is_refused_before_sending(name, job, rule):
    with pytest.raises(LabError, match=re.compile(rule, re.S)):
        job_script(name, **job)


def test_an_array_larger_than_a_queue_allows_goes_to_the_next_queue():
    assert "--qos=qos_gpu_h100-dev" in job_script("jean_zay_h100", n_runs=10)
    assert "--qos=qos_gpu_h100-t3" in job_script("jean_zay_h100", n_runs=11)


def test_the_account_comes_from_the_users_configuration(config_home):
    (config_home / "lab").mkdir()
    (config_home / "lab/accounts.yaml").write_text("jean_zay: abc\nlanta: lt123456\n")
    assert "--account=abc@h100\n" in job_script("jean_zay_h100", account=None)
    assert "--account=abc@v100\n" in job_script("jean_zay_v100", account=None)
    assert "--account=lt123456\n" in job_script("lanta", account=None)


@pytest.mark.parametrize("name", SITES)
def test_every_fact_of_a_profile_has_a_source_and_a_confidence(name):
    site = load_site(ANN, name)
    confidence = site["confidence"]
    facts = yaml.safe_load(site.text).keys() & {
        "gpu", "account", "resources", "queues", "options", "launcher", "launcher_options", "modules", "node_local",
        "requeue", "cost", "home_writable",
    }  # fmt: skip
    if name in ("slurm", "lsf"):
        facts -= {"gpu"}
    assert facts <= {key.partition(".")[0] for key in confidence}
    for mark, source in confidence.values():
        assert mark in ("V", "D", "U", "?")
        assert source in site["sources"]
    for source in site["sources"].values():
        assert "seen" in source
        assert "url" in source or "what" in source
    if name not in ("slurm", "workstation"):
        assert not site["verified"]  # nobody on the project has run there


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("scheduler: slrum\n", "one of"),
        ("schedular: slurm\n", "did you mean: scheduler"),
        ("requeue: {method: always}\n", "requeue.method is 'always'.*one of"),
        ("internet: 3\n", "internet must be true or false"),
        ("queues: {a: 1}\n", "queues must be a list"),
        ("queues: [gpu]\n", r"queues\[0\] .* section"),
        ("queues:\n  - {name: gpu, max_hours: 3}\n", r"queues\[0\].max_hours"),
        ("paths: {runs: [a]}\n", "paths.runs"),
    ],
)
def test_a_profile_that_breaks_the_rules_is_named(text, message):
    with pytest.raises(LabError, match=message):
        check_profile(yaml.safe_load(f"scheduler: slurm\n{text}"), "x.yaml")


@pytest.mark.parametrize(
    ("host", "site"),
    [
        ("jean-zay3.idris.fr", "jean_zay_v100"),
        ("login2.t4.gsic.titech.ac.jp", "tsubame4"),
        ("login1.v3.abci.ai", "abci3"),
        ("wisteria03.cc.u-tokyo.ac.jp", "wisteria_a"),
        ("wisteria03", "wisteria_a"),
        ("miyabi-g2", "miyabi_g"),
        ("miyabi-c1.jcahpc.jp", "miyabi_c"),
        ("lanta-login01", "lanta"),
        ("login1", None),  # of some other cluster
        ("laptop", None),
    ],
)
def test_a_login_node_chooses_its_site(host, site):
    assert site_of_host(ANN, host) == site


@pytest.mark.parametrize(
    ("site", "total", "nodes", "gpus"),
    [
        ("jean_zay_h100", 3, 1, 3),
        ("jean_zay_h100", 8, 2, 4),
        ("jean_zay_h100", 6, 2, 3),
        ("tsubame4", 6, 3, 2),  # there are no nodes with 3
        ("abci3", 16, 2, 8),
        ("miyabi_g", 8, 8, 1),
        ("workstation", 2, 1, 2),
    ],
)
def test_gpus_of_all_nodes_are_split_as_the_site_has_them(site, total, nodes, gpus):
    request = build_request(load_site(ANN, site), {"account": "abc", "total_gpus": total}, "wide")
    assert (request.nodes, request.gpus) == (nodes, gpus)


@pytest.mark.parametrize(
    ("site", "job", "message"),
    [
        ("slurm", {"total_gpus": 8}, "does not say how many GPUs a node has"),
        ("abci3", {"total_gpus": 2}, "share them evenly.*1 on at most 1 node\\b"),
        ("miyabi_c", {"total_gpus": 1}, "share them evenly"),
        ("abci3", {"total_gpus": 8, "gpus": 8}, "one way only"),
        ("abci3", {"total_gpus": 0}, "at least 1"),
    ],
)
def test_gpus_that_cannot_be_split_are_refused(site, job, message):
    with pytest.raises(LabError, match=message):
        build_request(load_site(ANN, site), {"account": "abc"} | job, "wide")


def test_a_shell_waits_in_a_queue_for_shells_and_gets_its_time():
    shell = job_request("wisteria_a", is_shell=True)
    assert (shell.queue, shell.time_s) == ("share-interactive", 600)
    long_shell = job_request("wisteria_a", is_shell=True, time="1h")
    assert long_shell.queue == "share-short"
    assert job_request("wisteria_a").queue == "share-short"


def test_a_trial_at_tsubame_names_no_group():
    trial = job_request("tsubame4", queue="trial", gpus=4, nodes=2)
    assert (trial.time_s, trial.submit_options) == (180, [])
    assert job_request("tsubame4", gpus=4).submit_options == ["-g", "abc"]


@pytest.mark.parametrize(
    ("site", "options"),
    [
        ("slurm", ["--reservation=r1"]),
        ("tsubame4", ["-ar r1"]),
        ("abci3", ["-q r1", "-v USE_SSH=1,RTYPE=rt_HG"]),
        ("miyabi_g", ["-q r1"]),
    ],
)
def test_a_reservation_is_named_as_each_scheduler_wants_it(site, options):
    request = job_request(site, reservation="r1")
    assert set(options) <= set(request.options)
    queues = [option for option in request.options if option.startswith("-q ")]
    assert queues == [option for option in options if option.startswith("-q ")]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10:00:00", 36000),
        ("1-12:00:00", 129600),
        ("90m", 5400),
        ("10h", 36000),
        ("00:30", 1800),
        (7200, 7200),
        ("1.5h", 5400),
    ],
)
def test_times(text, seconds):
    assert parse_seconds(text) == seconds
    assert parse_seconds(format_hms(seconds)) == seconds


def test_an_early_time_limit_keeps_most_of_the_job():
    site = load_site(ANN, "slurm")
    assert build_request(site, {"time": "00:04:00"}, "x").lead_s == 60
    assert build_request(site, {}, "x").lead_s == 120
