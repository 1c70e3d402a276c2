"""hooks/check_release.py makes projects of each release and updates them. Each rule stops its planted mistake."""

import shutil
import sys

import pytest
from projects import ROOT
from release_history import (
    FIRST,
    HEADER,
    LIBRARY,
    QUESTIONS,
    SEEDS,
    TOOL,
    copier_yml,
    record_tags,
    two_releases,
    write_version,
)
from rendering import copy_template
from repositories import commit, git, write

sys.path.insert(0, str(ROOT / "hooks"))
import check_release

SPOILT = {
    # the tombstone of 0.1.0 is gone, a seed is listed once, another not at all, a living file kept away
    "copier.yml": copier_yml(
        QUESTIONS.replace("[desk, lanta]", "[desk]"),
        seeds=("/src/*/task.py", "/src/*/conf.yaml"),
        kept=("/src/*/task.py", "/tools/start.sh"),
    ),
    "CHANGELOG.md": "# Changes\n\n## 0.3.0\n\n`tools/end.sh` is gone; `.github/workflows/named.yml` is new.\n",
    "template/src/pkg/model.py": "A = 1\n",
    "template/.github/workflows/named.yml": f"{HEADER}on: push\n",
    "template/.github/workflows/new.yml": f"{HEADER}on: push\n",
    TOOL: "echo 1\n",
    f"{LIBRARY}/task.py": 'from .loss import Loss\n__all__ = ["Loss"]\n',
    f"{LIBRARY}/new.py": "A = 1\n",
    f"{LIBRARY}/version.py": '__version__ = "0.2.0"\n',
    f"{LIBRARY}/conf/lab.yaml": "checkpoint:\n  every_minutes: 5\n",
    f"{LIBRARY}/conf/renamed.yaml": "settings: {checkpoint.old: checkpoint.nowhere}\n",
}
DROPPED = (
    "template/extra.mk",
    "template/tools/end.sh",
    f"{LIBRARY}/conf/site/lanta.yaml",
)


def spoil(folder, texts, dropped=()):
    """A commit on top of two good releases."""
    two_releases(folder)
    for name in dropped:
        (folder / name).unlink()
    write(folder, texts)
    commit(folder, "spoil")
    return "\n".join(check_release.check(folder, "0.3.0"))


@pytest.fixture(scope="module")
def problems(tmp_path_factory):
    return spoil(tmp_path_factory.mktemp("spoilt"), SPOILT, DROPPED)


@pytest.mark.slow
@pytest.mark.parametrize(
    "problem",
    [
        "an update from 0.1.0 deletes notes.mk",  # two releases ago, with a tombstone until now
        "an update from 0.2.0 deletes extra.mk in projects. Add it to the tombstones",
        "the seed /src/*/conf.yaml is not in the update-time block",
        "README.md was a seed in 0.2.0",
        "keeps /tools/start.sh from updates, but the template writes tools/start.sh",
        "tools/start.sh has lost its first line",
        "src/pkg/model.py is new, and users may have a file of this name",
        ".github/workflows/new.yml is new, and users may have a file of this name",
        "src/labrig/version.py says 0.2.0",
        "the public name labrig.task.cross_entropy of 0.2.0 is gone",
        "the choice lanta of site is gone",
        "the option site/lanta of 0.2.0 is gone",
        "the setting checkpoint.every_min of 0.1.0 is gone",
        "checkpoint.nowhere, the new name of checkpoint.old, is no setting",
    ],
)
def test_the_rule_finds(problems, problem):
    assert problem in problems


@pytest.mark.slow
def test_nothing_else_is_found(problems):
    assert "labrig/new.py" not in problems, "no project has it"
    assert "hinge" not in problems, "0.2.0 deprecated it"
    assert "deletes tools/end.sh" not in problems, "the changelog names it"
    assert "named.yml" not in problems, "here, too"
    assert "Traceback" not in problems


