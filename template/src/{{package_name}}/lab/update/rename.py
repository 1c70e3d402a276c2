# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""`lab rename NEW`: the package gets another name, so that the next update knows it by that."""

from __future__ import annotations

import argparse
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import yaml

from ..errors import LabError, Refused
from ..machine.counted import counted
from ..project import Project
from .template_files import hash_of, read_hashes

NAME = re.compile(r"[a-z][a-z0-9_]{0,38}[a-z0-9]")
REFUSED = Path(__file__).with_name("refused_names.txt")
ANSWERS = ".copier-answers.yml"
HASHES = "lab/hashes.txt"  # below the package
LAB_YAML = "lab/conf/lab.yaml"  # the one of the template's files that names it
MAX_LISTED = 10
TEXTS = (
    *(
        ".py",
        ".ipynb",
        ".md",
        ".rst",
        ".txt",
        ".toml",
        ".yaml",
        ".yml",
        ".cfg",
        ".ini",
        ".sh",
        ".mk",
    ),
    *("Makefile", "Dockerfile", ".gitignore"),
)


def rename_command(project: Project, args: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="lab rename",
        description="Gives the package another name: its directory, the answers of copier, "
        "and every line that imports it or names its path.",
    )
    parser.add_argument("name", help="2 to 40 of a-z, 0-9 and _; the first a letter, the last no _")
    new = parser.parse_args(args).name
    require_free_name(project, new)
    require_clean(project.root)
    changed = rename_package(project.root, project.package, new)
    git(project.root, "add", "--all")
    print(
        f"src/{project.package} is src/{new} now, and {counted(len(changed), 'file')} name it so."
    )
    places = remaining_places(project.root, project.package, new)
    if places:
        print(
            f"These lines have the word {project.package} too. Change those that mean the package:"
        )
    for place in places:
        print(f"  {place}")
    print(
        "Now read the changes, install the package by its new name, and commit:\n"
        f"  git diff --cached\n  make setup check\n  git commit -m 'Rename the package to {new}'\n"
        "Earlier runs keep the old name. They are resumed, evaluated and reproduced with\n"
        "their own code."
    )
    return 0


def require_free_name(project: Project, new: str) -> None:
    """Raises:
    LabError: the name cannot be that of a package, copier would refuse it, or something has it.
    """
    if not NAME.fullmatch(new):
        raise LabError(
            f"{new!r} cannot be the name of a package; use 2 to 40 of a-z, 0-9 and _, begin with "
            "a letter, and do not end with _."
        )
    is_taken = new in sys.stdlib_module_names or importlib.util.find_spec(new) is not None
    is_path = (project.root / new).exists() or (project.root / "src" / new).exists()
    if is_taken or is_path or new in refused_names():
        raise LabError(f"{new!r} is the name of something else already. Try {new[:31]}_research")


def refused_names() -> list[str]:
    """The names that the template's question refuses, and with it every later update."""
    lines = REFUSED.read_text(encoding="utf-8").splitlines()
    return " ".join(lines[1:]).split()


def require_clean(root: Path) -> None:
    """Raises:
    Refused: there are changes that no commit holds, or no repository.
    """
    changed = git(root, "status", "--porcelain", "--", ".").splitlines()
    if changed:
        listed = "\n".join([*changed[:MAX_LISTED], "..."][: len(changed)])
        raise Refused(
            f"not committed: {counted(len(changed), 'file')}\n{listed}\n"
            "Commit first, so that the renaming can be undone: git add --all && git commit"
        )


def rename_package(root: Path, old: str, new: str) -> list[str]:
    """Moves the directory and changes each file that names the package; returns these files."""
    git(root, "mv", f"src/{old}", f"src/{new}")
    package = root / "src" / new
    hashes_path = package / HASHES
    templates = read_hashes(hashes_path.read_text(encoding="utf-8"))
    modules = {path.stem for path in package.iterdir()}
    changed = []
    for name in git(root, "ls-files", "-z").split("\0"):
        path = root / name
        old_name = name.replace(f"src/{new}/", f"src/{old}/", 1)
        names_no_package = old_name in templates and path != package / LAB_YAML
        if names_no_package or not name.endswith(TEXTS) or not path.is_file() or path.is_symlink():
            continue
        before = path.read_bytes()
        after = renamed_text(name, before.decode("utf-8", "surrogateescape"), old, new, modules)
        content = after.encode("utf-8", "surrogateescape")
        if content != before:
            path.write_bytes(content)
            changed.append(name)
        if path == package / LAB_YAML:
            text = hashes_path.read_text(encoding="utf-8")
            hashes_path.write_text(text.replace(hash_of(before), hash_of(content)), "utf-8")
    return changed


def renamed_text(name: str, text: str, old: str, new: str, modules: set[str]) -> str:
    """The text of a file with the package's name exchanged where it is the package's.

    These are its path src/OLD, its modules OLD.lab, and the places where only a package can stand.
    """
    path = rf"(?<=\bsrc/){old}(?!\w)"
    module = rf"(?<![\w./-]){old}(?=\.(?:{'|'.join(map(re.escape, modules))})\b)"
    patterns = [path, module]
    if name.endswith((".py", ".ipynb", ".md")):
        patterns += [rf"(?<=\bimport ){old}\b(?!\.)", rf"(?<=\bfrom ){old}(?= import\b)"]
    if name == "pyproject.toml":
        patterns += [rf'(?<="){old}(?=["\[])']
    if name.endswith(LAB_YAML):
        patterns += [rf"(?<=^package: ){old}\b"]
    text = re.sub("|".join(patterns), new, text, flags=re.MULTILINE)
    if name == ANSWERS:
        return answers_with(text, new)
    return text


def answers_with(text: str, new: str) -> str:
    """The answers of copier with another name of the package."""
    changed = re.sub(r"(?m)^package_name: .*$", f"package_name: {new}", text)
    if yaml.safe_load(changed).get("package_name") != new:
        raise LabError(f"{ANSWERS} has no line package_name. Restore it: git checkout -- {ANSWERS}")
    return changed


def remaining_places(root: Path, old: str, new: str) -> list[str]:
    """The lines that still have the old name as a word, as FILE:LINE:TEXT.

    Examples in the template's pages do not count; uv.lock follows with `make setup`.
    """
    hashes = (root / "src" / new / HASHES).read_text(encoding="utf-8")
    skipped = {ANSWERS, "uv.lock", *read_hashes(hashes)}
    words = ("grep", "-nIw", "--untracked", "-e", old, "--", ".")
    places = git(root, *words, codes=(0, 1)).splitlines()
    return [place for place in places if place.partition(":")[0] not in skipped]


def git(root: Path, *words: str, codes: tuple[int, ...] = (0,)) -> str:
    """What git prints.

    Raises:
        Refused: it failed.
    """
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, check=False)
    if done.returncode not in codes:
        reason = done.stderr.decode("utf-8", "replace").strip()
        raise Refused(f"git {words[0]} failed: {reason}. See: git status")
    return done.stdout.decode("utf-8", "surrogateescape").rstrip("\n")
