"""Job scripts of every site and shape, as tests render them: for a project in /home/ann/myproj."""

from pathlib import Path

from labrig.cluster.image.packed import FORMS, Image
from labrig.cluster.sections import JobSettings
from labrig.cluster.sites.rules import build_request
from labrig.cluster.sites.site import load_site
from labrig.cluster.submit.plan import Plan
from labrig.cluster.submit.script import CodeArchive, render_script, script_template
from labrig.config.setting import read_section
from labrig.project import Project, read_yaml
from projects import ROOT

WORK = Path("/home/ann/myproj")
PYTHON = WORK / ".venv/bin/python"
ANN = Project(WORK, "myproj")
SITES = sorted(path.stem for path in (ROOT / "src/labrig/conf/site").glob("*.yaml"))
GPUS_WHERE_UNKNOWN = 4  # per node


SHAPES = {
    "cpu": {"gpus": 0},
    "1gpu": {},
    "1node": {"gpus": None},
    "2nodes": {"gpus": None, "nodes": 2},
    "array": {"n_runs": 3},
    "chunks": {"gpus": None, "time": "20h", "chunk": "3h"},
    "after": {"after_runs": ["/home/ann/myproj/runs/it's one/1", "/home/ann/myproj/runs/wide/2"]},
    "each": {"n_runs": 2, "command": ["--", "python", "it's.py", "a b", "--to={}"]},
}
# forms of an image, each for the script of Slurm on two nodes, and where srun is not what starts it
IMAGES = {
    "packed": ("slurm", "packed"),
    "apptainer": ("slurm", "apptainer"),
    "pyxis": ("slurm", "pyxis"),
    "singularity with PBS": ("abci3", "singularity"),
    "apptainer without a scheduler": ("workstation", "apptainer"),
}


class KnownImage(Image):
    """An image that need not be there."""

    def facts(self):
        return {"file": str(self.file), "sha256": "f00d" * 16}


def with_image(site, form):
    """A site whose jobs take their packages from one file, and that file."""
    values = dict(read_yaml(site.path), python="packed" if form == "packed" else "container")
    if form != "packed":
        values["container"] = {"tool": form}
    file = Path(f"/scratch/ann/images/myproj-0123456789ab{FORMS[form]}")
    return load_site(ANN, site.name, values), KnownImage(file, form)


def job_request(site_name, **job):
    """The request for a job of a site; see `request_of`."""
    return request_of(load_site(ANN, site_name), **job)


def request_of(site, *, nodes=1, gpus=1, n_runs=1, is_shell=False, **job):
    """The request for a job; gpus=None takes all of a node."""
    if gpus is None:
        known = site.gpus_per_node != float("inf")
        gpus = site.gpus_per_node if known else GPUS_WHERE_UNKNOWN
    account = "abc" if site["account"]["required"] else None
    job = {"nodes": nodes, "gpus": gpus, "account": account} | job
    return build_request(site, job_settings(**job), "wide", n_runs, is_shell)


def scheduler_of_site(site):
    """The name of the scheduler that a site has."""
    return load_site(ANN, site).scheduler


def job_settings(**job):
    """The section `job` of a configuration that sets these keys."""
    return read_section(JobSettings, job, "job.")


def job_script(
    site_name, *, n_runs=1, command=(), form=None, template=None, after_runs=None, **job
):
    """The text of a job script for such a request.

    Args:
        form: of an image, as in FORMS.
        template: another script than the library's own.
        after_runs: the directories of runs that must finish before.
    """
    site, image = load_site(ANN, site_name), None
    if form:
        site, image = with_image(site, form)
    plan = Plan(
        project=ANN,
        site=site,
        request=request_of(site, n_runs=n_runs, **job),
        points=[],
        command=["-m", "labrig", "rank", *command],
        throttle=2,
        idle_min=30.0,
        runs=WORK / "runs",
        scratch=WORK,
        trains=not command,
        caches=WORK / ".caches" if site["paths"].get("caches") else None,
        mounts=(WORK, Path("/scratch/ann")),
        python=PYTHON,
        image=image,
        after=after_runs
        and {"when": "finished", "runs": {Path(run).name: run for run in after_runs}},
    )
    run_dirs = [WORK / f"runs/wide/20261120-19000{i}-abcdef" for i in range(n_runs)]
    code = CodeArchive(
        WORK / "runs/.code/c0ffee.tar",
        "c0ffee",
        "",
        template or script_template(WORK, plan.site.scheduler),
    )
    return render_script(plan, run_dirs, code)
