"""Job scripts of every site and shape, as tests render them: for a project in /home/ann/myproj."""

import sys
from pathlib import Path

from conftest import ROOT
from myproj.lab.cluster.plan import Plan, python_in_job
from myproj.lab.cluster.script import CodeArchive, render_script
from myproj.lab.cluster.site import load_site
from myproj.lab.cluster.site_rules import build_request
from myproj.lab.project import Project

WORK = Path("/home/ann/myproj")
PYTHON = str(WORK / ".venv/bin/python")
ANN = Project(WORK, "myproj")
SITES = sorted(
    path.stem for path in (ROOT / "template/src/{{package_name}}/lab/conf/site").glob("*.yaml")
)
GPUS_WHERE_UNKNOWN = 4  # per node


def job_request(site_name, *, nodes=1, gpus=1, n_runs=1, is_shell=False, **job):
    """The request for a job; gpus=None takes all of a node."""
    site = load_site(ANN, site_name)
    if gpus is None:
        known = site.gpus_per_node != float("inf")
        gpus = site.gpus_per_node if known else GPUS_WHERE_UNKNOWN
    account = "abc" if site["account"]["required"] else None
    job = {"nodes": nodes, "gpus": gpus, "account": account} | job
    return build_request(site, job, "wide", n_runs, is_shell)


def job_script(site_name, *, n_runs=1, command=(), **job):
    """The text of a job script for such a request."""
    site = load_site(ANN, site_name)
    python = [PYTHON if word == sys.executable else word for word in python_in_job(site)]
    plan = Plan(
        project=ANN,
        site=site,
        request=job_request(site_name, n_runs=n_runs, **job),
        points=[],
        command=[*python, "-m", "myproj.lab", "rank", *command],
        throttle=2,
        runs=WORK / "runs",
        scratch=WORK,
        trains=not command,
    )
    run_dirs = [WORK / f"runs/wide/20261120-19000{i}-abcdef" for i in range(n_runs)]
    code = CodeArchive(WORK / "runs/.code/c0ffee.tar", commit="c0ffee", prefix="")
    return render_script(plan, run_dirs, code)
