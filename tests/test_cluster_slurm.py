"""Jobs on a real Slurm of two nodes, which tests/cluster/slurm_up.sh starts: what was submitted runs, through preemption,
time limits and dead nodes, to the same weights bit for bit. Needs root; `make test-cluster` runs it."""

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from conftest import ROOT, call, commit, equip

SCRIPTS = ROOT / "tests/cluster"
FOLDER = Path(tempfile.gettempdir()) / "lab-test-cluster"
WAIT_S = 300  # for anything on a loaded machine
STEPS = 72  # 6 epochs of 12 steps on two ranks
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(os.geteuid() != 0, reason="the test cluster needs root; run: sudo make test-cluster"),
]

SLOW = '''"""A step that takes a while, and says which code it is."""

import time

import lightning.pytorch as L


class Slow(L.Callback):
    def __init__(self, step_s):
        self.step_s = step_s

    def on_train_start(self, trainer, pl_module):
        print("this is the code as submitted", flush=True)

    def on_train_batch_end(self, *_):
        time.sleep(self.step_s)
'''


@pytest.fixture(scope="module")
def cluster():
    """Two nodes, up for this module; one user of it at a time."""
    with open(f"{FOLDER}.lock", "w") as lock:
        deadline_s = time.monotonic() + 1500
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                assert time.monotonic() < deadline_s, "another test run uses the cluster"
                time.sleep(2)
        done = subprocess.run([SCRIPTS / "slurm_up.sh", FOLDER], capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        os.environ["SLURM_CONF"] = str(FOLDER / "slurm.conf")
        yield
        subprocess.run([SCRIPTS / "slurm_down.sh", FOLDER], timeout=120, check=True)
        del os.environ["SLURM_CONF"]
        shutil.rmtree(FOLDER)


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


def submit(lab, *words, batch=False):
    """Submits, and returns what --json says."""
    options = ["--json"] if batch else ["--json", "--no-batch"]
    said = lab("submit", "trial=baseline", "site=slurm", "job.time=00:20:00", *words[:], *options) if "--" not in words else None
    if said is None:
        place = words.index("--")
        said = lab("submit", "site=slurm", "job.time=00:20:00", *words[:place], *options, *words[place:])
    return json.loads(next(line for line in said.splitlines() if line.startswith(("{", "["))))


def training(step_s, *words):
    slow = ["callbacks.slow._target_=myproj.slow.Slow", f"callbacks.slow.step_s={step_s}"]
    return ["trainer=cpu", "trainer.max_epochs=6", "log.every_n_steps=4", "trainer.threads=1", *slow, *words]


def wait_until(condition, what, timeout_s=WAIT_S):
    end_s = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < end_s, f"{what}: not within {timeout_s} s"
        time.sleep(0.3)
    return found


def slurm(*words):
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout


def job(job_id):
    said = slurm("scontrol", "show", "job", job_id)
    return dict(re.findall(r"(\w+)=(\S+)", said))


def ended(sent, state="COMPLETED"):
    """Waits until the job is over, and returns its log; a requeued job is not kept waiting for two minutes."""

    def over():
        now = job(sent["job_id"])
        if now["JobState"] == "PENDING" and now["Reason"] == "BeginTime":
            time.sleep(3)  # started at once, its old credential would be refused
            slurm("scontrol", "update", f"JobId={sent['job_id']}", "StartTime=now")
        return now["JobState"] not in ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "REQUEUED") and now["JobState"]

    found = wait_until(over, f"job {sent['job_id']} over")
    log = Path(sent["log"]).read_text() if Path(sent["log"]).exists() else ""
    assert found == state, log
    return log


def rows(sent):
    file = Path(sent["run_dir"]) / "metrics.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def at_step(sent, step, attempt=1):
    wait_until(lambda: any(row["step"] >= step and row["attempt"] >= attempt for row in rows(sent)), f"step {step}")


