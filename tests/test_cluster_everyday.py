"""Everyday commands around jobs, with schedulers and devices whose answers are recorded; what runs jobs is elsewhere."""

import getpass
import importlib.util
import json
import os
import platform
import re
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import yaml
from conftest import ROOT, call

sys.path.insert(0, str(ROOT / "template/src"))
LAB = "{{package_name}}.lab."  # plain Python: it runs as it lies in the template
gpus, nodes, site = (importlib.import_module(LAB + name) for name in ("speed.gpus", "speed.nodes", "cluster.site"))

SQUEUE = """\
11|RUNNING|None|1-01:00:05
12|PENDING|DependencyNeverSatisfied|0:00
13_4|PENDING|BeginTime|0:00
"""
SINFO = """\
prepost|up|20:00:00|(null)|48
gpu_p13*|up|4-04:00:00|gpu:v100:4(S:0-1)|40
gpu_p13*|up|4-04:00:00|gpu:v100:4|40+
short|up|30:00|gpu:a100:8|64
old|down|1-00:00:00|gpu:k80:2|24
unlimited|up|infinite|(null)|48
"""
CONFIG = """\
Configuration data as of 2026-11-20T10:00:00
AccountingStorageEnforce = associations,limits,qos
PreemptMode             = REQUEUE
SelectType              = select/cons_tres
SLURM_VERSION           = 23.11.4
"""


@pytest.fixture
def lab(own_project):
    """lab(*words) in a project; lab.fake(name, text, rc) puts a command on its PATH that notes its calls in lab.asked."""
    tools = own_project.parent / "myproj-bin"
    asked = own_project.parent / "asked"
    asked.touch()

    def lab(*words, **options):
        return call(own_project, "lab", *words, **options)

    def fake(name, text="", rc=0):
        (tools / f"{name}.answer").write_text(text)
        script = f'#!/bin/sh\necho "{name} $*" >>"{asked}"\ncat "{tools}/{name}.answer"\nexit {rc}\n'
        (tools / name).write_text(script)
        (tools / name).chmod(0o755)

    lab.fake, lab.asked, lab.folder, lab.runs = fake, asked, own_project, own_project / "runs/baseline"
    return lab


def make_run(lab, n, job, *, ends=None, starts=False, requeue=False, **record):
    """A run's directory as submit and its attempts leave it."""
    directory = lab.runs / f"20261120-19000{n}-abcdef"
    process = {"pid": 1, "pid_started": "0", "pid_space": "another machine"}
    about = {"run_id": directory.name, "trial": "baseline", "who": getpass.getuser(), "host": platform.node()}
    job = job and {"scheduler": "slurm", "site": "slurm", "nodes": 2, "gpus": 4} | job
    (directory / "checkpoints").mkdir(parents=True)
    (directory / "run.json").write_text(json.dumps(about | {"process": process, "job": job} | record))
    if starts or ends:
        (directory / "attempts/1").mkdir(parents=True)
        (directory / "attempts/1/start.json").write_text(json.dumps(process | {"started_unix_s": 0}))
        (directory / "attempts/1/heartbeat").touch()
    if ends:
        (directory / "attempts/1/end.json").write_text(json.dumps({"status": ends}))
        (directory / "summary.json").write_text(json.dumps({"status": ends}))
    if requeue:
        (directory / "requeue").touch()
    return directory


def states(lab):
    return {row["run_id"][14]: row["status"] for row in json.loads(lab("runs", "list", "--json"))}


def test_a_run_is_what_its_scheduler_says(lab):
    lab.fake("squeue", SQUEUE)
    make_run(lab, 1, {"id": "11"}, starts=True)
    make_run(lab, 2, {"id": "12"})
    make_run(lab, 3, {"id": "13_4"}, ends="interrupted", requeue=True)  # preempted, and queued again
    make_run(lab, 4, {"id": "14"}, starts=True)  # killed: the scheduler has forgotten it, it never said how it ended
    make_run(lab, 5, {"id": "15"})
    make_run(lab, 6, {"id": "16"}, ends="interrupted", requeue=True)  # preempted, then cancelled in the queue
    make_run(lab, 7, {"id": "17"}, ends="finished")
    expected = {
        "1": "running",
        "2": "queued",
        "3": "queued",
        "4": "lost",
        "5": "lost",
        "6": "interrupted",
        "7": "finished",
    }
    assert states(lab) == expected
    assert lab.asked.read_text().count("squeue") == 1
    assert json.loads(lab("runs", "show", "20261120-190004", "--json"))["status"] == "lost"
    assert "  lost  " in lab("runs", "show", "20261120-190004").splitlines()[0]
    news = lab()
    assert re.search(r"running:\n  20261120-190001.*\nqueued:\n  20261120-190003.*\n  20261120-190002", news)
    assert re.search(r"lost:\n  20261120-190005.*\n  20261120-190004", news)


