# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab snapshot`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from ..project import Project
from .snapshot import snapshot

PRINTED = ("commit", "tree", "ref", "dirty", "skipped", "submodules")


def snapshot_command(project: Project, args: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="lab snapshot", description="Freezes the working tree as a commit under refs/runs/."
    )
    parser.add_argument(
        "--repo", type=Path, default=project.root, help="another repository than the project's"
    )
    parser.add_argument(
        "--max-file-mb", type=float, default=10, help="skip larger files that git does not track (10)"
    )
    parser.add_argument("--allow", action="store_true", help="record also what looks like a token")
    parser.add_argument("--json", action="store_true", help="for scripts: " + ", ".join(PRINTED))
    options = parser.parse_args(args)
    found = snapshot(options.repo, max_file_mb=options.max_file_mb, allow=options.allow)
    if options.json:
        print(json.dumps({key: found[key] for key in PRINTED}))
        return
    print(f"{found['commit']} {found['ref']}{' (with uncommitted changes)' if found['dirty'] else ''}")
    for entry in found["skipped"]:
        print(f"skipped {entry['path']}: {entry['reason']}")
