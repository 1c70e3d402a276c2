"""`lab site show`: the profile of a cluster."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..errors import LabError
from ..project import Project, shown_path
from .site import account_of, load_site
from .verified import describe_trust, is_experimental, verification_of


def show_command(project: Project, args: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="lab site show", description="A site's profile; without NAME, all sites."
    )
    parser.add_argument("name", nargs="?")
    name = parser.parse_args(args).name
    if name is None:
        print_sites(project)
    else:
        print_site(project, name)


def print_sites(project: Project) -> None:
    """The name and file of every site, and who has run a job there."""
    files: dict[str, Path] = {}
    for directory in reversed(project.site_directories):  # the first directory wins
        for path in directory.glob("*.yaml"):
            files[path.stem] = path
    for name, path in sorted(files.items()):
        print(f"{name:<16} {trust_of(project, name):<20} {shown_path(path, project)}")


def trust_of(project: Project, name: str) -> str:
    """Who has run a job at a site, in a word or two."""
    try:
        site = load_site(project, name)
    except LabError:
        return "has a mistake"
    verification = verification_of(site)
    if verification:
        return f"verified by {verification.by}"
    if site["verified"]:
        return "run by the tests"
    return "experimental" if is_experimental(site) else "not verified"


def print_site(project: Project, name: str) -> None:
    site = load_site(project, name)
    print(f"# {site.path}")
    print(f"# account: {account_of(site) or 'none in accounts.yaml'}")
    print(f"# {describe_trust(site)}")
    print(site.text, end="")