def test_no_scheduler_is_asked_about_runs_that_have_ended_or_have_no_job(lab):
    lab.fake("squeue", SQUEUE)
    make_run(lab, 1, {"id": "11"}, ends="finished")
    make_run(lab, 2, {"id": "12"}, ends="interrupted")
    make_run(lab, 3, None, starts=True)
    make_run(lab, 4, {"id": "11"}, who="somebody else")
    assert states(lab) == {"1": "finished", "2": "interrupted", "3": "running", "4": "queued"}
    lab()
    lab("runs", "show", "@last")
    lab("sync", "--dry-run")
    assert lab.asked.read_text() == ""


def test_without_an_answer_the_heartbeat_counts(lab):
    lab.fake("squeue", "slurm_load_jobs error: Unable to contact slurm controller", rc=1)
    make_run(lab, 1, {"id": "11"}, starts=True)
    make_run(lab, 2, {"id": "12"})
    make_run(lab, 3, {"id": "13"}, ends="interrupted", requeue=True)
    elsewhere = {"scheduler": "local", "site": "workstation", "id": "1-1"}
    make_run(lab, 4, elsewhere, starts=True, host="the other workstation")
    assert states(lab) == {"1": "running", "2": "queued", "3": "queued", "4": "running"}
    said = lab("queue")
    assert said.count("Unable to contact") == 3
    assert "it is on the other workstation" in said
    assert "cannot be cancelled from here" in lab("cancel", "20261120-190004", rc=2)


def test_a_cold_listing_with_a_job_to_ask_about_imports_nothing_heavy(lab):
    lab.fake("squeue", SQUEUE)
    make_run(lab, 1, {"id": "11"}, starts=True)
    heavy = "{'torch', 'lightning', 'hydra', 'omegaconf', 'numpy', 'h5py', 'sqlite3'}"
    code = f"import sys; from myproj.lab.cli import main; main(); print(sorted({heavy} & set(sys.modules)))"
    for words in ([], ["runs", "list"], ["runs", "show", "@last"], ["queue"], ["logs", "@last"]):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        said = call(lab.folder, sys.executable, "-c", code, *words) if words != ["logs", "@last"] else "[]"
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert said.splitlines()[-1] == "[]"
        assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1.5  # 0.1 s on an idle machine


def test_the_queue_tells_state_reason_and_cost_in_80_columns(lab):
    lab.fake("squeue", SQUEUE)
    make_run(lab, 1, {"id": "11"}, starts=True, trial="a_trial_with_a_long_name")
    make_run(lab, 2, {"id": "12"})
    make_run(lab, 3, {"id": "14"}, starts=True)  # over
    said = lab("queue").splitlines()
    assert len(said) == 4
    assert re.fullmatch(r"20261120-190002-abcdef  baseline +12 +queued +\d+:\d\d:\d\d +0\.0", said[1])
    assert said[2] == "    the job it depends on failed, so it will never start; lab cancel it"
    assert re.fullmatch(r"20261120-190001-abcdef  a_trial_with_a +11 +running +25:00:05 +200\.0", said[3])
    assert max(map(len, said)) <= 80


def test_a_watched_queue_asks_no_faster_than_the_site_allows_and_ends(lab):
    folder = lab.folder / "src/myproj/conf/site"
    folder.mkdir()
    (folder / "ours.yaml").write_text("poll_s: 0.1\n")  # below the least that any scheduler is asked
    make_run(lab, 1, {"id": "11", "site": "ours"}, starts=True)
    lab.fake("squeue", SQUEUE)
    started_s = time.monotonic()
    over = threading.Timer(5, lab.fake, ["squeue"])
    over.start()
    said = lab("queue", "--watch")
    over.join()
    assert said.endswith("\n\nno jobs\n")
    assert 2 <= lab.asked.read_text().count("squeue") <= 2 + (time.monotonic() - started_s) / 2


