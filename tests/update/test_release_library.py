"""hooks/check_release.py: the library, its version, its public names. Each rule stops its planted mistake."""

import shutil
import sys

import pytest
from projects import ROOT, copy_library
from release_history import FIRST, LIBRARY, PUBLISHED, two_releases
from repositories import commit, git, write

sys.path.insert(0, str(ROOT / "hooks"))
import check_release
from release import library, public_names, published, settings
from release.repository import ReleaseError, Repository


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    return two_releases(tmp_path_factory.mktemp("history"))


@pytest.fixture
def template(history, tmp_path):
    """Two releases and a commit that can become 0.3.0, to be spoilt."""
    return shutil.copytree(history, tmp_path / "template")


def spoil_library(folder, texts):
    """Commits new texts of files of the library."""
    write(folder, {f"{LIBRARY}/{name}": text for name, text in texts.items()})
    commit(folder, "spoil the library")
    return Repository(folder)


def test_the_version_of_the_library_is_that_of_the_tag(template):
    assert library.check_version_file(Repository(template), "0.3.0") == []
    (problem,) = library.check_version_file(Repository(template), "0.4.0")
    assert problem == 'src/labrig/version.py says 0.3.0; write __version__ = "0.4.0"'
    spoiled = spoil_library(template, {"version.py": "__version__ = read()\n"})
    assert "names no version" in library.check_version_file(spoiled, "0.3.0")[0]


def test_files_of_the_library_that_cannot_be_read(template):
    texts = {"loss.py": "def (\n", "conf/lab.yaml": "a: [\n", "job/job.sh": "if true\n"}
    problems = check_release.check_library(spoil_library(template, texts), "0.3.0")
    assert {problem.partition(":")[0] for problem in problems} == {
        f"{LIBRARY}/{name}" for name in texts
    }


LOSS = FIRST[f"{LIBRARY}/loss.py"]
TASK = FIRST[f"{LIBRARY}/task.py"]
BROKEN_NAMES = {  # what a release does -> what is found, in words
    "a name goes": (
        {"task.py": TASK.replace('"cross_entropy", ', "")},
        "the public name labrig.task.cross_entropy of 0.2.0 is gone",
    ),
    "a module goes": (
        {"task.py": "from .loss import Loss, cross_entropy\n"},
        "the public name labrig.task.Loss of 0.2.0 is gone",
    ),
    "a parameter goes": (
        {"loss.py": LOSS.replace(", smoothing=0.0", "")},
        "cross_entropy of 0.2.0 breaks its callers: cross_entropy(smoothing): parameter was removed",
    ),
    "a parameter is needed": (
        {"loss.py": LOSS.replace("def cross_entropy(score", "def cross_entropy(score, weight")},
        "cross_entropy(weight): parameter was added as required",
    ),
    "a parameter has another default": (
        {"loss.py": LOSS.replace("0.0", "0.1")},
        "cross_entropy(smoothing): parameter default was changed",
    ),
    "a method takes less": (
        {"loss.py": LOSS.replace("(self, score, label)", "(self, score)")},
        "labrig.task.Loss of 0.2.0 breaks its callers: __call__(label): parameter was removed",
    ),
    "a class becomes a function": (
        {"loss.py": LOSS.replace("class Loss:", "def Loss():")},
        "Loss: public object points to a different kind of object",
    ),
    "nobody can read it": (
        {"task.py": TASK.replace("import Loss, ", "import ")},
        "labrig.task.Loss can no longer be read without running the library",
    ),
}


@pytest.mark.parametrize("mistake", BROKEN_NAMES)
def test_a_public_name_that_breaks_its_callers(template, mistake):
    texts, problem = BROKEN_NAMES[mistake]
    assert public_names.check_public_names(Repository(template)) == []
    found = "\n".join(public_names.check_public_names(spoil_library(template, texts)))
    assert problem in found
    assert "Keep it for a release that warns" in found or "TYPE_CHECKING" in found
    assert "hinge" not in found


def test_what_the_last_release_deprecated_may_go(template):
    """And what moves within the library, gains a parameter, or was never public."""
    moved = LOSS.partition("def hinge")[0].replace("smoothing=0.0", "smoothing=0.0, weight=None")
    (template / LIBRARY / "loss.py").unlink()
    texts = {
        "losses/all.py": moved,
        "losses/__init__.py": "",
        "task.py": 'from .losses.all import Loss, cross_entropy\n__all__ = ["Loss", "cross_entropy"]\n',
    }
    assert public_names.check_public_names(spoil_library(template, texts)) == []


def test_a_decorator_deprecates_too_and_only_the_last_release_counts(template):
    decorated = LOSS.replace("def cross", '@warnings.deprecated("take hinge")\ndef cross')
    both = {"loss.py": decorated.replace("Deprecated:", "Now again:")}
    spoil_library(template, both)
    git(template, "tag", "0.2.1")
    gone = {"task.py": 'from .loss import Loss\n__all__ = ["Loss"]\n'}
    (problem,) = public_names.check_public_names(spoil_library(template, gone))
    assert "labrig.task.hinge of 0.2.1 is gone" in problem


@pytest.mark.release
@pytest.mark.slow
def test_labrig_itself_cannot_lose_a_public_name(tmp_path):
    copy_library(tmp_path / "src")
    commit(tmp_path, "0.1.0")
    git(tmp_path, "tag", "0.1.0")
    names = public_names.public_names(Repository(tmp_path), "0.1.0")
    assert {"labrig.load", "labrig.callbacks.Pictures", "labrig.train.build_trainer"} <= {*names}
    assert [name for name, member in names.items() if member is None] == []
    train = (tmp_path / LIBRARY / "train.py").read_text(encoding="utf-8")
    line = '    "last_checkpoint",\n'
    assert line in train
    spoiled = spoil_library(tmp_path, {"train.py": train.replace(line, "")})
    (problem,) = public_names.check_public_names(spoiled)
    assert "the public name labrig.train.last_checkpoint of 0.1.0 is gone" in problem


def test_settings_that_are_no_yaml_are_named(template):
    spoiled = spoil_library(template, {"conf/renamed.yaml": "a: [\n"})
    with pytest.raises(ReleaseError, match=r"renamed\.yaml of HEAD is no YAML"):
        settings.check_settings(spoiled)


UNPUBLISHED = {  # what is committed -> what is found
    "no security page": ({"SECURITY.md": None}, "SECURITY.md is not there"),
    "no publish workflow": ({".github/workflows/publish.yml": None}, "publish.yml is not there"),
    "no address": (
        {"pyproject.toml": PUBLISHED["pyproject.toml"].replace("Issues", "Bugs")},
        "[project.urls] has no Issues",
    ),
    "no author": (
        {"pyproject.toml": PUBLISHED["pyproject.toml"].replace("authors", "maintainers")},
        "names no author",
    ),
    "a link that an index cannot follow": (
        {"src/labrig/README.md": "[pages](docs/index.md)\n"},
        "src/labrig/README.md: an index cannot follow docs/index.md",
    ),
    "a placeholder": ({"README.md": "gh:ORG/REPO\n"}, "README.md has ORG/REPO"),
}


@pytest.mark.parametrize("mistake", UNPUBLISHED)
def test_what_an_index_and_a_forge_show(template, mistake):
    assert published.check_published(Repository(template)) == []
    texts, found = UNPUBLISHED[mistake]
    write(template, {name: text for name, text in texts.items() if text is not None})
    for name in (name for name, text in texts.items() if text is None):
        (template / name).unlink()
    commit(template, mistake)
    (problem,) = published.check_published(Repository(template))
    assert found in problem
