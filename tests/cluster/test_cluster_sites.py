"""Profiles of sites: every fact has a source, and a job that breaks a rule is refused before sending."""

import re
from pathlib import Path

import pytest
import yaml
from job_scripts import ANN, SITES, job_request, job_script, job_settings, request_of
from labrig.cluster.schedulers.site_draft import parse_seconds
from labrig.cluster.sites.rules import build_request
from labrig.cluster.sites.site import OPTION_NAMES, Site, check_profile, load_site, site_of_host
from labrig.errors import LabError
from labrig.machine.text_formats import format_hms


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
        ("perlmutter", {"account": None}, "needs an account.*m1234"),
        ("perlmutter", {"time": "25h"}, "shared ends after 24 h"),
        ("lumi_g", {"account": None}, "needs an account.*project_"),
        ("lumi_g", {"nodes": 5}, "small-g gives at most 4 nodes"),
        ("alps_clariden", {"time": "13h"}, "normal ends after 12 h"),
        ("juwels_booster", {"queue": "develbooster", "nodes": 5}, "at most 4 nodes"),
        ("alliance", {"account": None}, "needs an account.*def-PROF"),
        ("alliance", {"time": "8-00:00:00"}, "any ends after 168 h"),
        ("mila", {"queue": "short-unkillable", "time": "4h"}, "ends after 3 h"),
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


def test_an_account_or_a_queue_may_be_a_number():
    assert "--account=12345" in job_request("slurm", account=12345).options
    assert job_request("slurm", queue=3).queue == "3"


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
        ("internet: false\n", "internet must be a section, {jobs: …, login: …}, but it is false"),
        ("queues: {a: 1}\n", "queues must be a list"),
        ("queues: [gpu]\n", r"queues\[0\] .* section"),
        ("queues:\n  - {name: gpu, max_hours: 3}\n", r"queues\[0\].max_hours"),
        ("paths: {runs: [a]}\n", "paths.runs"),
        ("launcher: shel\n", "x.yaml: launcher must be srun or .*did you mean: shell"),
        ("options: [-l, 3]\n", "options must be a list of texts"),
        ("container: {tool: docker}\n", "container.tool must be apptainer or singularity or pyxis"),
        ("queues: [{name: a, use: asking}]\n", r"queues\[0\].use must be .*did you mean: asked"),
        ("queues: [{name: a, max_h: long}]\n", r"queues\[0\].max_h must be a number of hours"),
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
        ("login12.chn.perlmutter.nersc.gov", "perlmutter"),
        ("lumi-uan02.csc.fi", "lumi_g"),
        ("clariden-ln001", "alps_clariden"),
        ("daint-ln004", "alps_daint"),
        ("juwels22.fz-juelich.de", "juwels_booster"),
        ("login05-ext.leonardo.cineca.it", "leonardo_booster"),
        ("alogin2.bsc.es", "marenostrum5_acc"),
        ("rorqual2.alliancecan.ca", "alliance"),
        ("login1.nibi.alliancecan.ca", "alliance"),
        ("login-2.login.server.mila.quebec", "mila"),
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
    job = job_settings(account="abc", total_gpus=total)
    request = build_request(load_site(ANN, site), job, "wide")
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
        build_request(load_site(ANN, site), job_settings(account="abc", **job), "wide")


@pytest.mark.parametrize(
    ("site", "job", "options"),
    [
        ("perlmutter", {}, ["--constraint=gpu", "--gpus-per-node=1", "--qos=shared"]),
        ("perlmutter", {"gpus": 4}, ["--constraint=gpu", "--gpus-per-node=4", "--qos=regular"]),
        ("perlmutter", {"nodes": 2, "gpus": 2}, ["--gpus-per-node=2", "--qos=regular"]),
        ("perlmutter", {"gpus": 4, "gpu_type": "hbm80g"}, ["--constraint=gpu&hbm80g"]),
        ("perlmutter", {"gpus": 0}, ["--constraint=cpu", "--qos=regular"]),
        ("leonardo_booster", {"time": "30h"}, ["--qos=boost_qos_lprod"]),
        ("leonardo_booster", {"gpus": 4, "nodes": 65}, ["--qos=boost_qos_bprod"]),
        ("lumi_g", {"gpus": 8, "time": "60h"}, ["--partition=small-g", "--gpus-per-node=8"]),
        ("marenostrum5_acc", {"queue": "acc_debug"}, ["--partition=acc", "--qos=acc_debug"]),
        ("alliance", {"gpus": 4, "gpu_type": "h100"}, ["--gpus-per-node=h100:4", "--mem=480000M"]),
        ("alliance", {"gpu_type": "h100_3g.40gb"}, ["--gpus-per-node=h100_3g.40gb:1"]),
        ("mila", {"gpus": 2}, ["--gres=gpu:2", "--partition=main", "--mem=32000M"]),
        ("mila", {"gpus": 4, "gpu_type": "l40s"}, ["--gres=gpu:l40s:4", "--partition=long"]),
    ],
)
def test_what_a_site_is_asked_for(site, job, options):
    assert set(options) <= set(job_request(site, **job).options)


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


