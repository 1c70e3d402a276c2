# ruff: noqa: F811 (fixtures are imported by name)
"""From a laptop to hosts behind ssh: a run is sent, seen, followed, cancelled and fetched."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from projects import ROOT, equip
from slurm_jobs import json_of, wait_until
from ssh_hosts import hosts, lab  # noqa: F401

PIP_CONFIG = Path.home() / ".config/pip/pip.conf"  # an account of these tests has another home
NO_GPU = ("job.gpus=0", "job.time=00:10:00")


def send(lab, *words, on="a", rc=0):
    """What --json says of a submission; words from "--" on are the command."""
    place = words.index("--") if "--" in words else len(words)
    sent = lab("submit", f"on={on}", *NO_GPU, *words[:place], "--json", *words[place:], rc=rc)
    return json_of(sent)


def ended(sent):
    return wait_until((Path(sent["run_dir"]) / "summary.json").exists, "the run over")


def test_a_host_without_an_entry_is_reported_with_the_lines_to_write(module, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    host_of = module("remote.connection").host_of
    with pytest.raises(module("errors").LabError, match=r"(?s)no host 'jz'.*jz:\n +path: "):
        host_of("jz")
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab/hosts.yaml").write_text("jz:\n  ssh: jean-zay\n  pth: $WORK\n")
    with pytest.raises(module("errors").LabError, match="did you mean: path"):
        host_of("jz")
    (tmp_path / "lab/hosts.yaml").write_text("jz:\n  ssh: jean-zay\n")
    with pytest.raises(module("errors").LabError, match="jz needs a line such as  path:"):
        host_of("jz")
    with pytest.raises(module("errors").LabError, match=r"no host 'jy'; did you mean: jz\. It has"):
        host_of("jy")
    with pytest.raises(module("errors").LabError, match="on= names no host"):
        host_of("")


def test_only_the_path_of_a_host_is_expanded_there(module, monkeypatch, tmp_path):
    monkeypatch.setenv("DISK", str(tmp_path / "a disk"))
    place, hosts = module("remote.place"), module("remote.connection")
    connection = module("remote.connection").Connection(hosts.Host("jz", "$DISK"), ())
    monkeypatch.setattr(type(connection), "command", lambda _, script: ["bash", "-c", script])
    project = SimpleNamespace(root=tmp_path / "$(touch made) it's")
    code = {"commit": "a" * 40, "prefix": ""}
    frozen = SimpleNamespace(code=code, library=code, lock="lock", bundles=[])
    monkeypatch.chdir(tmp_path)
    found = place.look(connection, project, frozen)
    assert found.path == f"{tmp_path}/a disk/$(touch made) it's"
    assert [path.name for path in tmp_path.iterdir()] == ["a disk"]


@pytest.mark.release
@pytest.mark.slow
def test_a_run_is_sent_followed_and_fetched(lab, hosts):
    account = hosts.accounts["a"]
    note = lab.folder / "src/myproj/note.txt"
    note.write_text("as sent")
    program = "cat src/myproj/note.txt; echo weights >$LAB_COMMAND_RUN_DIR/checkpoints/last.ckpt; "
    program += "until [ -e ~/go ]; do sleep 0.2; done; exit 3"
    sent = send(lab, "--why", "to see", "--", "bash", "-c", program)
    note.write_text("as edited")
    assert Path(sent["run_dir"]).is_relative_to(account.place)
    wait_until(lambda: "running" in lab("queue"), "the job running")
    queue = lab("queue")
    assert "on a:" in queue
    assert sent["run_id"] in queue
    assert "as sent" in lab("logs", sent["run_id"][:-2])
    assert "is running on a" in lab("runs", "pull")
    assert not (lab.folder / "runs/command").exists()

    (account.home / "go").touch()
    assert "ended with code 3" in lab("logs", "@last", "-f")
    ended(sent)
    assert f"{sent['run_id']} is failed. Its record: lab runs pull" in lab("queue")
    assert "1 fetched" in lab("runs", "pull")
    assert "0 fetched" in lab("runs", "pull")
    here = lab.folder / "runs/command" / sent["run_id"]
    record = json.loads((here / "run.json").read_text())
    assert record["why"] == "to see"
    assert not (here / "checkpoints").exists()
    assert "1 fetched" in lab("runs", "pull", "@last", "--checkpoints")
    assert (here / "checkpoints/last.ckpt").read_text() == "weights\n"
    shown = json.loads(lab("runs", "show", "@last", "--json"))
    assert shown["status"] == "failed"
    code = lab.folder.parent / "code of the run"
    lab("runs", "code", sent["run_id"], code)
    assert (code / "src/myproj/note.txt").read_text() == "as sent"
    assert lab("queue").strip() == "no jobs"


@pytest.mark.release
@pytest.mark.slow
def test_only_what_is_new_travels(lab, hosts):
    account = hosts.accounts["b"]
    first = send(lab, "--", "true", on="b")
    (account.home / "commands").unlink()
    second = send(lab, "--", "true", on="b")
    assert len(account.commands()) == 3, "the connection, a look, and the submission"
    (lab.folder / "src/myproj/new.txt").write_text("new")
    (account.home / "commands").unlink()
    third = send(lab, "--", "true", on="b")
    assert len([each for each in account.commands() if "cat >" in each and "mv " in each]) == 2, (
        "one bundle with the difference, and the label of the unpacked code"
    )
    assert len({sent["run_id"] for sent in (first, second, third)}) == 3
    for sent in (first, second, third):
        ended(sent)


@pytest.mark.release
def test_a_training_needs_the_data_of_this_machine_on_the_host(lab, hosts):
    account = hosts.accounts["a"]
    words = ["submit", "on=a", *NO_GPU, "trial=baseline", "trainer=cpu", "--no-batch", "--json"]
    n_runs = len(account.run_dirs())
    assert "neither here nor on the host" in lab(*words, rc=4)
    lab("data", "pack", "digits")
    output = lab(*words, rc=4)
    assert "type the same again" in output
    command = shlex.split(next(line for line in output.splitlines() if "rsync" in line))
    assert command[:3] == ["rsync", "-avP", "--"]
    assert command[4] == f"a:{account.place}/data/"
    assert len(account.run_dirs()) == n_runs, "nothing was recorded"
    there = account.place / "data/digits.h5"
    there.write_bytes(Path(command[3]).read_bytes())
    sent = json_of(lab(*words, "job.after=null"))
    assert "cancelled job" in lab("cancel", sent["run_id"])
    lab("data", "pack", "digits", "--seed", "1")
    assert "has other content than yours" in lab(*words, rc=4)
    ended_or_gone(sent)


def ended_or_gone(sent):
    """A job that was cancelled before its training began leaves no summary."""
    pid = json.loads((Path(sent["run_dir"]) / "run.json").read_text())["job"]["id"].split("-")[0]
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the job over")


@pytest.mark.release
@pytest.mark.slow
def test_of_two_hosts_the_job_that_starts_first_continues(lab, hosts):
    a, b = hosts.accounts["a"], hosts.accounts["b"]
    program = 'echo "$HOME" >>"$0"; until [ -e "$0.go" ]; do sleep 0.2; done'
    file = hosts.folder / "raced"
    words = ["submit", "on=a,b", *NO_GPU, "--json", "--", "bash", "-c", program, str(file)]
    sent = json_of(lab(*words))
    assert len({run["run_id"] for run in sent}) == 2
    second = Path(sent[1]["run_dir"])
    assert second.is_relative_to(b.place)
    log = second / "job.log"
    wait_until(lambda: log.exists() and "the job on a has started first" in log.read_text(), "b")
    assert file.read_text() == f"{a.home}\n", "one of the two ran"
    output = lab("queue")
    assert f"run {sent[0]['run_id']} started first on a, so {sent[1]['run_id']} is over" in output
    assert "the job on a started first" in output.partition("on b:")[2], "why it ended"
    Path(f"{file}.go").touch()
    ended(sent[0])
    assert "1 fetched" in lab("runs", "pull", sent[0]["run_id"])
    assert "on= with several hosts sends one run" in lab(
        "submit", "on=a,b", *NO_GPU, "trial=baseline", "seed=1,2", rc=2
    )


def run_guard(module, tmp_path, nonce="one", race=None, path=""):
    """Runs the first lines of a job script; what it prints, and then the log of the run."""
    sending = tmp_path / "sending"
    sending.write_text("one")
    text = "set -euo pipefail\nJOB=7\nRUN_DIR=.\n" + module("remote.place").guard(
        sending, nonce, race
    )
    environment = os.environ | {"PATH": f"{path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", f"{text}\necho continues"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    log = tmp_path / "job.log"
    return done.stdout + (log.read_text() if log.exists() else "")


def test_the_job_that_was_sent_last_continues(module, tmp_path):
    assert run_guard(module, tmp_path) == "continues\n"
    output = run_guard(module, tmp_path, nonce="two")
    assert output == "job 7 was sent again after a failure; this first one ends\n"


def test_the_first_job_takes_the_link_and_keeps_it(module, tmp_path):
    race_class = module("remote.place").Race
    link = tmp_path / "r.race/first"
    here = race_class("here", "nowhere.invalid", str(link))
    alone = run_guard(module, tmp_path, race=here)
    assert alone.startswith("continues\n")
    assert "nowhere.invalid does not answer, so this job may not be the only one" in alone
    (tmp_path / "job.log").unlink()
    link.parent.mkdir()
    assert run_guard(module, tmp_path, race=here) == "continues\n"
    there = race_class("there", "nowhere.invalid", str(link))
    output = run_guard(module, tmp_path, race=there)
    assert output == "the job on here has started first; this one ends\n"
    assert run_guard(module, tmp_path, race=here).startswith("continues\n"), "after a requeue"


@pytest.mark.slow
def test_a_job_on_another_disk_asks_the_first_host_over_ssh(module, hosts, tmp_path):
    (hosts.accounts["a"].home / "r.race").mkdir()  # a path from there, which is none from here

    def start(name):
        race = module("remote.place").Race(name, "a", "r.race/first")
        return run_guard(module, tmp_path, race=race, path=hosts.folder / "bin")

    assert start("b") == "continues\n"
    assert start("a") == "the job on b has started first; this one ends\n"


@pytest.mark.release
def test_an_environment_is_made_on_the_host_for_each_lock_file(bare, hosts):
    """With the light labrig, which is enough for a command; torch would take longer, and show nothing more."""
    lab = hosts.laptop(equip(bare), environment=False)
    variables = {
        "PYTHON": f"{sys.base_prefix}/bin/python3",
        "PIP_CONSTRAINT": str(ROOT / "constraints.txt"),
        "PIP_CONFIG_FILE": os.environ.get("PIP_CONFIG_FILE") or str(PIP_CONFIG),
    }
    variables |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    before = shlex.join(["export", *(f"{name}={value}" for name, value in variables.items())])
    entry = {"path": "$HOME/light", "ssh": "b", "site": "workstation", "before": before}
    with open(hosts.folder / "config/lab/hosts.yaml", "a") as file:
        file.write(yaml.safe_dump({"c": entry}))
    program = "import sys, hydra; print(sys.prefix)"
    output = lab("submit", "on=c", *NO_GPU, "--json", "--", "python", "-c", program)
    assert "c has no environment for this lock file" in output
    sent = json_of(output)
    ended(sent)
    environments = hosts.accounts["b"].home / "light/myproj/runs/.remote/environments"
    (environment,) = (path for path in environments.iterdir() if path.is_dir())
    assert str(environment) in lab("logs", sent["run_id"])
    again = lab("submit", "on=c", *NO_GPU, "--json", "--", "python", "-c", program)
    assert "no environment" not in again
    ended(json_of(again))


def test_of_two_that_run_the_one_that_the_jobs_chose_is_kept_else_the_earlier(module, tmp_path):
    ask, sent, states = (module(f"remote.{name}") for name in ("watch", "sent", "states"))
    project = module("project").Project(tmp_path, "myproj")
    group = [sent.Sent(f"run-{name}", name, "", sent.SENT, rivals=["other"]) for name in "ab"]

    def first(started_unix_s, judge=None):
        hosts = ask.Hosts(project)
        for one, start in zip(group, started_unix_s, strict=True):
            state = states.SubmissionState([], {}, start, judge if one.host == "a" else None)
            hosts.answers[one.host] = states.HostState("", {one.id: state})
        return hosts.first_of(group)

    assert first([None, None]) is None
    assert first([None, 2.0]) == "b", "a still waits"
    assert first([3.0, 2.0]) == "b", "b could not ask a"
    assert first([3.0, 2.0], judge="a") == "a", "the jobs have decided it"
