"""A project on a real Slurm of two nodes, which schedulers/slurm_up.sh starts, and how tests speak to both."""

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from projects import ROOT, call, equip

SCRIPTS = ROOT / "tests/helpers/schedulers"
FOLDER = Path(tempfile.gettempdir()) / "lab-test-cluster"
WAIT_S = 300  # for anything on a loaded machine
STEPS = 72  # 6 epochs of 12 steps on two ranks
references = []  # at most one
STUBBORN = ["--", "bash", "-c", "trap '' TERM USR2; while sleep 1; do :; done"]  # saves nothing
needs_root = [
    pytest.mark.cluster,
    pytest.mark.skipif(
        os.geteuid() != 0, reason="the test cluster needs root; run: sudo make test-cluster"
    ),
]

SLOW = '''"""A step that takes a while, and says which code it is."""

import os
import time

import lightning.pytorch as L


class Slow(L.Callback):
    def __init__(self, step_s, slow_attempts=1):
        self.step_s = step_s if int(os.environ.get("LAB_NEXT_ATTEMPT", "1")) <= slow_attempts else 0

    def on_train_start(self, trainer, pl_module):
        print("this is the code as submitted", flush=True)

    def on_train_batch_end(self, *_):
        time.sleep(self.step_s)
'''


@contextmanager
def only_user(folder):
    """One test run at a time uses the scheduler in `folder`."""
    with open(f"{folder}.lock", "w") as lock:
        deadline_s = time.monotonic() + 1500
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                assert time.monotonic() < deadline_s, "another test run uses the cluster"
                time.sleep(2)
        yield


@pytest.fixture(scope="module")
def cluster(slurm_ends):
    """Two nodes without jobs, up for this module; one user of it at a time."""
    with only_user(FOLDER):
        done = subprocess.run(
            [SCRIPTS / "slurm_up.sh", FOLDER], capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, done.stderr
        os.environ["SLURM_CONF"] = str(FOLDER / "slurm.conf")
        yield
        clear()
        del os.environ["SLURM_CONF"]


@contextmanager
def cluster_with(settings):
    """The two nodes with more lines in slurm.conf; afterwards they are down, for a start as usual."""
    more = FOLDER / "more.conf"
    with only_user(FOLDER):
        subprocess.run([SCRIPTS / "slurm_down.sh", FOLDER], timeout=120, check=True)
        FOLDER.mkdir(exist_ok=True)
        more.write_text(settings)
        os.environ["SLURM_CONF"] = str(FOLDER / "slurm.conf")
        try:
            done = subprocess.run(
                [SCRIPTS / "slurm_up.sh", FOLDER], capture_output=True, text=True, timeout=600
            )
            assert done.returncode == 0, done.stderr
            yield
            clear()
        finally:
            more.unlink()
            subprocess.run([SCRIPTS / "slurm_down.sh", FOLDER], timeout=120, check=True)
            del os.environ["SLURM_CONF"]


def stop_slurm():
    with only_user(FOLDER):
        subprocess.run([SCRIPTS / "slurm_down.sh", FOLDER], timeout=120, check=True)
        shutil.rmtree(FOLDER, ignore_errors=True)


def clear():
    """Ends all jobs, and what they left in the memory of the nodes, for the next module."""
    for words in (["--signal=KILL", "--full"], []):
        subprocess.run(["scancel", "--me", *words], capture_output=True, timeout=60)
    wait_until(lambda: not slurm("squeue", "--noheader").strip(), "the end of all jobs")
    for node in ("c1", "c2"):
        in_node(node, "sh", "-c", "rm -rf /dev/shm/lab-*")


@pytest.fixture(scope="module")
def lab(cluster, project, tmp_path_factory):
    """lab(*words) runs a command in a project with data; `lab.folder` is the project."""
    folder = shutil.copytree(project, tmp_path_factory.mktemp("cluster") / "myproj")
    (folder / "src/myproj/slow.py").write_text(SLOW)
    equip(folder)

    def lab(*words, **options):
        return call(folder, "lab", *words, **options)

    lab("data", "pack", "digits")
    lab.folder = folder
    return lab


def json_of(output):
    """The JSON line of a command's output."""
    lines = output.splitlines()
    return json.loads(next(line for line in lines if line.startswith(("{", "["))))


def submit(lab, *words, batch=False):
    """Submits, and returns what --json says; words from "--" on are a command, else the baseline is trained."""
    place = words.index("--") if "--" in words else len(words)
    settings = ["site=slurm", "job.time=00:20:00", *words[:place], "--json"]
    if place == len(words):
        settings.append("trial=baseline")
    if not batch:
        settings.append("--no-batch")
    return json_of(lab("submit", *settings, *words[place:]))


def training(step_s, *words):
    """The settings of a training whose first attempt waits in each step, as long as a test needs it."""
    slow = ["callbacks.slow._target_=myproj.slow.Slow", f"callbacks.slow.step_s={step_s}"]
    return [
        "trainer=cpu",
        "trainer.max_epochs=6",
        "log.every_n_steps=4",
        "trainer.threads=1",
        *slow,
        *words,
    ]


def wait_until(condition, what, timeout_s=WAIT_S, every_s=0.3):
    """What `condition` returns, once that is true."""
    end_s = time.monotonic() + timeout_s
    while not (result := condition()):
        assert time.monotonic() < end_s, f"{what}: not within {timeout_s} s"
        time.sleep(every_s)
    return result


def slurm(*words):
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout


def job(job_id):
    """What Slurm knows of a job."""
    return dict(re.findall(r"(\w+)=(\S+)", slurm("scontrol", "show", "job", job_id)))


def start_requeued(job_id):
    """Slurm lets a requeued job wait for two minutes; this starts it now."""
    now = job(job_id)
    if now["JobState"] == "PENDING" and now["Reason"] == "BeginTime":
        time.sleep(3)  # started at once, its old credential would be refused
        slurm("scontrol", "update", f"JobId={job_id}", "StartTime=now")


UNFINISHED = ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "REQUEUED")


