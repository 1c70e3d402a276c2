# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab snapshot` freezes the working tree; `lab runs code` writes the frozen code of a run."""

import argparse
import json
from pathlib import Path

from ..errors import LabError
from ..project import Project
from .bundle import materialise
from .find import find
from .snapshot import snapshot

PRINTED = ("commit", "tree", "ref", "dirty", "skipped", "submodules")


def snapshot_command(project: Project, args: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="lab snapshot", description="Freezes the working tree as a commit.")
    parser.add_argument("--repo", type=Path, default=project.root, help="another repository than the project's")
    parser.add_argument("--max-file-mb", type=float, default=10, help="skip larger files that git does not track (10)")
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


def code_command(project: Project, args: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="lab runs code", description="Writes the frozen code of a run.")
    parser.add_argument("run", help="an id or its beginning, a tag, @last, @best:val/loss")
    parser.add_argument("directory", nargs="?", type=Path, help="a new directory (code-<run>)")
    options = parser.parse_args(args)
    run = find(project.paths["runs"], options.run)
    directory = (options.directory or Path(f"code-{run.id}")).absolute()
    if directory.exists():
        raise LabError(f"{directory} exists already; name a new directory")
    materialise(run.record["code"], project.root, run.dir, directory)
    print(directory)