def restarted(sent, attempt):
    """Waits until the requeued job trains again."""

    def again():
        now = job(sent["job_id"])
        if now["JobState"] == "PENDING" and now["Reason"] == "BeginTime":
            time.sleep(3)
            slurm("scontrol", "update", f"JobId={sent['job_id']}", "StartTime=now")
        return (Path(sent["run_dir"]) / f"attempts/{attempt}/start.json").exists()

    wait_until(again, f"attempt {attempt}")


def weights(sent):
    import torch

    state = torch.load(Path(sent["run_dir"]) / "checkpoints/last.ckpt", weights_only=True)
    assert state["global_step"] == STEPS
    return {name: tensor.numpy().tobytes() for name, tensor in state["state_dict"].items()}


def curve(sent):
    """Rows as a reader shows them: the last attempt's per step and names, without when and by which attempt."""
    kept = {}
    for row in rows(sent):
        names = tuple(sorted(row.keys() - {"attempt", "time_unix_s"}))
        kept[(row["step"], names)] = {name: row[name] for name in names}
    return [kept[key] for key in sorted(kept)]


def in_node(node, *command):
    """Runs a command in a node's namespaces."""
    outside = (FOLDER / f"pid/node-{node}").read_text().strip()
    inside = Path(f"/proc/{outside}/task/{outside}/children").read_text().split()[0]
    return subprocess.run(["nsenter", "-t", inside, "-m", "-p", "-n", *command], capture_output=True, text=True, timeout=60)


def left_in_memory():
    return [name for node in ("c1", "c2") for name in in_node(node, "ls", "/dev/shm").stdout.split() if name.startswith("lab-")]


@pytest.fixture(scope="module")
def reference(lab):
    """A run on two nodes that nothing interrupted."""
    sent = submit(lab, *training(0.0, "job.nodes=2"))
    ended(sent)
    return sent


def test_the_submitted_code_runs_however_the_tree_is_edited(lab):
    sent = submit(lab, *training(0.0, "trainer.max_epochs=1", "job.extra=[--hold]"), batch=True)
    file = lab.folder / "src/myproj/slow.py"
    try:
        file.write_text(SLOW.replace("as submitted", "as edited"))
        (lab.folder / "src/myproj/task.py").rename(lab.folder / "task.py")
        slurm("scontrol", "release", sent["job_id"])
        log = ended(sent)
    finally:
        file.write_text(SLOW)
        (lab.folder / "task.py").rename(lab.folder / "src/myproj/task.py")
    assert "as submitted" in log
    assert "as edited" not in log
    assert json.loads((Path(sent["run_dir"]) / "summary.json").read_text())["status"] == "finished"
    assert (Path(sent["run_dir"]) / "site.yaml").read_text().startswith("# Any Slurm cluster")


def test_two_nodes_and_one_node_train_alike_and_leave_no_copy_of_the_code(lab, reference):
    sent = submit(lab, *training(0.0, "job.gpus=2", 'job.extra=["--export=NONE"]'))
    ended(sent)
    assert weights(sent) == weights(reference)
    assert curve(sent) == curve(reference)
    assert json.loads((Path(sent["run_dir"]) / "attempts/1/start.json").read_text())["world_size"] == 2
    assert left_in_memory() == []


def test_three_preemptions_continue_bit_for_bit(lab, reference):
    sent = submit(lab, *training(0.3, "job.nodes=2"))
    at_step(sent, 4)
    slurm("scancel", "--batch", "--signal=USR2", sent["job_id"])  # as at the time limit
    restarted(sent, 2)
    at_step(sent, 28, attempt=2)
    rank = in_node("c2", "pgrep", "-f", "myproj.lab rank").stdout.split()[0]
    in_node("c2", "kill", "-TERM", rank)  # to one rank only
    restarted(sent, 3)
    at_step(sent, 48, attempt=3)
    slurm("scontrol", "requeue", sent["job_id"])  # kills at once: back to the last checkpoint
    log = ended(sent)
    assert log.count("saved; going on after a requeue") >= 2
    assert weights(sent) == weights(reference)
    assert curve(sent) == curve(reference)
    starts = sorted((Path(sent["run_dir"]) / "attempts").iterdir())
    assert [path.name for path in starts] == ["1", "2", "3", "4"]
    assert left_in_memory() == []