def test_logs_of_one_rank_and_why_there_are_none(lab):
    lab.fake("squeue", SQUEUE)
    directory = make_run(lab, 1, {"id": "11"}, ends="finished")
    (directory / "job.log").write_text("prepared\n0: loss 1\n1: loss 2\n10: loss 3\nended")
    assert lab("logs", "@last") == "prepared\n0: loss 1\n1: loss 2\n10: loss 3\nended"
    assert lab("logs", "@last", "--rank", "1", "-f") == "prepared\n1: loss 2\nended"
    make_run(lab, 2, {"id": "12"})
    assert "it is queued" in lab("logs", "@last", rc=2)
    make_run(lab, 3, None, ends="finished")
    assert "trained in a terminal" in lab("logs", "@last", rc=2)
    assert "did you mean" in lab("logs", "20261120-190009-abcdef", rc=2)


def test_cancel_ends_the_job_of_a_run_and_refuses_one_that_is_over(lab):
    lab.fake("squeue", SQUEUE)
    lab.fake("scancel")
    directory = make_run(lab, 1, {"id": "11"}, starts=True)
    make_run(lab, 2, {"id": "19"}, starts=True)
    assert "is over already" in lab("cancel", "20261120-190002", rc=2)
    assert "cancelled job 11 of run 20261120-190001-abcdef" in lab("cancel", "20261120-190001")
    assert "scancel 11" in lab.asked.read_text()
    assert (directory / "cancelled").exists()


def remedies(said):
    """Every finding of a level other than ok, with what to do; fails where that is missing."""
    blocks = re.findall(r"^  (ok|note|wrong) +((?:.*\n)(?: {9}.*\n)*)", said, re.M)
    assert blocks
    found = {}
    for level, text in blocks:
        finding, arrow, advice = " ".join(text.split()).partition("-> ")
        assert (level == "ok") != bool(arrow and advice), text
        if level != "ok":
            found[finding.strip()] = advice
    return found


def test_the_doctor_examines_this_machine(lab):
    code = 1 if "  wrong" in lab_any(lab, "doctor") else 0
    said = lab("doctor", rc=code)
    remedies(said)
    assert max(map(len, said.splitlines())) <= 80
    titles = re.findall(r"^(\S.*)$", said, re.M)
    assert titles == ["machine", "numerics", "gpu health", "disks", "python", "repository", "tracking", "scheduler"]
    for fact in ("cores", "torch", "MKL", "NumPy", "HDF5", "on ", "files free", "Python", "git:", "W&B:"):
        assert fact in said


def lab_any(lab, *words):
    """What a command says, whatever its exit code."""
    tools = lab.folder.parent / "myproj-bin/lab"
    return subprocess.run([tools, *words], cwd=lab.folder, capture_output=True, text=True, timeout=300).stdout


def test_the_doctor_finds_what_is_broken(lab):
    query = (
        '#!/bin/sh\ncase "$*" in *name*) echo "0, NVIDIA A100, 88, 10, 3" ;; *event*) echo "Field is not valid" ;;\n'
    )
    query += '*throttle*) echo "0, Active" ;; *topo*) printf "GPU0 X SYS\\nGPU1 SYS X\\nLegend: SYS ...\\n" ;; esac\n'
    tools = lab.folder.parent / "myproj-bin"
    (tools / "nvidia-smi").write_text(query)
    (tools / "nvidia-smi").chmod(0o755)
    lab.fake("sbatch")
    lab.fake("scontrol", "Slurmctld(primary) at c0 is DOWN", rc=1)
    lab.fake("quota", "Disk quotas for user ann:\n  Filesystem space quota\n  /dev/sda 11G* 10G 10G\n")
    (lab.folder / ".git").rename(lab.folder / ".gone")
    settings = {"SLURM_JOB_ID": "7", "SLURM_CPUS_PER_TASK": "4096", "SBATCH_PARTITION": "x", "PYTHONUSERBASE": ""}
    one_core = ["taskset", "-c", min(os.sched_getaffinity(0)), "lab", "doctor"]
    said = call(lab.folder, *one_core, rc=1, OMP_NUM_THREADS="2", **settings)
    found = remedies(said)
    for finding, advice in {
        "4096 CPUs per task": "srun --cpus-per-task",
        "threads on 1 cores": "OMP_NUM_THREADS=",
        "3 uncorrected memory errors": "help desk",
        "slows itself down": "help desk",
        "through the CPUs": "measure",
        "11G* 10G": "lab runs prune",
        "cannot record their code": "git init",
        "Slurm does not answer": "help desk",
        "SBATCH_PARTITION would change": "unset",
    }.items():
        assert [text for text in found if finding in text and advice in found[text]], (finding, found)
    assert "in job 7" in said
    assert max(map(len, said.splitlines())) <= 80


