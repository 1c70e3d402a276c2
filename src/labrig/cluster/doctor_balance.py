"""The part of `lab doctor` about what is left to compute with."""

from __future__ import annotations

from collections.abc import Iterator

from ..project import Project, read_yaml, site_of
from .balance import balance_lines
from .doctor_checks import Finding
from .site import load_site, site_of_host


def balance(project: Project) -> Iterator[Finding]:
    """What the centre's command says, at the site of this host, else of the project."""
    config = read_yaml(project.source / "conf" / "config.yaml")
    site = load_site(project, site_of_host(project) or site_of(config))
    for line in balance_lines(site):
        if line.startswith("not known"):
            yield Finding("note", line, f"correct balance in {site.path}")
        else:
            yield Finding("ok", line)
