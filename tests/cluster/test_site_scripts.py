"""What a site and the shape of a job change in the script: as values, next to the stored one of its scheduler."""

import re
import shlex

import pytest
from job_scripts import ANN, IMAGES, SHAPES, SITES, job_request, job_script, scheduler_of_site
from labrig.cluster.schedulers import scheduler_of
from labrig.cluster.sites.site import load_site
from labrig.errors import LabError
from labrig.machine.caches import CACHES

# site -> shape -> what the profile asks the scheduler for, and how many tasks and cores a node has.
# Where a centre's pages have an example of two nodes, it is that.
ASKED = {
    "abci3": {
        "cpu": "-l select=1 -P abc -q rt_HC, 1, 1",
        "1gpu": "-l select=1 -v USE_SSH=1 -P abc -q rt_HG, 1, 12",
        "1node": "-l select=1:mpiprocs=8 -P abc -q rt_HF, 8, 12",
        "2nodes": "-l select=2:mpiprocs=8 -v USE_SSH=1 -P abc -q rt_HF, 8, 12",
    },
    "alliance": {
        "cpu": "--account=abc, 1, 1",
        "1gpu": "--gpus-per-node=1 --account=abc --mem=120000M, 1, 12",
        "2nodes": "--gpus-per-node=4 --account=abc --mem=480000M, 4, 12",
    },
    "alps_clariden": {
        "1gpu": "--nodes=1 --ntasks-per-node=1 --partition=normal, 1, 72",
        "2nodes": "--nodes=2 --ntasks-per-node=4 --partition=normal, 4, 72",
        "chunks": "--ntasks-per-node=4 --partition=normal --time=03:00:00, 4, 72",
    },
    "alps_daint": {
        "1gpu": "--nodes=1 --ntasks-per-node=1 --partition=normal, 1, 72",
        "2nodes": "--nodes=2 --ntasks-per-node=4 --partition=normal, 4, 72",
    },
    "jean_zay_a100": {
        "cpu": "--constraint=a100 --account=abc@a100 --qos=qos_gpu_a100-dev, 1, 1",
        "2nodes": "--gres=gpu:8 --constraint=a100 --hint=nomultithread --account=abc@a100, 8, 8",
    },
    "jean_zay_h100": {
        "1gpu": "--gres=gpu:1 --constraint=h100 --account=abc@h100 --qos=qos_gpu_h100-dev, 1, 24",
        "2nodes": "--gres=gpu:4 --constraint=h100 --hint=nomultithread --account=abc@h100, 4, 24",
    },
    "jean_zay_v100": {
        "1gpu": "--gres=gpu:1 --hint=nomultithread --account=abc@v100 --qos=qos_gpu-dev, 1, 10",
        "2nodes": "--gres=gpu:4 --account=abc@v100 --qos=qos_gpu-dev, 4, 10",
    },
    "juwels_booster": {
        "cpu": "juwels_booster has no such resource type",
        "1gpu": "--gres=gpu:1 --account=abc --partition=booster, 1, 24",
        "2nodes": "--nodes=2 --gres=gpu:4 --ntasks-per-node=4 --account=abc --partition=booster, 4, 24",
    },
    "lanta": {
        "cpu": "--account=abc --partition=compute-devel, 1, 1",
        "1gpu": "--gpus-per-node=1 --account=abc --partition=gpu-devel, 1, 16",
        "2nodes": "--gpus-per-node=4 --account=abc --partition=gpu-devel, 4, 16",
        "chunks": "--gpus-per-node=4 --partition=gpu --time=03:00:00, 4, 16",
    },
    "leonardo_booster": {
        "cpu": "--account=abc --partition=lrd_all_serial, 1, 1",
        "1gpu": "--partition=boost_usr_prod --gres=gpu:1 --account=abc --qos=normal --mem=120000M, 1, 8",
        "2nodes": "--partition=boost_usr_prod --gres=gpu:4 --nodes=2 --qos=normal --mem=480000M, 4, 8",
    },
    "lsf": {
        "cpu": "-n 1 -W 120, 1, 1",
        "1gpu": '-gpu "num=1" -n 1 -R "span[ptile=1]" -W 120, 1, 1',
        "2nodes": '-gpu "num=4" -n 8 -R "span[ptile=4]", 4, 1',
    },
    "lumi_g": {
        "cpu": "--account=abc --partition=small, 1, 1",
        "1gpu": "--gpus-per-node=1 --account=abc --partition=small-g --mem=60000M, 1, 7",
        "2nodes": "--partition=standard-g --nodes=2 --gpus-per-node=8 --ntasks-per-node=8 --mem=480000M, 8, 7",
    },
    "marenostrum5_acc": {
        "1gpu": "--partition=acc --gres=gpu:1 --account=abc --qos=acc_ehpc, 1, 20",
        "2nodes": "--partition=acc --gres=gpu:4 --nodes=2 --ntasks-per-node=4 --account=abc --qos=acc_ehpc, 4, 20",
    },
    "mila": {
        "1gpu": "--gres=gpu:1 --partition=main --mem=16000M, 1, 4",
        "1node": "--gres=gpu:4 --partition=long --mem=64000M, 4, 4",
    },
    "miyabi_c": {
        "cpu": "-l select=1:mpiprocs=1 -W group_list=abc -q short-c, 1, 112",
        "1gpu": "miyabi_c has no GPUs. Leave out job.gpus",
        "2nodes": "-l select=2:mpiprocs=1 -W group_list=abc -q short-c, 1, 112",
    },
    "miyabi_g": {
        "cpu": "-l select=1 -W group_list=abc -q short-g, 1, 1",
        "2nodes": "-l select=2:mpiprocs=1 -W group_list=abc -q short-g, 1, 72",
    },
    "perlmutter": {
        "cpu": "--constraint=cpu --account=abc --qos=regular, 1, 1",
        "1gpu": "--constraint=gpu --gpus-per-node=1 --account=abc --qos=shared, 1, 32",
        "2nodes": "--constraint=gpu --gpus-per-node=4 --account=abc --qos=regular, 4, 32",
    },
    "slurm": {
        "cpu": "--nodes=1 --ntasks-per-node=1, 1, 1",
        "1gpu": "--gres=gpu:1, 1, 1",
        "2nodes": "--gres=gpu:4 --nodes=2 --ntasks-per-node=4, 4, 1",
    },
    "snellius_a100": {
        "cpu": "--partition=rome, 1, 1",
        "1gpu": "--partition=gpu_a100 --gpus-per-node=1 --mem=120000M, 1, 18",
        "2nodes": "--partition=gpu_a100 --gpus-per-node=4 --nodes=2 --ntasks-per-node=4, 4, 18",
    },
    "snellius_h100": {
        "1gpu": "--partition=gpu_h100 --gpus-per-node=1 --mem=180000M, 1, 16",
        "2nodes": "--partition=gpu_h100 --gpus-per-node=4 --nodes=2 --ntasks-per-node=4, 4, 16",
    },
    "tsubame4": {
        "cpu": "-l cpu_4=1 -l h_rt=02:00:00, 1, 4",
        "1gpu": "-l gpu_1=1, 1, 8",
        "2nodes": "-l node_f=2, 4, 8",
    },
    "wisteria_a": {
        "cpu": "-L node=1 -g abc -L rscgrp=prepost, 1, 1",
        "1gpu": "-L gpu=1 -g abc -L rscgrp=share-short, 1, 9",
        "2nodes": "-L node=2 --mpi proc=16 -g abc -L rscgrp=short-a, 8, 9",
        "chunks": "-L rscgrp=regular-a -L elapse=03:00:00, 8, 9",
    },
    "wisteria_o": {
        "cpu": "-L node=1 --mpi proc=1 -g abc -L rscgrp=short-o, 1, 48",
        "1gpu": "wisteria_o has no GPUs. Leave out job.gpus",
        "2nodes": "-L node=2 --mpi proc=2 -g abc -L rscgrp=short-o, 1, 48",
    },
    "workstation": {
        "cpu": ", 1, 1",
        "2nodes": "workstation is one machine without a scheduler. Leave out job.nodes",
        "chunks": "cannot continue a job by another one. Leave out job.chunk",
    },
}
# `lab shell` for one GPU, or a CPU where there is none
SHELLS = {
    "abci3": "qsub -I -l select=1 -v USE_SSH=1 -P abc -q rt_HG -l walltime=02:00:00",
    "lsf": "bsub -Is -gpu num=1 -n 1 -R 'span[ptile=1]' -W 120 bash -l",
    "mila": "srun --job-name=lab-shell --gres=gpu:1 --partition=main --nodes=1 --ntasks-per-node=1 --cpus-per-task=4 "
    "--time=03:00:00 --mem=16000M --pty bash -l",
    "miyabi_c": "qsub -I -l select=1:mpiprocs=1 -W group_list=abc -q interact-c -l walltime=02:00:00",
    "tsubame4": "qrsh -g abc -l gpu_1=1 -l h_rt=02:00:00",
    "wisteria_a": "pjsub --interact -L gpu=1 -g abc -L rscgrp=share-interactive -L elapse=00:10:00",
    "wisteria_o": "pjsub --interact -L node=1 --mpi proc=1 -g abc -L rscgrp=interactive-o -L elapse=00:30:00",
    "workstation": "bash -l",
}
# site of each scheduler -> what asks for three runs, of which two at a time
ARRAYS = {
    "slurm": {"--array=0-2%2", "--output={}/array/%a.log"},
    "abci3": {"-J 0-2%2", "-o {}/array/^array_index^.log"},
    "tsubame4": {"-t 1-3", "-tc 2", "-o {}/array/$TASK_ID.log"},
    "lsf": {'-J "wide[1-3]%2"', "-o {}/array/%I.log"},
    "wisteria_a": {"--bulk --sparam 0-2", "-o {}/array/%b.log"},
}
RUN = "/home/ann/myproj/runs/wide/20261120-190000-abcdef"
OFFLINE = "export HF_HUB_OFFLINE=1"


