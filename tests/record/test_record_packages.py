"""env.txt lists every installed package, however it was installed."""

import base64
import hashlib
import json
import sys
from importlib.metadata import distributions

import pytest
from labrig.record.freeze import packages
from labrig.record.freeze.packages import installed_packages, versions_by_name
from labrig.record.read.run import Run
from labrig.record.write.begin import begin_attempt
from record_package import create, make_project
from repositories import commit, git, write


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A directory for packages, first on the path."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.fixture
def only_site(site, monkeypatch):
    """The same, and no other has packages: to hash all files of torch takes 20 s."""
    monkeypatch.setattr(packages, "distributions", lambda: distributions(path=[str(site)]))
    return site


def lines_of(name, **arguments):
    return [line for line in installed_packages(**arguments) if line.startswith(name)]


def headers(name, version):
    return f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nName: not this\n"


@pytest.mark.parametrize(
    "file_name",
    [
        "lab_test-1.2.dist-info/METADATA",  # a wheel
        "lab_test-1.2.egg-info/PKG-INFO",  # setuptools without pip
        "lab_test-1.2.egg-info",  # distutils, as some conda packages
        "lab_test.egg-info/PKG-INFO",  # setup.py develop
        "lab_test-1.2-py3.11.egg-info/PKG-INFO",  # Debian
    ],
)
def test_every_kind_of_metadata_is_read(site, file_name):
    write(site, {file_name: headers("lab-test", "1.2")})
    assert lines_of("lab-test") == ["lab-test==1.2"]


def test_the_version_that_python_imports_is_listed(site, tmp_path_factory, monkeypatch):
    write(site, {"lab_test-1.0.dist-info/METADATA": headers("lab-test", "1.0")})
    first = tmp_path_factory.mktemp("first")
    write(first, {"lab_test-2.0.egg-info/PKG-INFO": headers("lab-test", "2.0")})
    monkeypatch.syspath_prepend(first)
    assert lines_of("lab-test") == ["lab-test==2.0"]


def test_what_is_not_from_an_index_has_its_url(site):
    write(
        site,
        {
            "lab_test-1.2.dist-info/METADATA": headers("lab-test", "1.2"),
            "lab_test-1.2.dist-info/direct_url.json": json.dumps({"url": "file:///src/lab-test"}),
        },
    )
    assert lines_of("lab-test") == ["lab-test==1.2 @ file:///src/lab-test"]


def write_installed(site, text):
    """A package of one file, with the hash that its installation recorded for it."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(b"x = 1\n").digest()).rstrip(b"=").decode()
    info = "lab_test-1.2.dist-info"
    write(
        site,
        {
            f"{info}/METADATA": headers("lab-test", "1.2"),
            f"{info}/RECORD": f"lab_test.py,sha256={digest},6\n{info}/RECORD,,\n../../bin/x,sha256=a,1\n",
            "lab_test.py": text,
        },
    )


def test_edited_files_are_named_on_request(only_site):
    write_installed(only_site, "x = 1\n")
    assert lines_of("lab-test", check_files=True) == ["lab-test==1.2"]
    write_installed(only_site, "x = 2\n")
    assert lines_of("lab-test") == ["lab-test==1.2"]
    (first,) = lines_of("lab-test", check_files=True)
    assert first.startswith("lab-test==1.2 (edited lab_test.py: ")
    write_installed(only_site, "x = 3\n")
    assert lines_of("lab-test", check_files=True) != [first]
    (only_site / "lab_test.py").unlink()
    assert "(edited lab_test.py" in lines_of("lab-test", check_files=True)[0]


@pytest.mark.slow
def test_an_edit_between_two_attempts_is_a_difference(only_site, tmp_path_factory, capsys):
    project = make_project(tmp_path_factory.mktemp("project"))
    write_installed(only_site, "x = 1\n")
    run = create(project, package_files=True)
    begin_attempt(run, project).end("interrupted")
    write_installed(only_site, "x = 2\n")
    begin_attempt(Run.open(run.dir), project)
    assert "package.lab-test: 1.2 -> 1.2 (edited lab_test.py: " in capsys.readouterr().err


def test_an_editable_install_of_another_repository_has_its_commit(site, tmp_path_factory):
    source = tmp_path_factory.mktemp("my source")
    write(source, {"lab_test.py": "x = 1\n"})
    commit(source, "first")
    git(source, "remote", "add", "origin", "https://me:secret@example.org/lab-test.git")
    direct = {"url": source.as_uri(), "dir_info": {"editable": True}}
    info = "lab_test-1.2.dist-info"
    write(
        site,
        {
            f"{info}/METADATA": headers("lab-test", "1.2"),
            f"{info}/direct_url.json": json.dumps(direct),
        },
    )
    state = f"commit {git(source, 'rev-parse', 'HEAD')[:12]} of https://example.org/lab-test.git"
    start = f"lab-test==1.2 @ {source.as_uri()} ({state}"
    assert lines_of("lab-test") == [f"{start}, unchanged)"]
    assert lines_of("lab-test", project_root=source) == [f"lab-test==1.2 @ {source.as_uri()}"]
    (source / ".#lab_test.py").symlink_to(
        "ada@laptop.4711"
    )  # Emacs has a file open: a link to nowhere
    assert lines_of("lab-test") == [f"{start}, unchanged)"]
    lines = {f"{start}, unchanged)"}
    for name, text in (("lab_test.py", "x = 2\n"), ("lab_test.py", "x = 3\n"), ("new.py", "")):
        write(source, {name: text})
        (line,) = lines_of("lab-test")
        assert line.startswith(f"{start}, changed ")
        assert line not in lines
        lines.add(line)


def test_half_removed_packages_are_no_error(site):
    (site / "lab_test-1.2.dist-info").mkdir()
    assert lines_of("lab-test") == []
    assert lines_of("pytest==") == [f"pytest=={sys.modules['pytest'].__version__}"]


def test_spellings_of_a_name_are_one_package():
    assert versions_by_name(["Hydra_Core==1.3"]) == versions_by_name(["hydra-core==1.3"])
