"""`lab prefetch`: fetches what nodes without internet need, and proves that it is enough."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from ...config.compose import Composition, compose
from ...config.overrides import SettingsParser
from ...config.resolve import plain_values
from ...errors import Failed
from ...hdf5.pack.fetch import fetch_raw
from ...machine.hub import SCHEME
from ...project import Project
from ..job.environment import OFFLINE_SWITCHES, places_in_job
from ..sites.site import load_site
from .plan import site_of_login_node


def prefetch_command(project: Project, args: list[str]) -> None:
    """Trains one batch with the network, so that caches fill, then once more without it.

    Both times with the caches and the home directory that a job has at the site.
    """
    parser = SettingsParser(
        "lab prefetch", "Fetches what trial=NAME needs on nodes without internet, and proves it."
    )
    point = compose(project, parser.read(args).overrides)
    if site := site_of_login_node(project, point):
        point = compose(project, [*point.overrides, f"site={site}"])
    check = [sys.executable, "-m", "labrig", "check", *point.overrides]
    places = places_of(project, point)
    if "HOME" in places:
        Path(places["HOME"]).mkdir(parents=True, exist_ok=True)
    online = online_environment(project) | places
    fetch_raw_data(point)
    fetch_initial_weights(project, str(point.config.get("init_from")), online)
    code = subprocess.run(check, env=online, cwd=project.root).returncode
    if code:
        advice = "Fix that first: lab check"
        if not point.config.site.internet.login:
            advice = (
                f"Login nodes of {point.choices['site']} have no internet: type this on a machine"
                f" that has, with the same disks. If it is one: {advice}"
            )
        raise Failed(f"lab check fails here, with the network (exit code {code}). {advice}")
    without_network = network_cutter()
    done = subprocess.run(
        [*without_network, *check],
        env=online | OFFLINE_SWITCHES,
        cwd=project.root,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise Failed(
            "without the network the check fails, so a node could not run it:\n"
            f"{done.stderr.strip()}\n"
            "Fetch by hand what it names, and have the code read that file."
        )
    attempt = "without any network" if without_network else "with the offline switches only"
    print(f"everything is there (tried {attempt})")


def places_of(project: Project, point: Composition) -> dict[str, str]:
    """Where a job of this point finds what is fetched here."""
    config = plain_values(point.config)
    site = load_site(project, point.choices["site"], config["site"])
    paths = config["paths"]
    caches = Path(paths["caches"]) if paths["caches"] else None
    return places_in_job(site, Path(paths["scratch"] or project.root), caches)


def fetch_raw_data(point: Composition) -> None:
    """Downloads the raw data of the address in the data set's settings, if there is one."""
    section = plain_values(point.config).get("data")
    if isinstance(section, dict) and section.get("url"):
        print(f"raw data: {fetch_raw(section)}")


def fetch_initial_weights(project: Project, reference: str, online: dict[str, str]) -> None:
    """Downloads the model of the hub that `init_from` names, if it names one."""
    if not reference.startswith(SCHEME):
        return
    # A process of its own: the library reads its switches when it is imported.
    command = [sys.executable, "-m", "labrig.machine.hub", reference]
    done = subprocess.run(command, env=online, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise Failed(done.stderr.strip().rpartition("lab: ")[2])


def online_environment(project: Project) -> dict[str, str]:
    """The environment without the switches that keep libraries offline."""
    environment = {
        name: value for name, value in os.environ.items() if name not in OFFLINE_SWITCHES
    }
    earlier_path = os.environ.get("PYTHONPATH", "")
    environment["PYTHONPATH"] = os.pathsep.join([str(project.source.parent), earlier_path])
    return environment


def network_cutter() -> list[str]:
    """What to put before a command to take its network away; empty where that is not allowed."""
    if not shutil.which("unshare"):
        return []
    command = ["unshare", "--net"]
    if os.geteuid() != 0:
        command.append("--map-root-user")
    is_allowed = subprocess.run([*command, "true"], capture_output=True).returncode == 0
    return command if is_allowed else []
