"""Two hosts without a scheduler: `lab train` under torchrun, and under mpirun over ssh, is one run.

Each host is a network of its own (a namespace with one cable between them) with an sshd.
"""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path

import pytest
from commands import free_port
from labrig.errors import LabError
from labrig.machine import ranks
from labrig.project import Project
from labrig.training.start.command import train_command
from programs import need
from projects import call, copy_project, equip
from trainings import last, rows

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="networks of their own need root"),
]
BIN = Path(sys.executable).parent
SETTINGS = ("trial=baseline", "trainer=cpu", "trainer.max_epochs=1", "trainer.threads=1")
FEW = ("trainer.limit_train_batches=8", "log.every_n_steps=1", "log.every_s=0")
PORT = 29411


def root(*words):
    subprocess.run([str(word) for word in words], check=True, capture_output=True, timeout=60)


class TwoHosts:
    """Networks `first` and `second` with the addresses 10.77.0.1 and 10.77.0.2 of the device `cable`."""

    def __init__(self, folder):
        self.folder = folder
        self.names = [f"lab{os.getpid()}{letter}" for letter in "ab"]
        self.addresses = ["10.77.0.1", "10.77.0.2"]
        self.daemons = []
        ip = need("ip")
        for name in self.names:
            root(ip, "netns", "add", name)
        root(ip, "-n", self.names[0], "link", "add", "cable", "type", "veth", "peer", "name",
             "cable", "netns", self.names[1])  # fmt: skip
        for name, address in zip(self.names, self.addresses, strict=True):
            root(ip, "-n", name, "address", "add", f"{address}/24", "dev", "cable")
            root(ip, "-n", name, "link", "set", "cable", "up")
            root(ip, "-n", name, "link", "set", "lo", "up")
        self.start_daemons()

    def start_daemons(self):
        folder = self.folder
        Path("/run/sshd").mkdir(exist_ok=True)  # sshd wants it
        for key in ("host_key", "key"):
            root("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key)
        shutil.copy(folder / "key.pub", folder / "authorized_keys")
        (folder / "sshd_config").write_text(
            f"HostKey {folder}/host_key\nAuthorizedKeysFile {folder}/authorized_keys\nPidFile none\n"
            "UsePAM no\nStrictModes no\nPermitRootLogin yes\nPasswordAuthentication no\n"
        )
        options = f"-i {folder}/key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
        self.ssh = f"{need('ssh')} {options} -o LogLevel=ERROR -o ConnectTimeout=20"
        for name in self.names:
            daemon = f"hostname {name} && exec {need('sshd')} -D -f {folder}/sshd_config"
            command = ["ip", "netns", "exec", name, "unshare", "--uts", "sh", "-c", daemon]
            self.daemons.append(subprocess.Popen(command))
        for n in (0, 1):
            end_s = time.monotonic() + 60
            while self.on(n, "true").returncode:
                assert time.monotonic() < end_s, "sshd does not answer"
                time.sleep(0.2)

    def on(self, n, script):
        """Runs a script on a host by ssh, as somebody does who sits at the first one."""
        command = ["ip", "netns", "exec", self.names[0], *shlex.split(self.ssh), self.addresses[n]]
        return subprocess.run([*command, script], capture_output=True, text=True, timeout=200)

    def close(self):
        for name in self.names:  # nothing is left running, whatever the test found
            pids = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True)
            for pid in pids.stdout.split():
                os.kill(int(pid), signal.SIGKILL)
        for daemon in self.daemons:
            daemon.wait(30)
        for name in self.names:
            root("ip", "netns", "delete", name)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    need("sshd")
    hosts = TwoHosts(tmp_path_factory.mktemp("hosts"))
    yield hosts
    hosts.close()


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A project on a disk that both hosts have, and the losses of two processes on one host."""
    folder = equip(copy_project(tmp_path_factory.mktemp("shared") / "myproj"))
    call(folder, "lab", "data", "pack", "digits")
    call(folder, "lab", "train", *SETTINGS, *FEW, "trainer.devices=2")
    call(folder, "lab", "runs", "tag", "@last", "one-host")
    return folder


def losses(record):
    return {row["step"]: row["train/loss"] for row in rows(record) if "train/loss" in row}


def losses_of_one_host(own):
    return losses(json.loads(call(own, "lab", "runs", "show", "one-host", "--json")))


def setup_of(folder, **variables):
    """The lines with which each host begins."""
    variables |= {"PATH": f"{BIN}:{os.environ['PATH']}", "PYTHONPATH": f"{folder}/src"}
    exports = [f"export {name}={shlex.quote(text)}" for name, text in variables.items()]
    return "\n".join([f"cd {shlex.quote(str(folder))}", *exports])


def torchrun(hosts, folder, *words, **variables):
    """`torchrun … -m labrig WORDS` on both hosts at once."""

    def start(n):
        options = f"--nnodes 2 --nproc-per-node 1 --node-rank {n}"
        options += f" --master-addr {hosts.addresses[0]} --master-port {PORT}"
        words_of_lab = shlex.join([str(word) for word in words])
        begin = setup_of(folder, GLOO_SOCKET_IFNAME="cable", OMP_NUM_THREADS="1", **variables)
        return hosts.on(n, f"{begin}\nexec torchrun {options} -m labrig {words_of_lab}")

    with ThreadPoolExecutor() as pool:
        return list(pool.map(start, (0, 1)))


def runs_of(folder):
    return sorted(folder.glob("runs/*/*/run.json"))


def check_one_run(own, n_before, expected):
    assert len(runs_of(own)) == n_before + 1, "both hosts made a run"
    record = last(own)
    assert record["status"] == "finished"
    assert losses(record) == expected
    start = json.loads((Path(record["run_dir"]) / "attempts/1/start.json").read_text())
    assert start["world_size"] == 2
    assert (Path(record["run_dir"]) / "attempts/1/node-1.json").exists()
    return record


@pytest.mark.release
def test_torchrun_on_two_hosts_is_one_run_with_the_losses_of_one_host(hosts, own):
    expected = losses_of_one_host(own)
    assert len(expected) == 8
    n_before = len(runs_of(own))
    done = torchrun(hosts, own, "train", *SETTINGS, *FEW)
    assert [each.returncode for each in done] == [0, 0], done
    record = check_one_run(own, n_before, expected)
    assert f"run {record['run_id']}" in done[0].stdout
    assert record["run_id"] not in done[1].stdout
    done = torchrun(hosts, own, "resume", record["run_id"])
    assert [each.returncode for each in done] == [0, 0], done
    assert "nothing is left to do" in done[0].stdout
    done = torchrun(hosts, own, "resume", record["run_id"], "trainer.max_epochs=2")
    assert [each.returncode for each in done] == [0, 0], done
    assert len(losses(last(own))) == 16
    assert len(runs_of(own)) == n_before + 1


@pytest.mark.release
@pytest.mark.traceback("torchrun prints its own when a process ends with an error")
def test_a_mistake_ends_both(hosts, own):
    n_before = len(runs_of(own))
    done = torchrun(hosts, own, "train", *SETTINGS, "optimizer.lrr=1")
    assert all(each.returncode for each in done)
    assert "did you mean: lr" in done[0].stderr
    assert "rank 1 hears nothing of the first one" in done[1].stderr
    done = torchrun(hosts, own, "train", *SETTINGS, "seed=1,2", "-m")
    assert "torchrun started 2 processes for one. Leave out -m" in done[0].stderr
    assert len(runs_of(own)) == n_before


CULPRIT = """
import os
import signal
import lightning.pytorch as L
import torch

