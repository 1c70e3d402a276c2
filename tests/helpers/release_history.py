"""A small template of two releases, as the tests of the release check need it."""

import sys

from projects import ROOT
from repositories import commit, git, write

sys.path.insert(0, str(ROOT / "hooks"))
from release import published

HEADER = '# Template\'s file: updated by "copier update".\n'
QUESTIONS = """\
name: {type: str, default: x, validator: "{{ 'is too long' if name | length > 20 }}"}
author: {type: str, default: nobody}
licence: {type: str, default: MIT, choices: [MIT, Apache-2.0]}
site: {type: str, default: desk, choices: [desk, lanta]}
"""
SEEDS = ("/README.md", "/src/*/task.py")
TOMBSTONES = ("/notes.mk",)
LIBRARY = "src/labrig"
TOOL = "template/tools/start.sh"


def copier_yml(questions=QUESTIONS, seeds=SEEDS, kept=SEEDS + TOMBSTONES, more=""):
    at_updates = "".join(f"    {path}\n" for path in kept)
    return (
        f"_subdirectory: template\n{more}{questions}"
        f"_skip_if_exists: [{', '.join(seeds)}]\n"
        "_exclude:\n  - |\n    {% if _copier_operation == 'update' %}\n"
        f"{at_updates}    {{% endif %}}\n"
    )


PUBLISHED = {  # what an index and a forge show
    **dict.fromkeys(published.FILES, "text\n"),
    "pyproject.toml": """\
[project]
name = "small"
readme = "src/labrig/README.md"
authors = [{ name = "nobody" }]

[project.urls]
Homepage = "https://example.org"
Documentation = "https://example.org/docs"
Changelog = "https://example.org/changes"
Issues = "https://example.org/issues"
""",
    "src/labrig/README.md": "[pages](https://example.org/docs)\n",
}

FIRST = {
    **PUBLISHED,
    "copier.yml": copier_yml(kept=SEEDS),
    "CHANGELOG.md": "# Changes\n\n## 0.1.0\n\nThe first.\n",
    "template/{{ _copier_conf.answers_file }}.jinja": "{{ _copier_answers | to_nice_yaml }}",
    "template/README.md": "the user's\n",
    "template/Makefile": "all:\n",
    "template/notes.mk": "all:\n",
    "template/extra.mk": "all:\n",
    "template/pyproject.toml.jinja": """\
[project]
license = "{{ licence }}"
requires-python = ">=3.11"

[tool.labrig]
package = "pkg"
template = "{{ _copier_answers._commit }}"
""",
    "template/src/pkg/task.py": "from labrig.task import cross_entropy\n\nprint(cross_entropy)\n",
    "template/src/pkg/conf.yaml": "_target_: ${package}.task.Task\n",
    TOOL: f"{HEADER}echo 1\n",
    "template/tools/end.sh": f"{HEADER}echo 2\n",
    f"{LIBRARY}/__init__.py": "",
    f"{LIBRARY}/loss.py": """\
class Loss:
    def __call__(self, score, label):
        return score


def cross_entropy(score, label, smoothing=0.0):
    return score


def hinge(score, label):
    \"\"\"The hinge loss.

    Deprecated: since 0.2.0. Take cross_entropy.
    \"\"\"
    return score
""",
    f"{LIBRARY}/task.py": """\
from .loss import Loss, cross_entropy, hinge

__all__ = ["Loss", "cross_entropy", "hinge"]
""",
    f"{LIBRARY}/conf/lab.yaml": "checkpoint:\n  every_min: 5\n",
    f"{LIBRARY}/conf/renamed.yaml": "settings: {}\noptions: {}\n",
    f"{LIBRARY}/conf/site/desk.yaml": "scheduler: local\n",
    f"{LIBRARY}/conf/site/lanta.yaml": "scheduler: slurm\n",
}


def two_releases(folder):
    """The tags 0.1.0 and 0.2.0, which drops a file, and a commit on top that can become 0.3.0."""
    write(folder, FIRST)
    release(folder, "0.1.0")
    (folder / "template/notes.mk").unlink()
    write(folder, {"copier.yml": copier_yml()})
    add_entry(folder, "0.2.0", "The file notes.mk is yours now.")
    release(folder, "0.2.0")
    add_entry(folder, "0.3.0", "More.")
    record_tags(folder)
    write_version(folder, "0.3.0")
    commit(folder, "ready for 0.3.0")
    return folder


def write_version(folder, version):
    """That of the library."""
    write(folder, {f"{LIBRARY}/version.py": f'__version__ = "{version}"\n'})


def release(folder, version):
    write_version(folder, version)
    commit(folder, version)
    git(folder, "tag", version)


def record_tags(folder):
    """Writes hooks/releases.txt."""
    tags = git(folder, "tag").split()
    lines = [f"{tag} {git(folder, 'rev-parse', f'{tag}^{{commit}}')}\n" for tag in tags]
    write(folder, {"hooks/releases.txt": "".join(lines)})


def add_entry(folder, version, text):
    changelog = folder / "CHANGELOG.md"
    old = changelog.read_text().removeprefix("# Changes\n")
    changelog.write_text(f"# Changes\n\n## {version}\n\n{text}\n{old}")