def test_a_profile_is_drafted_from_what_slurm_says(lab):
    lab.fake("sbatch")
    lab.fake("sinfo", SINFO)
    lab.fake("scontrol", CONFIG)
    lab.fake("sacctmgr", "abc@v100|qos_gpu-t3,qos_gpu-t4\n")
    said = lab("site", "init", "ours", SCRATCH="/scratch/ann", WORK="/work/ann")
    file = lab.folder / "src/myproj/conf/site/ours.yaml"
    assert file.read_text() in said
    draft = yaml.safe_load(file.read_text())
    assert {queue["name"]: (queue.get("max_h"), queue.get("max_gpus")) for queue in draft["queues"]} == {
        "gpu_p13": (100, None), "prepost": (20, 0), "short": (0.5, None), "unlimited": (None, 0),
    }  # fmt: skip
    assert draft["queues"][0]["name"] == "gpu_p13"  # the default partition
    assert draft["gpu"] == {"name": "a100/v100", "per_node": 8}
    assert draft["paths"]["scratch"] == "$SCRATCH"
    assert draft["confidence"]["queues"][0] == "V"
    assert draft["confidence"]["internet"][0] == "?"
    for note in ("SLURM_VERSION           = 23.11.4", "abc@v100|qos_gpu-t3", "disk WORK=/work/ann"):
        assert f"# {note}" in file.read_text() or note in file.read_text()
    script = lab("submit", "--dry-run", "trial=baseline", "site=ours", "job.gpus=4", SCRATCH="/scratch/ann")
    assert "#SBATCH --partition=gpu_p13\n" in script
    assert "#SBATCH --cpus-per-task=8\n" in script
    assert "#SBATCH --partition=prepost\n" in lab("submit", "--dry-run", "trial=baseline", "site=ours", "job.gpus=0",
                                                  "job.queue=prepost", SCRATCH="/scratch/ann")  # fmt: skip
    assert "exists" in lab("site", "init", "ours", rc=4)


def test_sites_are_listed_and_a_mistyped_one_is_told(lab):
    assert re.search(r"^lanta +src/myproj/lab/conf/site/lanta.yaml$", lab("site", "show"), re.M)
    assert "verified: null" in lab("site", "show", "lanta")
    assert "did you mean: lanta" in lab("site", "show", "lantta", rc=2)


def test_a_draft_needs_a_cluster(lab):
    if not any(Path(folder, "sbatch").exists() for folder in ("/usr/bin", "/usr/local/bin")):
        assert "no scheduler is installed" in lab("site", "init", rc=2)
    lab.fake("sbatch")
    lab.fake("sinfo", "sinfo: fatal: Could not establish a configuration source", rc=1)
    assert "Could not establish" in lab("site", "init", rc=1)
    assert not (lab.folder / "src/myproj/conf/site").exists()


def test_the_guard_asks_a_process_with_idle_gpus_to_stop_and_leaves_a_busy_one(capfd):
    def watch(percent):
        process, now = subprocess.Popen(["sleep", "600"]), [0.0]

        def sleep(seconds):
            now[0] += seconds
            if now[0] > 5000:
                process.kill()
                process.wait()

        answer = lambda *fields: [["0", "99"], *percent(now[0])]  # noqa: E731
        stopped = gpus.guard(process.pid, {"1"}, asked=answer, clock=lambda: now[0], sleep=sleep)
        return stopped, process.wait(timeout=30)

    assert watch(lambda now_s: [["1", "0"]]) == (True, -12)  # SIGUSR2
    assert "did nothing for 30 minutes" in capfd.readouterr().out
    assert watch(lambda now_s: [["1", "50" if now_s % 1200 < 60 else "0"]]) == (False, -9)
    assert watch(lambda now_s: []) == (False, -9)  # no answer is not idleness
    assert watch(lambda now_s: [["1", "[N/A]"]]) == (False, -9)


