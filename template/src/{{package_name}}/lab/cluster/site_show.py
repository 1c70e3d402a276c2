# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab site show`: the profile of a cluster."""

from __future__ import annotations

import argparse
import os

from ..project import Project
from .site import account_of, load_site

ASKED = ("queues", "gpu", "job")  # keys of the draft that the cluster itself has answered


def show_command(project: Project, args: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="lab site show", description="A site's profile; without NAME, all sites."
    )
    parser.add_argument("name", nargs="?")
    name = parser.parse_args(args).name
    if name is None:
        found = {
            path.stem: path
            for folder in reversed(project.site_directories)
            for path in folder.glob("*.yaml")
        }
        for name, path in sorted(found.items()):
            print(f"{name:<16} {os.path.relpath(path, project.root)}")
        return
    site = load_site(project, name)
    print(
        f"# {site.path}\n# account: {account_of(site) or 'none in accounts.yaml'}\n{site.text}",
        end="",
    )