@pytest.fixture(autouse=True)
def no_settings_of_a_user(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("LAB_SITE_PATH", "LAB_CACHES", *CACHES):
        monkeypatch.delenv(name, raising=False)


def directives(text):
    """What the script asks the scheduler for, a line each."""
    head = text.partition("\n\n")[0]
    return re.findall(r"^#(?:SBATCH|PBS|\$|BSUB|PJM) (.*)$", head, re.M)


def size_of(text, name):
    return int(re.search(rf"^{name}=(\d+)$", text, re.M)[1])


@pytest.mark.parametrize(
    ("site", "shape"), [(site, shape) for site in ASKED for shape in ASKED[site]]
)
def test_a_site_asks_for_a_job_of_this_shape(site, shape):
    asked = ASKED[site][shape]
    if ", " not in asked:
        with pytest.raises(LabError, match=re.escape(asked)):
            job_script(site, **SHAPES[shape])
        return
    words, n_tasks, n_cores = asked.rsplit(", ", 2)
    text = job_script(site, **SHAPES[shape])
    lines = " ".join(directives(text))
    missing = [word for word in re.split(r" (?=-)", words) if word not in lines]
    assert missing == []
    assert size_of(text, "TASKS_PER_NODE") == int(n_tasks)
    assert size_of(text, "CPUS_PER_TASK") == int(n_cores)


def test_every_site_is_in_the_table():
    assert set(ASKED) == set(SITES)


@pytest.mark.parametrize("site", SHELLS)
def test_a_shell_of_a_site(site):
    gpus = 0 if load_site(ANN, site).gpus_per_node == 0 else 1
    scheduler = scheduler_of(scheduler_of_site(site))
    words = scheduler.shell_words(job_request(site, gpus=gpus, is_shell=True))
    assert shlex.join(words) == SHELLS[site]


@pytest.mark.parametrize("name", SITES)
def test_the_environment_of_a_job_is_that_of_the_profile(name):
    """Modules, the network, caches, the node's own disk and the launcher come from it, and from nowhere else."""
    site = load_site(ANN, name)
    shape = "1gpu" if name == "workstation" else "2nodes"
    text = job_script(name, **SHAPES[shape])
    modules = site["modules"]["load"]
    assert ("module load" in text) == bool(modules)
    assert not modules or f"  module load {' '.join(modules)}\n" in text
    assert ("  module purge\n" in text) == bool(site["modules"]["purge"])
    assert (OFFLINE in text) == (not site["internet"]["jobs"])
    assert ("export LAB_CACHES=/home/ann/myproj/.caches" in text) == bool(site["paths"]["caches"])
    disk = (site["node_local"] or "").lstrip("$")
    place = f'"${{{disk}:-/dev/shm}}/lab-$JOB' if disk else '"/dev/shm/lab-$JOB'
    assert f"NODE_DIR={place}" in text
    for option in site["launcher_options"]:
        assert all(word in text for word in shlex.split(option, posix=False))
    assert size_of(text, "MAX_REQUEUES") == site["requeue"]["max"]


def test_the_wheels_of_a_centre_make_the_environment_on_the_node():
    text = job_script("alliance", **SHAPES["2nodes"])
    assert 'PYTHON=("$NODE_DIR/env/bin/python")\n' in text
    assert 'virtualenv --no-download "$NODE_DIR/env"' in text
    assert "pip install --quiet --no-index --requirement" in text


@pytest.mark.parametrize("site", ARRAYS)
def test_an_array_of_each_scheduler(site):
    text = job_script(site, **SHAPES["array"])
    assert {line.format(RUN) for line in ARRAYS[site]} <= set(directives(text))
    assert text.count("  /home/ann/myproj/runs/wide/20261120-19000") == 3
    assert "# Run 20261120-190000-abcdef of wide, and 2 more\n" in text


@pytest.mark.parametrize("site", [*ARRAYS, "workstation"])
def test_a_command_and_runs_before_are_quoted(site):
    each = job_script(site, **SHAPES["each"])
    assert """(-m labrig rank -- python 'it'"'"'s.py' 'a b' '--to={}') # of each process""" in each
    after = job_script(site, **SHAPES["after"])
    assert (
        """for BEFORE in '/home/ann/myproj/runs/it'"'"'s one/1' /home/ann/myproj/runs/wide/2; do"""
        in after
    )


@pytest.mark.parametrize("site", ["abci3", "wisteria_a"])
def test_a_chunk_of_a_chain_knows_which_it_is(site):
    assert "chunk $CHUNK of 7: the run is over" in job_script(site, **SHAPES["chunks"])


def test_lsf_counts_the_cores_and_reserves_the_memory():
    text = job_script("lsf", nodes=2, gpus=4, cpus_per_task=4, mem="64G")
    asked = set(directives(text))
    assert asked >= {"-n 32", '-R "span[ptile=16]"', "-M 64G", '-R "rusage[mem=64G]"'}


@pytest.mark.parametrize("title", IMAGES)
def test_a_job_takes_its_packages_from_one_file(title):
    site, form = IMAGES[title]
    shape = "1gpu" if site == "workstation" else "2nodes"
    text = job_script(site, **SHAPES[shape], form=form)
    file = "/scratch/ann/images/myproj-0123456789ab"
    python = {
        "packed": '("$NODE_DIR/env/bin/python")',
        "pyxis": "(python3)",
        "apptainer": f"(apptainer exec --nv {file}.sif python3)",
        "singularity": f"(singularity exec --nv {file}.sif python3)",
    }
    assert f"PYTHON={python[form]}\n" in text
    assert f"export LAB_IMAGE={file}." in text
    assert f"LAB_IMAGE_SHA256={'f00d' * 16}\n" in text
    if form == "packed":
        assert f'unpack {file}.tar "$NODE_DIR/env"' in text
    elif form == "pyxis":
        assert f"--container-image={file}.sqsh " in text
    else:
        bind = f"{form.upper()}_BIND"
        assert f"export {bind}=${{{bind}:+${bind},}}$MOUNTS\n" in text, "binds of a module stay"
        assert "for place in /home/ann/myproj /scratch/ann " in text