def test_a_job_with_priority_preempts_and_the_run_goes_on_after_it(lab, reference):
    sent = submit(lab, *training(0.3, "job.nodes=2", "job.queue=low"))
    at_step(sent, 4)
    urgent = slurm("sbatch", "--parsable", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=sleep 5").strip()
    wait_until(lambda: job(urgent)["JobState"] == "COMPLETED", "the urgent job")
    log = ended(sent)
    assert "saved; going on after a requeue" in log
    assert weights(sent) == weights(reference)
    assert curve(sent) == curve(reference)


def test_the_time_limit_saves_and_requeues(lab, reference):
    sent = submit(lab, *training(2.5, "job.nodes=2", "job.time=00:02:00"))
    log = Path(sent["log"])
    wait_until(lambda: log.exists() and "going on after a requeue" in log.read_text(), "the warning before the time limit")
    slurm("scontrol", "hold", sent["job_id"])
    saved = json.loads((Path(sent["run_dir"]) / "attempts/1/end.json").read_text())
    assert saved["status"] == "interrupted"
    assert saved["seconds"] < 120
    assert (Path(sent["run_dir"]) / "checkpoints/last.ckpt").exists()
    lab("cancel", sent["run_id"])
    ended(sent, "CANCELLED")


def test_a_killed_node_costs_no_more_than_the_last_checkpoint(lab, reference):
    sent = submit(lab, *training(0.3, "job.nodes=2"))
    at_step(sent, 16)  # an epoch, and its checkpoint, are done
    os.kill(int((FOLDER / "pid/node-c2").read_text()), signal.SIGKILL)
    wait_until(lambda: job(sent["job_id"])["JobState"] in ("PENDING", "COMPLETING", "REQUEUED"), "the dead node noticed")
    subprocess.run([SCRIPTS / "slurm_node_start.sh", FOLDER, "c2"], check=True, timeout=60)
    slurm("scontrol", "update", "NodeName=c2", "State=RESUME") if "down" in slurm("sinfo", "-h", "-n", "c2", "-o", "%T") else None
    ended(sent)
    assert weights(sent) == weights(reference)
    assert curve(sent) == curve(reference)


def test_an_array_runs_each_point_once_and_the_same_list_fills_only_holes(lab):
    words = training(0.0, "trainer.max_epochs=1", "seed=0,1,2", "job.throttle=2")
    sent = submit(lab, *words)
    assert [one["job_id"].partition("_")[2] for one in sent] == ["0", "1", "2"]
    for one in sent:
        ended(one)
    assert all("ended with code 0" in Path(one["log"]).read_text() for one in sent)
    seeds = [json.loads((Path(one["run_dir"]) / "run.json").read_text())["seed"] for one in sent]
    assert seeds == [0, 1, 2]
    assert submit(lab, *words) == []
    shutil.rmtree(sent[1]["run_dir"])
    again = submit(lab, *words)
    assert json.loads((Path(again["run_dir"]) / "run.json").read_text())["seed"] == 1
    ended(again)


def test_any_command_runs_frozen_with_its_own_exit_code_and_without_a_network(lab):
    probe = "import os, socket; print(os.environ['WANDB_MODE'], os.environ['HF_HUB_OFFLINE'], flush=True); "
    probe += "socket.create_connection(('192.0.2.1', 80), 5)"
    sent = submit(lab, "job.gpus=0", "--", "python", "-c", probe)
    log = ended(sent, "FAILED")
    assert "offline 1" in log
    assert "Network is unreachable" in log
    sent = submit(lab, "job.gpus=0", "--", "bash", "-c", "ls src/myproj/task.py data/digits.h5; exit 7")
    log = ended(sent, "FAILED")
    assert "src/myproj/task.py" in log
    assert job(sent["job_id"])["ExitCode"] == "7:0"
    listed = json.loads(lab("runs", "show", sent["run_id"], "--json"))
    assert listed["status"] == "failed"


def test_a_failing_rank_ends_the_job_with_a_failure(lab):
    sent = submit(lab, *training("oops", "job.nodes=2"))
    log = ended(sent, "FAILED")
    assert "ended with code" in log
    assert json.loads((Path(sent["run_dir"]) / "summary.json").read_text())["status"] == "failed"
    assert left_in_memory() == []


def test_a_cancelled_job_saves_ends_and_is_not_requeued(lab):
    sent = submit(lab, *training(0.3, "job.nodes=2"))
    at_step(sent, 4)
    assert sent["run_id"] in lab("queue")
    lab("cancel", sent["run_id"])
    ended(sent, "CANCELLED")
    assert lab("queue").strip() == "no jobs"
    assert job(sent["job_id"])["Restarts"] == "0"
    lab("cancel", sent["run_id"], rc=2)


def test_a_plain_scancel_is_not_requeued_either(lab):
    sent = submit(lab, *training(0.3, "job.nodes=2"))
    at_step(sent, 4)
    slurm("scancel", sent["job_id"])
    ended(sent, "CANCELLED")
    time.sleep(5)
    assert job(sent["job_id"])["JobState"] == "CANCELLED"


def test_a_job_can_submit_a_job(lab):
    inner = "python -m myproj.lab submit trial=baseline site=slurm trainer=cpu trainer.max_epochs=1 job.time=00:10:00 --no-batch --json"
    sent = submit(lab, "job.gpus=0", "job.cpus_per_task=2", "--", "bash", "-c", inner)
    log = ended(sent)
    second = json.loads(next(line for line in log.splitlines() if line.startswith("{")))
    ended(second)
    first, other = (json.loads((Path(one["run_dir"]) / "run.json").read_text()) for one in (sent, second))
    assert first["code"]["commit"] == other["code"]["commit"]
    assert job(second["job_id"])["NumCPUs"] == "1"  # not the two of the job it was sent from


def test_a_bare_process_in_an_allocation_of_two_tasks_is_told_to_use_srun(lab):
    python = f"cd {lab.folder} && PYTHONPATH=src .venv/bin/python -m myproj.lab train trial=baseline trainer=cpu"
    done = subprocess.run(["salloc", "-J", "two", "-N2", "-n2", "bash", "-c", python], capture_output=True, text=True, timeout=WAIT_S)
    assert "2 tasks" in done.stderr
    assert "srun" in done.stderr
    assert done.returncode == 2


def test_a_file_that_git_ignores_is_refused_with_the_rule(lab):
    helper, model = lab.folder / "src/myproj/helper.py", lab.folder / "src/myproj/trials/baseline/model.py"
    text = model.read_text()
    ignore = lab.folder / ".gitignore"
    rules = ignore.read_text()
    try:
        helper.write_text("answer = 42\n")
        ignore.write_text(rules + "helper.py\n")
        model.write_text(text + "\nfrom ...helper import answer  # noqa: E402, F401\n")
        said = lab("submit", "trial=baseline", "site=slurm", "trainer=cpu", rc=2)
    finally:
        helper.unlink()
        ignore.write_text(rules)
        model.write_text(text)
    assert "helper.py" in said
    assert ".gitignore" in said
    assert re.search(r"ignored by 'helper.py'", said)


def test_submit_warns_of_a_run_with_the_same_code_and_settings(lab, reference):
    commit(lab.folder, "Nothing changed") if call(lab.folder, "git", "status", "--porcelain").strip() else None
    said = lab("submit", "trial=baseline", "site=slurm", "job.time=00:20:00", *training(0.0, "job.nodes=2"), "--no-batch")
    assert f"run {reference['run_id']} has the same code and settings" in said
    lab("cancel", "@last")
