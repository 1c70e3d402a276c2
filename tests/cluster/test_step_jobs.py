"""Chunks under PJM are step jobs: all are sent from the login node, as Wisteria forbids pjsub on compute nodes.

A stand-in for pjsub answers as the manual of Fugaku shows.
"""

import json
import os
from types import SimpleNamespace

import pytest
from job_scripts import ANN, job_script, request_of
from labrig.cluster.schedulers import scheduler, scheduler_of
from labrig.cluster.sites.site import load_site
from labrig.cluster.submit import send
from labrig.errors import LabError
from labrig.record.read.run import Run
from test_unanswered import make_run

PJSUB = """#!/bin/sh
echo "$@" >>{tools}/calls
case "$*" in *--step*) step=_$(($(wc -l <{tools}/calls) - 1)) ;; esac
[ "$step" != _{full} ] || {{ echo "[ERR.] PJM 0050 pjsub The number of jobs is over the limit" >&2; exit 1; }}
echo "[INFO] PJM 0000 pjsub Job 64856$step submitted."
"""
CHUNKS = {"gpus": 8, "time": "8h", "chunk": "3h"}


@pytest.fixture(autouse=True)
def no_settings_of_a_user(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("LAB_SITE_PATH", raising=False)


@pytest.fixture
def sent(tmp_path, monkeypatch):
    """sent(full, **job): sends a run to Wisteria, which takes `full` jobs of it; the answer, and the calls."""

    def send_run(full=99, **job):
        tools = tmp_path / "tools"
        tools.mkdir()
        (tools / "pjsub").write_text(PJSUB.format(tools=tools, full=full))
        (tools / "pjsub").chmod(0o755)
        monkeypatch.setenv("PATH", str(tools), prepend=os.pathsep)
        run = make_run(tmp_path, scheduler="pjm", site="wisteria_a")
        run.update(files={})
        script = run.dir / "job.sh"
        script.write_text(job_script("wisteria_a", **job))
        monkeypatch.setattr(send, "write_script", lambda *_: script)
        monkeypatch.setattr(
            scheduler.Scheduler, "numbers_sent_for", lambda *_: ["64856"] if job else []
        )
        site = load_site(ANN, "wisteria_a")
        plan = SimpleNamespace(
            site=site,
            request=request_of(site, **job),
            throttle=1,
            script="job.sh",
            trains=True,
            attempt=None,
            changed=(),
            after=None,
        )
        (answer,) = send.send_runs(plan, [run], None)
        calls = (tools / "calls").read_text().replace(f"{run.dir}/", "").splitlines()
        return answer, calls, Run.open(run.dir)

    return send_run


def test_the_chunks_are_steps_of_one_job(sent):
    answer, calls, run = sent(**CHUNKS)
    assert calls == [
        "--step job.sh",
        "--step --sparam jid=64856 chunks/2.sh",
        "--step --sparam jid=64856 chunks/3.sh",
    ]
    assert answer.chain == ["64856_0", "64856_1", "64856_2"]
    assert run.record["job"]["chain"] == answer.chain
    chunk = (run.dir / "chunks/2.sh").read_text()
    assert "#PJM -L elapse=03:00:00\n" in chunk
    assert "export LAB_CHUNK=2\n" in chunk


def test_a_job_without_chunks_is_no_step(sent):
    answer, calls, _ = sent(gpus=8)
    assert calls == ["job.sh"]
    assert answer.job_id == "64856"


def test_a_chain_that_does_not_fit_is_shorter_and_says_so(sent, capsys):
    answer, _, run = sent(full=1, **CHUNKS)
    assert answer.chain == ["64856_0"]
    assert "only 1 of 3 chunks are queued" in capsys.readouterr().err
    assert json.loads((run.dir / "run.json").read_text())["job"]["chain"] == ["64856_0"]


def test_the_job_itself_sends_nothing():
    for shape in (CHUNKS, {"gpus": 8}, {"n_runs": 3}):
        for site in ("wisteria_a", "wisteria_o"):
            if site == "wisteria_o":
                shape = shape | {"gpus": 0}
            script = job_script(site, **shape)
            commands = [
                line for line in script.splitlines() if not line.startswith(("#", "  echo"))
            ]
            assert not [line for line in commands if "pjsub" in line]


def test_a_list_of_chains_is_refused_with_what_to_type():
    with pytest.raises(LabError, match=r"job.chunk with 3 runs: wisteria_a \(pjm\) .*seed=0"):
        job_script("wisteria_a", n_runs=3, **CHUNKS)


def test_a_step_is_listed_by_its_number():
    answer = "H,JOB_ID,ST,ELAPSE\n,64856,RUN,0000:10:00\n,64856_0,RUN,0000:10:00\n,64856_1,QUE,0\n"
    jobs = scheduler_of("pjm").read_jobs(answer)
    assert [job.job_id for job in jobs] == ["64856", "64856_0", "64856_1"]
