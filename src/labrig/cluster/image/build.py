"""`lab image build`: the one file that jobs take their packages from."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

from ...config.overrides import SettingsParser
from ...config.resolve import plain_values
from ...errors import Failed, LabError
from ...machine.disk import create_striped
from ...machine.own_output import refuse_to_overwrite
from ...project import Project
from ...record.files.atomic import sha256
from ...record.freeze.bundle import flush_to_disk
from ..job.environment import outermost
from ..sites.site import Site, load_site
from ..submit.plan import points_of
from ..submit.script import JobTemplate
from .packed import LOCK, Image, image_of, require_lock

# What a container's image is made from: the lock, on a base with Python.

FILES = Path(__file__).parent / "files"
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


def build_command(project: Project, args: list[str]) -> None:
    """Packs the environment, or builds the image of a container, as the site's `python` says."""
    parser = SettingsParser(
        "lab image build",
        "Makes the file that jobs take their packages from. site.python=packed: the environment as"
        " one file; site.python=container: an image.",
    )
    point = points_of(project, parser.read(args).overrides, command=["lab"])[0]
    config = plain_values(point.config)
    site = load_site(project, point.choices["site"], config["site"])
    image = image_of(project, site, config["paths"])
    if image is None:
        raise LabError(
            f"jobs of {site.name} use the environment itself (python: {site['python']}). "
            "For one file instead add site.python=packed or site.python=container"
        )
    if image.file.exists():
        print(f"{image.file} is there. To make it again, delete it first")
        return
    image.file.parent.mkdir(parents=True, exist_ok=True)
    create_striped(image.file.parent)  # many nodes will read the files in it
    if image.form == "packed":
        pack_environment(Path(sys.prefix), image.file)
    elif image.form == "pyxis":
        raise Failed(pyxis_command(project, site, image, require_lock(project)))
    else:
        build_image(project, site, image)


def pack_environment(environment: Path, file: Path) -> None:
    """Writes an environment as one tar file, uncompressed: a node unpacks it as fast as it reads."""
    print(f"packing {environment}", flush=True)
    began_s = time.monotonic()
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    command = ["tar", "-cf", str(temporary), "-C", str(environment), "."]
    try:
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise Failed(f"{file} cannot be written: {done.stderr.strip()}. Free space, then again")
        flush_to_disk(temporary)
        os.replace(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)
    size_GB = file.stat().st_size / 1e9
    seconds = time.monotonic() - began_s
    print(f"{file}: {size_GB:.2f} GB in {seconds:.0f} s. Jobs unpack it on each node")


def build_image(project: Project, site: Site, image: Image) -> None:
    """Builds a container from its definition, which lies next to it."""
    definition = image.file.with_suffix(".def")
    text = apptainer_definition(project, site, require_lock(project))
    refuse_to_overwrite(definition, lambda content: b"/opt/lab/install.sh" in content)
    definition.write_text(text, encoding="utf-8")
    temporary = image.file.with_name(f".{image.file.name}.{os.getpid()}")
    command = [image.form, "build", str(temporary), str(definition)]
    if not shutil.which(image.form):
        by_hand = shlex.join([image.form, "build", str(image.file), str(definition)])
        raise Failed(
            f"{image.form} is not installed here. Where it is, and a network, type:\n  {by_hand}\n"
            "On some clusters that is a compute node (lab shell), or after: module load apptainer"
        )
    print(f"building {image.file} from {definition}", flush=True)
    try:
        if subprocess.run(command).returncode:
            raise Failed(f"{shlex.join(command)} failed, see above. Then again: lab image build")
        os.replace(temporary, image.file)
    finally:
        temporary.unlink(missing_ok=True)
    print(f"{image.file}: {image.file.stat().st_size / 1e9:.2f} GB")
