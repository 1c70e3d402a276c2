"""Run before a tag: check_release.py VERSION. Exits 0 when it can be tagged, else 1 and says what is missing.

It looks at the committed state (HEAD) and at what an update from the last tag would do to a project.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import copier
import yaml
from packaging.version import InvalidVersion, Version

NEEDS_TRUST = ("_tasks", "_migrations", "_jinja_extensions")
OWNED = re.compile(rb"# Template's file: replaced by")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version", help="the tag to be made, for example 0.2.0")
    parser.add_argument("--repository", type=Path, default=Path(__file__).parents[1])
    arguments = parser.parse_args(argv)
    problems = [*check(arguments.repository, arguments.version)]
    print(*problems or [f"{arguments.version} can be tagged"], sep="\n")
    return 1 if problems else 0


def check(repository: Path, version: str) -> list[str]:
    """What keeps HEAD of `repository` from becoming `version`, as instructions."""
    problems = (
        uncommitted(repository)
        + version_is_newer(repository, version)
        + changelog_has(repository, version)
    )
    trust = needs_no_trust(repository)
    # An update can only be tried when it needs no trust itself.
    return problems + (
        trust or dropped_paths_stay(repository, changelog_entry(repository, version))
    )


def uncommitted(repository: Path) -> list[str]:
    changed = git(repository, "status", "--porcelain")
    return [f"the work tree differs from HEAD; commit or remove:\n{changed}"] if changed else []


def version_is_newer(repository: Path, version: str) -> list[str]:
    try:
        new = Version(version)
    except InvalidVersion:
        return [
            f"{version!r} is not a version as PEP 440 defines it, and copier ignores such tags; write 1.2.3"
        ]
    newest = last_tag(repository)
    if newest and new <= Version(newest):
        return [f"{version} is not newer than the last tag, {newest}"]
    here = git(repository, "tag", "--points-at", "HEAD").split()
    return (
        [f"HEAD has the tag {here[0]} already; one commit has one tag, so commit something first"]
        if here
        else []
    )


def changelog_has(repository: Path, version: str) -> list[str]:
    if changelog_entry(repository, version).strip():
        return []
    return [
        f"CHANGELOG.md has no entry; write what an owner of a project sees, below a line `## {version}`"
    ]


def needs_no_trust(repository: Path) -> list[str]:
    config = yaml.safe_load(git(repository, "show", "HEAD:copier.yml"))
    return [
        f"copier.yml has {key}: every user would need --trust. Move it into `make setup` or hooks/migrate"
        for key in NEEDS_TRUST
        if key in config
    ]


def dropped_paths_stay(repository: Path, entry: str) -> list[str]:
    """Paths that an update from the last tag would delete in a project: found by updating one.

    A template's own file (its first line says so) may go when the changelog entry names it.
    """
    if (tag := last_tag(repository)) is None:
        return []
    with tempfile.TemporaryDirectory() as temporary:
        project = Path(temporary, "project")
        clone = Path(temporary, "template")
        git(repository, "clone", "--quiet", "--no-local", str(repository.resolve()), str(clone))
        options = {"defaults": True, "quiet": True, "unsafe": False}
        copier.run_copy(str(clone), project, vcs_ref=tag, **options)
        before = {
            path.relative_to(project): path.read_bytes()
            for path in project.rglob("*")
            if path.is_file()
        }
        git(project, "init", "--quiet")
        git(project, "add", "--all")
        git(
            project,
            "-c",
            "user.name=release",
            "-c",
            "user.email=release@localhost",
            "commit",
            "-qm",
            tag,
        )
        copier.run_update(project, vcs_ref="HEAD", overwrite=True, **options)
        gone = {path: content for path, content in before.items() if not (project / path).exists()}
    return [
        f"an update from {tag} deletes {path} in projects. Add it to the tombstones in copier.yml"
        + (
            ", or name it in the changelog entry, since it is the template's own"
            if OWNED.match(content)
            else ""
        )
        for path, content in sorted(gone.items())
        if not (OWNED.match(content) and path.name in entry)
    ]


def changelog_entry(repository: Path, version: str) -> str:
    """The text below the heading of `version` in the committed CHANGELOG.md."""
    text = git(repository, "show", "HEAD:CHANGELOG.md")
    found = re.search(
        rf"^## {re.escape(version)}\b[^\n]*\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL
    )
    return found[1] if found else ""


def last_tag(repository: Path) -> str | None:
    """The newest tag that is a version; copier takes no other."""
    versions = {}
    for tag in git(repository, "tag").split():
        try:
            versions[Version(tag)] = tag
        except InvalidVersion:
            continue
    return versions[max(versions)] if versions else None


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"git {' '.join(words)} failed in {folder}: {done.stderr.strip()}")
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
