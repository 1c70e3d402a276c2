"""The one file that jobs take their packages from, instead of the thousands of an environment."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import LabError
from ...hdf5.file.hashes import keep_hash, read_hash, version_key
from ...project import Project, expand_path
from ...record.files.atomic import sha256
from ...record.files.schema import ImageFacts
from ...record.freeze.packages import installed_packages
from ..sites.site import Site

# how it is started -> how its name ends
FORMS = {"packed": ".tar", "apptainer": ".sif", "singularity": ".sif", "pyxis": ".sqsh"}
LOCK = "uv.lock"
PIP_LOCK = "requirements.lock"  # the same for pip, which a container's image is made from


@dataclass(frozen=True)
class Image:
    """The image of a container, or a packed environment.

    Args:
        form: one of FORMS.
    """

    file: Path
    form: str

    def facts(self) -> ImageFacts:
        """What a record says of it. Its hash is computed once for each version of the file."""
        key = version_key(self.file)
        content_hash = read_hash(key)
        if content_hash is None:
            content_hash = sha256(self.file)
            keep_hash(key, content_hash)
        return {"file": str(self.file), "sha256": content_hash}


def image_of(project: Project, site: Site, paths: dict[str, Any]) -> Image | None:
    """The image that jobs of a site use; None where they use the environment itself.

    There is one for each lock: for each content of uv.lock, or of the environment that is packed.

    Args:
        paths: the section of a composed configuration.
    """
    form = form_of(site)
    if form is None:
        return None
    own_image = site["container"].get("image")
    if own_image and form != "packed":
        place = expand_path(own_image, project.root, project.package)
        return Image(place or Path(own_image), form)
    name = f"{project.package}-{content_of(project, form)[:12]}{FORMS[form]}"
    return Image(image_directory(project, paths) / name, form)


def form_of(site: Site) -> str | None:
    """One of FORMS; None where jobs use the environment itself."""
    if site["python"] == "container":
        return site["container"]["tool"]
    return "packed" if site["python"] == "packed" else None


def content_of(project: Project, form: str) -> str:
    """The hash of what an image holds: of this environment's packages, or of the lock."""
    if form == "packed":
        return hashlib.sha256("\n".join(installed_packages(project.root)).encode()).hexdigest()
    require_lock(project)
    return sha256(project.root / LOCK)


def require_lock(project: Project) -> Path:
    """The lock that pip installs an image from."""
    for name in (LOCK, PIP_LOCK):
        if not (project.root / name).is_file():
            raise LabError(
                f"{name} is missing, and an image is made from it. "
                "`make setup` writes it where uv is installed; commit it then"
            )
    return project.root / PIP_LOCK


def image_directory(project: Project, paths: dict[str, Any]) -> Path:
    """Where images lie: on the scratch disk, which can bring back what it loses."""
    place = paths.get("scratch") or paths.get("caches") or project.root / ".caches"
    return Path(place) / "images"