class Culprit(L.Callback):
    def on_train_batch_start(self, trainer, task, batch, batch_idx):
        if trainer.global_rank == 1 and batch_idx == 2:
            if os.environ["HOW"] == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise ValueError("the user's own error")

    def setup(self, trainer, task, stage):
        if trainer.global_rank == 1:
            torch.__version__ = "2.12.1"
"""


@pytest.mark.release
@pytest.mark.traceback("torchrun prints its own when a process ends with an error")
@pytest.mark.parametrize(
    ("how", "line"),
    [
        ("raise", r"rank 1 on lab\d+b: ValueError: the user's own error"),
        ("kill", r"rank 1 on lab\d+b ended without a word: killed \(signal 9: memory\?\)"),
    ],
)
def test_the_record_names_the_process_that_failed_first(hosts, own, how, line):
    (own / "src/myproj/culprit.py").write_text(CULPRIT)
    words = ("train", *SETTINGS, *FEW, "callbacks.mine._target_=myproj.culprit.Culprit")
    done = torchrun(hosts, own, *words, HOW=how)
    assert all(each.returncode for each in done), done
    record = last(own)
    assert record["status"] == "failed"
    attempt = Path(record["run_dir"]) / "attempts/1"
    error = json.loads((attempt / "end.json").read_text())["exception"]
    assert re.match(line, error["line"]), error
    assert re.search(line, done[0].stderr)
    if how == "raise":
        assert "culprit.py" in error["place"]
        assert "ValueError: the user's own error" in (attempt / "traceback-1.txt").read_text()
        assert "failed. Its whole traceback" in done[1].stderr
    here = re.escape(f", {hosts.names[0]} {version('torch')}")
    (difference,) = json.loads((attempt / "start.json").read_text())["environment_differences"]
    assert re.fullmatch(rf"node {hosts.names[1]} has torch 2.12.1{here}", difference)
    assert difference in done[0].stderr
    shown = call(own, "lab", "runs", "show", record["run_id"])
    assert f"failed on {hosts.names[0]}, {hosts.names[1]}, " in shown


@pytest.mark.release
def test_mpirun_starts_both_over_ssh(hosts, own):
    expected = losses_of_one_host(own)
    n_before = len(runs_of(own))
    first, second = hosts.addresses
    agent = hosts.folder / "agent"
    agent.write_text(f'#!/bin/sh\nexec {hosts.ssh} "$@"\n')
    agent.chmod(0o755)
    passed = {"MASTER_ADDR": first, "MASTER_PORT": str(PORT + 1), "GLOO_SOCKET_IFNAME": "cable"}
    words = [
        "mpirun",
        "--allow-run-as-root",
        "-n",
        "2",
        "-H",
        f"{first}:1,{second}:1",
        "--map-by",
        "slot",
    ]
    words += ["--mca", "plm_ssh_agent", str(agent), "--mca", "btl_tcp_if_include", "cable"]
    words += [word for name in (*passed, "PATH", "PYTHONPATH") for word in ("-x", name)]
    words += [sys.executable, "-m", "labrig", "train", *SETTINGS, *FEW]
    done = hosts.on(0, f"{setup_of(own, **passed)}\nexec {shlex.join(words)}")
    assert done.returncode == 0, done.stdout + done.stderr
    check_one_run(own, n_before, expected)


def test_a_rank_that_stays_alone_says_so(monkeypatch):
    monkeypatch.setattr(ranks, "OPEN_AFTER", timedelta(seconds=1))
    alone = ranks.Ranks("torchrun", 1, 2, 0, 1, 1, 2, "127.0.0.1", free_port())
    with pytest.raises(LabError, match=r"rank 1 does not meet the other 1 at 127\.0\.0\.1:"):
        ranks.hear_first_rank(alone)


def test_a_list_of_runs_is_for_one_process(monkeypatch, project):
    for name, number in {"RANK": 1, "SIZE": 2, "LOCAL_RANK": 0, "LOCAL_SIZE": 1}.items():
        monkeypatch.setenv(f"OMPI_COMM_WORLD_{name}", str(number))
    monkeypatch.setenv("MASTER_ADDR", "10.77.0.1")
    monkeypatch.setenv("MASTER_PORT", str(PORT))
    with pytest.raises(LabError, match=r"openmpi started 2 processes for one\. Leave out -m"):
        train_command(Project(project, "myproj"), ["trial=baseline", "seed=1,2", "-m"])


def test_a_rank_whose_first_one_has_ended_says_so(monkeypatch):
    class EndedStore:
        def get(self, name):
            raise RuntimeError(f"{name}: connection reset")

    monkeypatch.setattr(ranks, "store_of", lambda _: EndedStore())
    alone = ranks.Ranks("torchrun", 1, 2, 0, 1, 1, 2, "127.0.0.1", free_port())
    with pytest.raises(LabError, match="rank 1 hears nothing of the first one"):
        ranks.hear_first_rank(alone)