def ended(sent, state="COMPLETED"):
    """Waits until the job is over, and returns its log; a requeued job is not kept waiting."""

    def final_state():
        start_requeued(sent["job_id"])
        state_now = job(sent["job_id"])["JobState"]
        return None if state_now in UNFINISHED else state_now

    last_state = wait_until(final_state, f"job {sent['job_id']} over")
    log = Path(sent["log"])
    text = log.read_text() if log.exists() else ""
    assert last_state == state, text
    return text


def rows(sent):
    file = Path(sent["run_dir"]) / "metrics.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def at_step(sent, step, attempt=1):
    wait_until(
        lambda: any(row["step"] >= step and row["attempt"] >= attempt for row in rows(sent)),
        f"step {step}",
    )


def restarted(sent, attempt):
    """Waits until the requeued job trains again."""

    def has_started():
        start_requeued(sent["job_id"])
        return (Path(sent["run_dir"]) / f"attempts/{attempt}/start.json").exists()

    wait_until(has_started, f"attempt {attempt}")


def weights(sent):
    import torch

    state = torch.load(Path(sent["run_dir"]) / "checkpoints/last.ckpt", weights_only=True)
    assert state["global_step"] == STEPS
    return {name: tensor.numpy().tobytes() for name, tensor in state["state_dict"].items()}


def curve(sent):
    """Rows as a reader shows them: the last attempt's per step and names, without when and by which attempt."""
    last = {}
    for row in rows(sent):
        names = tuple(sorted(row.keys() - {"attempt", "time_unix_s"}))
        last[(row["step"], names)] = {name: row[name] for name in names}
    return [last[key] for key in sorted(last)]


def in_node(node, *command):
    """Runs a command in a node's namespaces."""
    outside = (FOLDER / f"pid/node-{node}").read_text().strip()
    inside = Path(f"/proc/{outside}/task/{outside}/children").read_text().split()[0]
    return subprocess.run(
        ["nsenter", "-t", inside, "-m", "-p", "-n", *command],
        capture_output=True,
        text=True,
        timeout=60,
    )


def kill_as_a_dying_node(start):
    """Ends a process and its children at once: it cannot write how it ended."""
    pid = start["pid"]
    in_node(start["host"], "sh", "-c", f"kill -KILL {pid} $(pgrep -P {pid})")


def kill_node(node):
    """Ends a node with all that runs on it."""
    os.kill(int((FOLDER / f"pid/node-{node}").read_text()), signal.SIGKILL)


def notice_dead(node):
    """Tells Slurm of a dead node, which it finds by itself after half a minute."""
    slurm("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=killed")


def start_node(node):
    """Brings a node back; it registers by itself."""
    subprocess.run([SCRIPTS / "slurm_node_start.sh", FOLDER, node], check=True, timeout=60)
    wait_until(
        lambda: "down" not in slurm("sinfo", "-h", "-n", node, "-o", "%T"), f"node {node} back"
    )


def left_in_memory(*running):
    """What jobs left on the nodes; those that may run still have their copies of the code."""
    copies = tuple(f"lab-{sent['job_id']}-" for sent in running)
    return [
        name
        for node in ("c1", "c2")
        for name in in_node(node, "ls", "/dev/shm").stdout.split()
        if name.startswith("lab-") and not name.startswith(copies)
    ]


def uninterrupted(lab):
    """A run on two nodes that nothing interrupted."""
    sent = submit(lab, *training(0.0, "job.nodes=2"))
    ended(sent)
    return sent


@pytest.fixture(scope="module")
def reference(lab):
    """An uninterrupted run to compare weights and curves with; of the first module that asked for one."""
    if not references:
        references.append(uninterrupted(lab))
    return references[0]
