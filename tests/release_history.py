"""A small template of two releases, as the tests of the release check need it."""

from repositories import commit, git, write

HEADER = '# Template\'s file: replaced by "copier update".\n'
QUESTIONS = """\
name: {type: str, default: x, validator: "{{ 'is too long' if name | length > 20 }}"}
author: {type: str, default: nobody}
licence: {type: str, default: MIT, choices: [MIT, Apache-2.0]}
site: {type: str, default: desk, choices: [desk, lanta]}
"""
SEEDS = ("/README.md", "/src/*/task.py")
TOMBSTONES = ("/notes.mk",)
LAB = "template/src/pkg/lab"


def copier_yml(questions=QUESTIONS, seeds=SEEDS, kept=SEEDS + TOMBSTONES, more=""):
    at_updates = "".join(f"    {path}\n" for path in kept)
    return (
        f"_subdirectory: template\n{more}{questions}"
        f"_skip_if_exists: [{', '.join(seeds)}]\n"
        "_exclude:\n  - |\n    {% if _copier_operation == 'update' %}\n"
        f"{at_updates}    {{% endif %}}\n"
    )


FIRST = {
    "copier.yml": copier_yml(kept=SEEDS),
    "CHANGELOG.md": "# Changes\n\n## 0.1.0\n\nThe first.\n",
    "template/{{ _copier_conf.answers_file }}.jinja": "{{ _copier_answers | to_nice_yaml }}",
    "template/README.md": "the user's\n",
    "template/Makefile": "all:\n",
    "template/notes.mk": "all:\n",
    "template/extra.mk": "all:\n",
    "template/pyproject.toml.jinja": '[project]\nlicense = "{{ licence }}"\nrequires-python = ">=3.11"\n',
    "template/src/pkg/task.py": "from .lab.loss import cross_entropy\n\nprint(cross_entropy)\n",
    "template/src/pkg/conf.yaml": "_target_: ${package}.lab.loss.cross_entropy\n",
    f"{LAB}/loss.py": f"{HEADER}def cross_entropy():\n    return 1\n",
    f"{LAB}/job.sh": f"{HEADER}echo 1\n",
    f"{LAB}/conf/lab.yaml": f"{HEADER}checkpoint:\n  every_min: 5\n",
    f"{LAB}/conf/renamed.yaml": f"{HEADER}settings: {{}}\noptions: {{}}\n",
    f"{LAB}/conf/site/desk.yaml": f"{HEADER}scheduler: local\n",
    f"{LAB}/conf/site/lanta.yaml": f"{HEADER}scheduler: slurm\n",
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
    commit(folder, "ready for 0.3.0")
    return folder


def release(folder, version):
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