def test_a_job_asks_for_one_gpu_and_two_hours_unless_told_otherwise():
    request = build_request(load_site(ANN, "slurm"), job_settings(), "wide")
    assert {"--gres=gpu:1", "--time=02:00:00"} <= set(request.options)


def test_an_early_time_limit_keeps_most_of_the_job():
    site = load_site(ANN, "slurm")
    assert build_request(site, job_settings(time="00:04:00"), "x").lead_s == 60
    assert build_request(site, job_settings(), "x").lead_s == 120


@pytest.mark.parametrize("use", ["shells", "asked"])
def test_a_queue_without_a_limit_gives_the_time_of_the_site(use):
    site = site_with("x", queues=[{"name": "long", "option": "-p {queue}", "use": use}])
    request = request_of(site, is_shell=use == "shells", queue="long" if use == "asked" else None)
    assert (request.queue, request.time_s) == ("long", parse_seconds(site["job"]["time"]))


def site_with(name, **profile):
    """A Slurm cluster with these keys in its profile."""
    profile = {"scheduler": "slurm", "requeue": {"method": "scontrol"}} | profile
    return Site(name, Path(f"{name}.yaml"), "", check_profile(profile, f"{name}.yaml"))


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        (
            {"resources": [{"gpus": "any", "options": ["--gres=gpu:{gpu}"]}]},
            r"x.yaml: resources\[0\].options has {gpu} in '--gres=gpu:{gpu}', "
            r"which nothing fills in; did you mean: gpus\. There are: name, nodes, gpus",
        ),
        ({"options": ["--nodes={node}"]}, "options has {node} .*did you mean: nodes"),
        ({"options": ["--x={}"]}, "options has {} in '--x={}', which nothing fills in"),
        ({"options": ["--x={gpus"]}, "options has '--x={gpus': expected '}' before end"),
        ({"reservation": ["-q {reservatoin}"]}, "did you mean: reservation"),
        ({"account": {"option": "-A {acount}"}}, "account.option .*did you mean: account"),
        ({"queues": [{"name": "a", "option": "-p {que}"}]}, r"queues\[0\].option .*mean: queue"),
        ({"container": {"base": "python:{pyton}"}}, "container.base .*did you mean: python"),
    ],
)
def test_a_name_in_an_option_that_nothing_fills_in_is_refused(profile, message):
    with pytest.raises(LabError, match=message):
        site_with("x", **profile)


def test_every_name_in_an_option_is_filled_in():
    job = {"qos": "q", "mem": "1G", "account": "abc", "chunk": "1h", "mail": "a@b.org", "after": 3}
    job |= {
        "constraint": "c",
        "reservation": "r",
        "exclude": "n1",
        "queue": "gpu",
        "name": "n",
        "gpu_type": "t",
    }
    not_set = {"total_gpus"}
    site = site_with(
        "x", options=[f"--{name}={{{name}}}" for name in OPTION_NAMES if name not in not_set]
    )
    options = request_of(site, **job).options
    assert {"--gpus=1", "--n_tasks=1", "--mem=1G", "--time_min=60"} <= set(options)
    assert not [option for option in options if "{" in option or option.endswith("=None")]


def test_an_option_that_needs_a_key_which_was_not_set_says_so():
    site = site_with("x", options=["--qos={qos}"])
    assert "--qos=short" in request_of(site, qos="short").options
    with pytest.raises(
        LabError, match=r"an option of x, '--qos={qos}', needs job.qos, which is not"
    ):
        request_of(site)


def test_runs_and_checkpoints_of_a_centre_lie_on_its_disks():
    """Not in a small home, and not on a disk that is purged where records must stay."""
    of_jean_zay = load_site(ANN, "jean_zay_h100")["paths"]
    assert of_jean_zay["runs"].startswith("$WORK/")
    assert of_jean_zay["checkpoints"].startswith("$SCRATCH")
    of_any = load_site(ANN, "slurm")["paths"]
    assert (of_any["checkpoints"], of_any["scratch"]) == ("$SCRATCH", "$SCRATCH")
