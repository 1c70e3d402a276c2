"""What a container's image is made from: the lock, on a base with Python."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from ..project import Project
from ..record.atomic import sha256
from .image import LOCK, Image
from .job_python import outermost
from .script import JobTemplate
from .site import Site

FILES = Path(__file__).parent / "image_files"
INSTALL = FILES / "install.sh"
HUB = "docker.io/"  # the registry that enroot takes when none is named


def apptainer_definition(project: Project, site: Site, lock: Path) -> str:
    """The definition file of Apptainer and Singularity."""
    base = base_of(site)
    text = (FILES / "apptainer.def").read_text(encoding="utf-8")
    return JobTemplate(text).substitute(
        bootstrap="localimage" if base.startswith("/") else "docker",
        base=base,
        package=project.package,
        lock_sha256=sha256(project.root / LOCK),
        lock=lock,
        install=INSTALL,
    )


def pyxis_command(project: Project, site: Site, image: Image, lock: Path) -> str:
    """Says how an image for pyxis is made: within a job, since the plugin is one of srun."""
    base = base_of(site).removeprefix(HUB)
    registry, slash, name = base.partition("/")
    if slash and "." in registry and not base.startswith("/"):
        base = f"{registry}#{name}"  # as enroot writes it
    places = outermost([project.root, INSTALL.parent, image.file.parent])
    mounts = ",".join(f"{place}:{place}" for place in places)
    words = ["srun", "--nodes=1", "--ntasks=1", "--time=01:00:00", f"--container-image={base}"]
    words += ["--container-remap-root", "--container-writable", f"--container-mounts={mounts}"]
    words += [f"--container-save={image.file}", "sh", str(INSTALL), str(lock)]
    return (
        "pyxis makes images within a job. On a login node of a cluster whose nodes have a network,"
        f" type this, with the account and the partition of your site:\n  {shlex.join(words)}"
    )


def base_of(site: Site) -> str:
    """The base of an image, with this environment's version of Python."""
    version = "{}.{}".format(*sys.version_info)
    return site["container"]["base"].format(python=version)
