"""`lab image build`: the one file that jobs take their packages from."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

from ..config.overrides import SettingsParser
from ..config.resolve import plain_values
from ..errors import Failed, LabError
from ..machine.disk import create_striped
from ..project import Project
from ..record.bundle import flush_to_disk
from .image import Image, image_of, require_lock
from .image_definition import apptainer_definition, pyxis_command
from .plan import compose_points
from .site import Site, load_site


def build_command(project: Project, args: list[str]) -> None:
    """Packs the environment, or builds the image of a container, as the site's `python` says.

    Raises:
        LabError: the site's jobs use the environment itself, or there is no lock.
        Failed: the image cannot be made here; the message says where, and what to type.
    """
    parser = SettingsParser(
        "lab image build",
        "Makes the file that jobs take their packages from. site.python=packed: the environment as"
        " one file; site.python=container: an image.",
    )
    point = compose_points(project, parser.read(args).overrides, command=["lab"])[0]
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
    """Writes an environment as one tar file, uncompressed: a node unpacks it as fast as it reads.

    Raises:
        Failed: the disk has no room.
    """
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
    """Builds a container from its definition, which lies next to it.

    Raises:
        Failed: the tool is not installed here, or it fails.
    """
    definition = image.file.with_suffix(".def")
    text = apptainer_definition(project, site, require_lock(project))
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