BROKEN = {
    "template/src/pkg/task.py": ("def cross_entropy(:\n", "src/pkg/task.py of a project"),
    TOOL: (f"{HEADER}if true\n", "tools/start.sh of a project with the defaults"),
    "template/src/pkg/conf.yaml": ("a: [\n", "src/pkg/conf.yaml of a project"),
    "template/pyproject.toml.jinja": (
        'x = {{ "1" if licence == "MIT" else "[" }}\n',
        "pyproject.toml of a project with licence=Apache-2.0, site=lanta",
    ),
    "template/README.md.jinja": (
        "{{ 1 if name == 'x' else nothing.at_all }}",
        "site=lanta fails: UndefinedError: 'nothing' is undefined",
    ),
}


def test_every_set_of_answers_gives_files_that_can_be_read(tmp_path):
    texts = {name: text for name, (text, _) in BROKEN.items()}
    found = spoil(tmp_path, texts, ["template/README.md"])
    for _, problem in BROKEN.values():
        assert problem in found


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ('_min_copier_version: "99.0"\n', "a project of HEAD with the defaults fails: UnsupportedVersion"),
        ('_min_copier_version: "x"\n', "a project of HEAD with the defaults fails: "),
        ('_exclude: ["{{ topic }}"]\n', "an entry of _exclude fails ('topic' is undefined)"),
    ],
)  # fmt: skip
def test_what_copier_refuses_is_said_in_words(tmp_path, more, problem):
    settings = copier_yml().partition("_exclude")[0] if "_exclude" in more else copier_yml()
    assert problem in spoil(tmp_path, {"copier.yml": settings + more})


@pytest.mark.release
@pytest.mark.slow
def test_a_good_change_of_everything_passes(tmp_path):
    """What SPOILT does, done well."""
    texts = {
        "copier.yml": copier_yml(
            QUESTIONS.replace("[desk, lanta]", "[desk]"),
            seeds=(*SEEDS, "/src/*/plots.py"),
            kept=(*SEEDS, "/src/*/plots.py", "/notes.mk", "/extra.mk"),
        ),
        "CHANGELOG.md": "# Changes\n\n## 0.3.0\n\n`tools/end.sh` is gone.\n"
        "`.github/workflows/update.yml` is new.\n",
        "template/src/pkg/plots.py": "A = 1\n",
        "template/.github/workflows/update.yml": f"{HEADER}on: push\n",
        f"{LIBRARY}/losses.py": FIRST[f"{LIBRARY}/loss.py"].partition("def hinge")[0],
        f"{LIBRARY}/task.py": "from .losses import Loss, cross_entropy\n"
        '__all__ = ["Loss", "cross_entropy"]\n',
        f"{LIBRARY}/conf/lab.yaml": "checkpoint:\n  every_minutes: 5\n",
        f"{LIBRARY}/conf/renamed.yaml": "settings: {checkpoint.every_min: checkpoint.every_minutes}\n"
        "options: {site/lanta: site/desk}\n",
    }
    dropped = [
        "template/extra.mk",
        "template/tools/end.sh",
        f"{LIBRARY}/loss.py",
        f"{LIBRARY}/conf/site/lanta.yaml",
    ]
    assert spoil(tmp_path, texts, dropped) == ""


@pytest.mark.slow
def test_a_release_of_the_library_alone_passes(tmp_path):
    assert spoil(tmp_path, {f"{LIBRARY}/new.py": "A = 1\n"}) == ""


@pytest.mark.release
def test_this_template_can_be_released(tmp_path):
    folder = copy_template(tmp_path / "template", library=True)
    shutil.copytree(ROOT / "hooks", folder / "hooks")
    write(folder, {"CHANGELOG.md": "# Changes\n\n## 0.1.0\n\nThe first.\n"})
    write_version(folder, "0.1.0")
    commit(folder, "first")
    git(folder, "tag", "0.1.0")
    write(folder, {"CHANGELOG.md": "# Changes\n\n## 0.2.0\n\nMore.\n\n## 0.1.0\n\nThe first.\n"})
    write_version(folder, "0.2.0")
    record_tags(folder)
    commit(folder, "second")
    assert check_release.check(folder, "0.2.0") == []
