"""Tags: plain versions on the main line, one for a commit, and never moved."""

from __future__ import annotations

import re

from packaging.version import Version

from .repository import Repository, sort_versions

PLAIN = re.compile(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){1,3}(\.post\d+)?")
LIST = "hooks/releases.txt"  # a line for each release: its tag and its commit


def check_version(repository: Repository, version: str) -> list[str]:
    """Whether `version` can be the next tag of this repository."""
    if not PLAIN.fullmatch(version):
        return [
            f"{version!r} is no plain version of PEP 440, and copier skips or mixes up others;\n"
            "  write 1.2.3, or in a fork of the release 1.2.3: 1.2.3.post1"
        ]
    newest = repository.newest_tag
    if version in repository.tags:
        return [f"the tag {version} exists already; a tag is never moved or used again"]
    if newest and Version(version) <= Version(newest):
        return [f"{version} is not newer than the last tag, {newest}"]
    here = repository.git("tag", "--points-at", "HEAD").split()
    if here:
        return [f"HEAD has the tag {here[0]} already; one commit has one tag: commit something"]
    return []


def check_tags(repository: Repository) -> list[str]:
    """Whether all earlier tags are plain, in the history of HEAD, and where they always were."""
    if repository.git("rev-parse", "--is-shallow-repository") == "true":
        return ["this clone is shallow and lacks tags; type: git fetch --unshallow --tags"]
    problems = []
    for tag in repository.tags:
        if not PLAIN.fullmatch(tag):
            problems.append(f"copier reads the tag {tag} as a version, but it is no plain one")
        if not repository.is_ancestor(tag, "HEAD"):
            problems.append(
                f"the tag {tag} is not in the history of HEAD, but copier would offer it.\n"
                f"  A tag of another repository (an upstream's): git tag -d {tag}"
            )
    return problems + _main_line(repository) + _moved(repository) + _remote(repository)


def _main_line(repository: Repository) -> list[str]:
    """HEAD must be part of the main branch, here or at the remote."""
    names = repository.git("for-each-ref", "--format=%(refname:short)", "refs").split()
    lines = ("main", "master", "origin/main", "origin/master")
    main = [name for name in lines if name in names]
    if any(repository.is_ancestor("HEAD", name) for name in main):
        return []
    return [f"HEAD is not on the main line ({main[0] if main else 'main'}); merge it first"]


def _moved(repository: Repository) -> list[str]:
    """Tags that are not where the committed list says, or that it lacks."""
    lines = (repository.text("HEAD", LIST) or "").splitlines()
    pairs = (line.split() for line in lines if line and not line.startswith("#"))
    recorded = {tag: commit for tag, commit in pairs}
    problems = []
    for tag in repository.tags:
        commit = _commit_of(repository, tag)
        if tag not in recorded:
            problems.append(f"{LIST} lacks a release; add the line: {tag} {commit}")
        elif recorded[tag] != commit:
            problems.append(
                f"the tag {tag} was moved: it is {commit[:12]}, and was {recorded[tag][:12]}.\n"
                f"  Move it back: git tag -f {tag} {recorded[tag][:12]}^{{}}; then release again"
            )
    return problems


def _remote(repository: Repository) -> list[str]:
    """Tags that the remote has elsewhere, or alone."""
    if "origin" not in repository.git("remote").split():
        return []
    lines = repository.git("ls-remote", "--tags", "origin").splitlines()
    pairs = (line.split("\trefs/tags/") for line in lines)
    remote = {tag: commit for commit, tag in pairs}
    problems = []
    for tag in sort_versions([name for name in remote if not name.endswith("^{}")]):
        commit = remote.get(f"{tag}^{{}}", remote[tag])
        if tag not in repository.tags:
            problems.append(f"only origin has the tag {tag}; type: git fetch --tags origin")
        elif commit != _commit_of(repository, tag):
            problems.append(f"the tag {tag} is another commit at origin; one of them was moved")
    return problems


def _commit_of(repository: Repository, tag: str) -> str:
    return repository.git("rev-parse", f"refs/tags/{tag}^{{commit}}")
