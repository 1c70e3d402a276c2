"""Where a project gets labrig from: the very commit that copier took, whatever address copier was given."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from rendering import SMALL_LIBRARY, copy_template, release
from repositories import IDENTITY, NO_SETTINGS_OF_THIS_MACHINE, commit, git, write

BIN = Path(sys.prefix) / "bin"
# What copier is given -> the address in the pin, without @COMMIT. TEMPLATE stands for the path of the repository.
SOURCES = {
    "TEMPLATE": "git+file://localhostTEMPLATE",
    "git+file://TEMPLATE": "git+file://localhostTEMPLATE",
    "file://TEMPLATE.git": "git+file://localhostTEMPLATE.git",
    "TEMPLATE.git": "git+file://localhostTEMPLATE.git",
    "https://forge.example/org/t.git": "git+https://forge.example/org/t.git",
    "git+https://forge.example/org/t": "git+https://forge.example/org/t",
    "git+ssh://git@forge.example/org/t.git": "git+ssh://git@forge.example/org/t.git",
    "git@forge.example:org/t.git": "git+ssh://git@forge.example/org/t.git",
    "alias:org/t.git": "git+ssh://alias/org/t.git",
    "gh:org/t": "git+https://github.com/org/t.git",
    "gl:org/t.git": "git+https://gitlab.com/org/t.git",
}
INDEXED = "https://forge.example/org/t.git"  # where a test says so
FORGES = (
    "https://forge.example/org/t",
    "ssh://git@forge.example/org/t",
    "git@forge.example:org/t",
    "ssh://alias/org/t",
    "alias:org/t",
    "https://github.com/org/t",
    "https://gitlab.com/org/t",
)


@pytest.fixture(scope="module")
def origin(tmp_path_factory):
    """The template with a small library, as the release 0.1.0; next to it a bare clone, `template.git`."""
    folder = copy_template(tmp_path_factory.mktemp("pin") / "template")
    write(folder, SMALL_LIBRARY)
    release(folder, "0.1.0")
    git(folder.parent, "clone", "-q", "--bare", folder, "template.git")
    return folder


@pytest.fixture
def template(origin, tmp_path):
    """A copy of that repository, to be changed."""
    return shutil.copytree(origin, tmp_path / "template")


def variables(bare, folder):
    """Of a user without settings whose forges are one bare repository; nothing gets into his caches."""
    addresses = [f"{url}{end}" for url in FORGES for end in ("", ".git")]
    configured = {"GIT_CONFIG_COUNT": str(len(addresses))}
    for n, address in enumerate(addresses):
        key = f"url.file://{bare}.insteadOf"
        configured |= {f"GIT_CONFIG_KEY_{n}": key, f"GIT_CONFIG_VALUE_{n}": address}
    caches = {"COPIER_CACHE_DIR": f"{folder}/copier", "UV_CACHE_DIR": f"{folder}/uv"}
    offline = {"PIP_NO_INDEX": "1", "UV_NO_INDEX": "1", "UV_NO_GITHUB_FAST_PATH": "1"}
    own = configured | caches | offline | {"HOME": str(folder)}
    return os.environ | IDENTITY | NO_SETTINGS_OF_THIS_MACHINE | own


def run(*words, cwd, environment):
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stderr


def pin_of(source, folder, template, *options):
    """The requirement of a project that `copier copy SOURCE` makes in `folder`, and what copier said."""
    bare = template.parent / "template.git"
    words = [BIN / "copier", "copy", "--defaults", *options, source, "p"]
    said = run(*words, cwd=folder, environment=variables(bare, folder / "caches"))
    pyproject = tomllib.loads((folder / "p/pyproject.toml").read_text(encoding="utf-8"))
    (pin,) = pyproject["project"]["optional-dependencies"]["lab"]
    requirement = Requirement(pin)
    assert (requirement.name, requirement.extras) == ("labrig", {"train"})
    return pin.removeprefix("labrig[train]").removeprefix(" @ "), said


def head(template):
    return git(template, "rev-parse", "HEAD")


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES)
def test_a_release_is_pinned_by_its_commit_at_the_address_that_copier_was_given(
    origin, tmp_path, source
):
    place = str(origin)
    pin, said = pin_of(source.replace("TEMPLATE", place), tmp_path, origin)
    assert pin == f"{SOURCES[source].replace('TEMPLATE', place)}@{head(origin)}"
    assert "cannot be updated" not in said
    answers = (tmp_path / "p/.copier-answers.yml").read_text(encoding="utf-8")
    assert "_commit: 0.1.0\n" in answers
    assert 'template = "0.1.0"\n' in (tmp_path / "p/pyproject.toml").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_commit_between_releases(template, tmp_path):
    commit_of_release = head(template)
    write(template, {"src/labrig/__init__.py": "STATE = 'later'\n"})
    commit(template, "Later")
    address = f"git+file://localhost{template}"
    assert pin_of(template, tmp_path, template)[0] == f"{address}@{commit_of_release}"
    shutil.rmtree(tmp_path / "p")
    pin, _ = pin_of(template, tmp_path, template, "--vcs-ref", "HEAD")
    assert pin == f"{address}@{head(template)}"
    assert head(template) != commit_of_release


@pytest.mark.slow
def test_a_path_with_a_space_and_other_letters(origin, tmp_path):
    folder = tmp_path / "Größe 1 日本"
    shutil.copytree(origin, folder)
    pin, _ = pin_of(folder, tmp_path, origin)
    shown = "Gr%C3%B6%C3%9Fe%201%20%E6%97%A5%E6%9C%AC"
    assert pin == f"git+file://localhost{tmp_path}/{shown}@{head(folder)}"
    shutil.rmtree(tmp_path / "p")
    pin, _ = pin_of(f"git+file://{folder}", tmp_path, origin)
    assert pin == f"git+file://localhost{tmp_path}/Größe%201%20日本@{head(folder)}"


@pytest.mark.slow
def test_a_folder_without_git(template, tmp_path):
    shutil.rmtree(template / ".git")
    pin, said = pin_of(template, tmp_path, template)
    assert pin == f"file://{template}"
    assert "This project cannot be updated: the template was read without git." in said
    assert 'template = ""\n' in (tmp_path / "p/pyproject.toml").read_text(encoding="utf-8")


@pytest.mark.slow
def test_changes_that_are_not_committed(template, tmp_path):
    """Those files are in no commit that pip could fetch."""
    write(template, {"src/labrig/__init__.py": "STATE = 'not committed'\n"})
    pin, said = pin_of(template, tmp_path, template, "--vcs-ref", "HEAD")
    assert pin == f"file://{template}"
    assert "the template has changes that are not committed." in said


@pytest.mark.slow
@pytest.mark.parametrize("source", ["./template", "~/../template"])
def test_a_relative_path_becomes_a_whole_one(template, tmp_path, source):
    """pip would look for it elsewhere. copier does at an update, and the message says what to write."""
    (tmp_path / "caches").mkdir()  # the home
    pin, said = pin_of(source, tmp_path, template)
    assert pin == f"git+file://localhost{template}@{head(template)}"
    if source.startswith("~"):
        assert "cannot be updated" not in said
        return
    assert f"This project cannot be updated: it was given the relative path {source}" in said
    line = f"_src_path: {template}"
    assert f"Write the whole one into its .copier-answers.yml: `{line}`" in said

    # What it says, done: an update arrives
    answers = tmp_path / "p/.copier-answers.yml"
    text = answers.read_text(encoding="utf-8")
    answers.write_text(text.replace(f"_src_path: {source}", line), encoding="utf-8")
    commit(tmp_path / "p", "Start")
    write(template, {"template/.gitattributes": "*.npz binary\n"})
    release(template, "0.2.0")
    words = [BIN / "copier", "update", "--defaults", "--quiet"]
    run(*words, cwd=tmp_path / "p", environment=variables(template, tmp_path / "caches"))
    assert head(template) in (tmp_path / "p/pyproject.toml").read_text(encoding="utf-8")


@pytest.fixture
def indexed(template):
    """The same template, which says that the releases of INDEXED are on the package index."""
    path = template / "template/answers.jinja"
    text = path.read_text(encoding="utf-8")
    line = "{%- set index_sources = [] -%}"
    assert line in text, "the list is empty until a release is there"
    path.write_text(text.replace(line, line.replace("[]", f'["{INDEXED}"]')), encoding="utf-8")
    return template


@pytest.mark.slow
@pytest.mark.parametrize("tag", ["0.2.0.post1", "1.10"])
def test_a_release_of_an_address_that_is_on_the_index(indexed, tmp_path, tag):
    release(indexed, tag)
    git(tmp_path, "clone", "-q", "--bare", indexed, "template.git")
    pin, _ = pin_of(INDEXED, tmp_path, indexed)
    assert pin == f"=={tag}"


@pytest.mark.release
@pytest.mark.slow
def test_what_is_not_on_the_index(indexed, tmp_path):
    """Other addresses, commits that are no release, and tags that no release has."""
    release(indexed, "0.2.0")
    git(tmp_path, "clone", "-q", "--bare", indexed, "template.git")
    other = f"git+{INDEXED}"
    assert pin_of(other, tmp_path, indexed)[0] == f"{other}@{head(indexed)}"
    for tag in ("0.3.0rc1", "7", None):
        git(indexed, "commit", "-q", "--allow-empty", "-m", "Later")
        if tag:
            git(indexed, "tag", tag)
        git(indexed, "push", "-q", tmp_path / "template.git", "main", *([tag] if tag else []))
        shutil.rmtree(tmp_path / "p")
        pin, _ = pin_of(INDEXED, tmp_path, indexed, "--vcs-ref", tag or "main")
        assert pin == f"git+{INDEXED}@{head(indexed)}"


def installed_state(pin, tool, folder, environment):
    """What is in the labrig that a tool installs by a pin."""
    place = folder / "installed"
    words = ["--quiet", "--no-deps", "--no-build-isolation", "--target", place]
    run(*tool, *words, f"labrig[train] @ {pin}", cwd=folder, environment=environment)
    text = (place / "labrig/__init__.py").read_text(encoding="utf-8")
    shutil.rmtree(place)
    return text


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.parametrize("source", [*SOURCES, "Größe 1 日本", "no git"])
def test_pip_and_uv_install_that_very_commit(template, tmp_path, source):
    """Also when the repository has gone on since."""
    address = source.replace("TEMPLATE", str(template))
    if source.startswith("Größe"):
        template = template.rename(tmp_path / source)
        address = template
    if source == "no git":
        shutil.rmtree(template / ".git")
        address = template
    else:
        git(tmp_path, "clone", "-q", "--bare", template, "template.git")
    pin, _ = pin_of(address, tmp_path, template)
    if source != "no git":
        write(template, {"src/labrig/__init__.py": "STATE = 'later'\n"})
        commit(template, "Later")
        git(template, "push", "-q", tmp_path / "template.git", "main")
    environment = variables(tmp_path / "template.git", tmp_path / "caches")
    for tool in (
        [sys.executable, "-m", "pip", "install"],
        [BIN / "uv", "pip", "install", "--python", sys.executable],
    ):
        assert installed_state(pin, tool, tmp_path, environment) == "STATE = 'of the pin'\n"