def test_a_node_that_computes_otherwise_is_named():
    rows = [
        {"rank": rank, "host": f"n{rank}", "device": "x", "gflops": 10.0, "n_products": 9, "n_wrong": 0, "uuid": str(rank),
         "exchange_GB_s": 1.0, "done": True}
        for rank in range(6)
    ]  # fmt: skip
    assert nodes.bad_nodes(rows) == {}
    assert max(map(len, nodes.table(rows).splitlines())) <= 80
    rows[1] |= {"n_wrong": 1}
    rows[2] |= {"gflops": 5.0}
    rows[4] |= {"uuid": "3"}
    bad = nodes.bad_nodes(rows)
    assert list(bad) == ["n1", "n2", "n3", "n4"]
    assert bad["n1"] == ["rank 1: 1 of 9 products were wrong"]
    assert bad["n2"] == ["rank 2: 5 GFLOP/s where the median is 10"]
    assert bad["n4"] == ["rank 4: another rank uses the same GPU"]


def test_only_the_rank_that_hangs_is_named():
    good = {"device": "x", "gflops": 10.0, "n_products": 9, "n_wrong": 0}
    rows = [{"rank": 0, "host": "n0"} | good, {"rank": 1, "host": "n1", "cores": 4}, {"rank": 2, "host": "?"}]
    assert nodes.bad_nodes(rows) == {
        "n1": ["rank 1: never got through its products"],
        "?": ["rank 2: never got through its products"],
    }
    assert nodes.bad_nodes(rows[:1]) == {"n0": ["rank 0: never came back from the all-reduce"]}


def test_a_product_with_one_wrong_bit_is_counted(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(nodes, "BURN_S", 0.2)
    right = nodes.burn(torch.device("cpu"))
    assert right["n_wrong"] == 0
    assert right["n_products"] > 0
    multiply = torch.Tensor.__matmul__

    def flip(left, other):
        product = multiply(left, other)
        if product.dtype == torch.float32:
            product[3, 5] += 1
        return product

    monkeypatch.setattr(torch.Tensor, "__matmul__", flip)
    wrong = nodes.burn(torch.device("cpu"))
    assert wrong["n_wrong"] == wrong["n_products"] > 0


def test_every_rank_of_a_short_job_is_examined(lab):
    said = lab("doctor", "--nodes", "site=workstation", "job.gpus=0", "job.tasks_per_node=2", timeout_s=600)
    lines = said.splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("rank  host"))
    assert [line.split()[0] for line in lines[head + 1 : head + 3]] == ["0", "1"]
    assert all(float(line.split()[-1]) > 0 for line in lines[head + 1 : head + 3])  # the all-reduce
    assert said.endswith("all nodes compute alike\n")
    assert max(map(len, lines[head:])) <= 80


def test_only_offline_runs_that_ended_are_uploaded_and_each_once(lab):
    lab.fake("squeue", SQUEUE)
    folders = []
    for n, run in enumerate([{"ends": "finished"}, {"starts": True}], start=1):
        folders.append(make_run(lab, n, None, **run) / "wandb/offline-run-1")
    folders.append(make_run(lab, 3, {"id": "11"}, ends="interrupted", requeue=True) / "wandb/offline-run-2")
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "run.wandb").touch()
    assert lab("sync", "--dry-run").split() == [str(folders[0])]
    if importlib.util.find_spec("wandb"):
        assert "API key" in lab("sync", rc=1, WANDB_API_KEY="", NETRC="/nowhere")
    assert not (folders[0] / "run.wandb.synced").exists()
    lab.fake("wandb")
    tools = lab.folder.parent / "myproj-bin"
    uploads = (
        f"import sys; sys.executable = '{tools}/python'; from myproj.lab.cli import main; sys.exit(main(['sync']))"
    )
    call(lab.folder, sys.executable, "-c", uploads)  # with the wandb of the fakes beside it
    assert f"wandb sync {folders[0]}" in lab.asked.read_text()
    assert (folders[0] / "run.wandb.synced").exists()
    assert lab("sync") == ""


def test_prefetch_proves_that_a_training_needs_no_network(lab):
    lab("data", "pack", "digits")
    assert "everything is there" in lab("prefetch", "trial=baseline", "trainer=cpu")
    model = lab.folder / "src/myproj/trials/baseline/model.py"
    probe = "import os\nassert os.environ.get('HF_HUB_OFFLINE') != '1', 'weights are fetched here'\n"
    model.write_text(model.read_text().replace("import torch\n", probe + "import torch\n", 1))
    assert "without the network it fails" in lab("prefetch", "trial=baseline", "trainer=cpu", rc=1)
