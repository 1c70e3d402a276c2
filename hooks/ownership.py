"""Run after a change in a template's file: ownership.py. It writes the hashes that `lab doctor` compares with.

A project cannot compute them: it only has the files, and copier runs nothing of ours there.
"""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from pathlib import Path

import pathspec
import yaml

ROOT = Path(__file__).resolve().parents[1]
TABLE = Path(__file__).with_name("ownership.yaml")
JINJA = ".jinja"
NOT_RENDERED = ("answers.jinja",)  # read by copier.yml and by other files
CACHES = {"__pycache__", ".ruff_cache", ".pytest_cache"}  # tools leave them next to the files
HASHES = "src/{{package_name}}/lab/hashes.txt.jinja"  # below template/
HEADER = (
    '# Template\'s file: updated by "copier update". '
    "Change it in the template, or override it from your own files.\n"
    "# The hash of each of the template's files, as the template wrote it: `lab doctor` compares with them.\n"
)


def main() -> int:
    """Writes the list of hashes; 1 when it has changed, else 0."""
    path = ROOT / "template" / HASHES
    text = hash_list(ROOT / "template")
    is_new = not path.exists() or path.read_text(encoding="utf-8") != text
    path.write_text(text, encoding="utf-8")
    print(f"{path.relative_to(ROOT)} is {'written: commit it' if is_new else 'up to date'}")
    return int(is_new)


def owners_of(path: str) -> list[str]:
    """The lists of ownership.yaml that hold a file of a project; one, for a file of the template."""
    return [owner for owner, spec in compiled_table().items() if spec.match_file(path)]


@cache
def compiled_table() -> dict[str, pathspec.GitIgnoreSpec]:
    return {
        owner: pathspec.GitIgnoreSpec.from_lines(patterns)
        for owner, patterns in read_table().items()
    }


@cache
def read_table() -> dict[str, list[str]]:
    """Owner -> patterns of paths."""
    return yaml.safe_load(TABLE.read_text(encoding="utf-8"))


def template_sources(template: Path) -> list[Path]:
    """All files under template/ that are rendered, as paths below it."""
    paths = [path.relative_to(template) for path in template.rglob("*") if path.is_file()]
    return sorted(
        path
        for path in paths
        if not CACHES.intersection(path.parts) and path.name not in NOT_RENDERED
    )


def rendered_path(source: Path, package: str = "{{package_name}}") -> str:
    """Where a file under template/ lies in a project."""
    name = str(source).removesuffix(JINJA)
    name = name.replace("{{_copier_conf.answers_file}}", ".copier-answers.yml")
    return name.replace("{{package_name}}", package)


def hash_list(template: Path) -> str:
    """The text of hashes.txt.jinja: a line for each of the template's files but itself.

    For a file that is rendered from answers, Jinja computes the hash in the project.
    """
    lines = []
    for source in template_sources(template):
        path = rendered_path(source)
        if str(source) == HASHES or owners_of(path) != ["template"]:
            continue
        hexadecimal = hashlib.sha256((template / source).read_bytes()).hexdigest()
        if source.suffix == JINJA:
            hexadecimal = (
                f'{{% set text %}}{{% include "template/{source}" %}}{{% endset %}}'
                "{{ text | hash('sha256') }}"
            )
        lines.append(f"{hexadecimal}  {path.replace('{{package_name}}', '{{ package_name }}')}\n")
    return HEADER + "".join(lines)


if __name__ == "__main__":
    sys.exit(main())
