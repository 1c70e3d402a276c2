"""A plug-in's scheduler may have a command of two words, and ids of jobs that are no numbers."""

import os
import re
import subprocess
from dataclasses import replace
from types import SimpleNamespace

import pytest
from job_scripts import job_script
from labrig.cluster.schedulers import scheduler
from labrig.cluster.schedulers.scheduler import Scheduler
from labrig.machine.ranks import _port
from labrig.record.read.find import find_run, find_runs, number_of_array, number_of_job
from recorded_answers import lab, make_run  # noqa: F401
from test_schedulers import REQUEST

RUN_ID = "20261120-190003-abcdef"


class Flux(Scheduler):
    name = "flux"
    submit_command = ("flux", "batch", "--flags=debug")
    answer = r"^(f\w+)$"
    array = ("--cc=1-{n}",)
    array_id = "{number}[{index}]"
    run_id_option = "--job-name={name}.{run_id}"
    sent_command = ("flux", "jobs", "-a")
    cancel_command = ("flux", "cancel", "{id}")
    end_questions = ((("flux", "show", "{number}"), lambda answer, job_id: None),)
    chain = ("--dependency=afterany:{job}",)
    prefix = "#flux: "


@pytest.fixture
def flux(monkeypatch):
    """The scheduler, with answers by the second word of the command, and the commands that were typed."""
    answers, typed = {}, []

    def run(*command, **_):
        typed.append(list(command))
        return answers.get(command[1], "")

    monkeypatch.setattr(scheduler, "run_scheduler_command", run)
    return SimpleNamespace(one=Flux(), answers=answers, typed=typed)


def test_a_script_is_sent_and_shown_with_both_words(flux, tmp_path):
    script = tmp_path / "job.sh"
    script.write_text("")
    flux.answers["batch"] = "f3Qd9\n"
    assert flux.one.send(REQUEST, script, 1) == ["f3Qd9"]
    assert flux.typed[-1][:2] == ["flux", "batch"]
    request = replace(REQUEST, submit_options=["--queue=gpu"])
    assert flux.one.send_line(request, "/r/job.sh") == "flux batch --queue=gpu /r/job.sh"
    assert flux.one.send(REQUEST, script, 2) == ["f3Qd9[0]", "f3Qd9[1]"]
    assert flux.one.chain_options("f3Qd9[1]", 1) == ["--dependency=afterany:f3Qd9"]
    flux.answers["batch"] = ""
    with pytest.raises(Exception, match="flux batch queued nothing"):
        flux.one.send(REQUEST, script, 1)


def test_a_job_without_an_answer_is_found_by_its_run(flux):
    flux.answers["jobs"] = f"JOBID NAME\nf3Qd9 wide.{RUN_ID}\nf4Ab1 other\nf5Zz[0] wide.{RUN_ID}\n"
    assert flux.one.numbers_sent_for(RUN_ID) == ["f3Qd9", "f5Zz"]


@pytest.mark.parametrize(
    ("job_id", "number", "array"),
    [
        ("f3Qd9", "f3Qd9", None),
        ("f3Qd9[2]", "f3Qd9", "f3Qd9"),
        ("1234", "1234", None),
        ("1234_7", "1234", "1234"),
        ("13[2].pbs1", "13", "13"),
        ("99.2", "99", "99"),
    ],
)
def test_the_number_of_an_id(job_id, number, array):
    assert number_of_job(job_id) == number
    assert number_of_array(job_id) == array


def test_runs_are_found_by_such_an_id(lab):  # noqa: F811
    first = make_run(lab, 3, {"id": "f3Qd9[0]", "site": "ours", "scheduler": "flux"})
    second = make_run(lab, 4, {"id": "f3Qd9[1]", "site": "ours", "scheduler": "flux"})
    roots = [lab.runs.parent]
    assert find_run(roots, "f3Qd9[1]").dir.name == second.name
    assert {run.dir.name for run in find_runs(roots, "f3Qd9")} == {first.name, second.name}


def test_ranks_on_several_nodes_agree_on_a_port():
    ports = {_port({"LAB_JOB": job_id}, 2) for job_id in ("f3Qd9", "f3Qda", "f4Ab1")}
    assert len(ports) == 3
    assert all(20000 <= port < 30000 for port in ports)
    assert _port({"LAB_JOB": "f3Qd9"}, 2) == _port({"LAB_JOB": "f3Qd9"}, 2)


def test_the_job_script_derives_a_port_of_it():
    text = job_script("abci3", gpus=None, nodes=2)
    lines = re.search(r"^NUMBER=.*?^MASTER_PORT=.*?$", text, re.M | re.S)[0]
    ports = set()
    for job_id in ("f3Qd9", "f4Ab1", "1234.pbs1"):
        done = subprocess.run(
            ["bash", "-euc", f"{lines}\necho $MASTER_PORT"],
            env=os.environ | {"JOB": job_id, "LAB_INDEX": "0"},
            capture_output=True,
            text=True,
            check=True,
        )
        ports.add(int(done.stdout))
    assert len(ports) == 3
    assert 20000 + 1234 * 7 % 10000 in ports
