"""`lab site show`: the profile of a cluster."""

from __future__ import annotations

from pathlib import Path

from ...command_parser import CommandParser
from ...errors import LabError
from ...machine.text_table import TextColumn, text_table
from ...project import Project, shown_path
from ..submit.script import library_template
from .site import account_of, describe_trust, is_experimental, load_site, verification_of


def show_command(project: Project, args: list[str]) -> None:
    parser = CommandParser(
        prog="lab site show", description="A site's profile; without NAME, all sites."
    )
    parser.add_argument("name", nargs="?")
    parser.add_argument(
        "--script", action="store_true", help="the library's job script for it, to edit in jobs/"
    )
    options = parser.parse_args(args)
    if options.script and options.name is None:
        raise LabError("name the site whose job script it is: lab site show NAME --script")
    if options.name is None:
        print_sites(project)
    elif options.script:
        print(library_template(load_site(project, options.name)["scheduler"]), end="")
    else:
        print_site(project, options.name)


def print_sites(project: Project) -> None:
    """The name and file of every site, and who has run a job there."""
    files: dict[str, Path] = {}
    for directory in reversed(project.site_directories):  # the first directory wins
        for path in directory.glob("*.yaml"):
            files[path.stem] = path
    names = sorted(files)
    columns = [
        TextColumn("", names, 16),
        TextColumn("", [trust_of(project, name) for name in names], 20),
        TextColumn("", [str(shown_path(files[name], project)) for name in names]),
    ]
    print("\n".join(text_table(columns, gap=" ")[1:]))


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
