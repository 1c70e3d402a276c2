"""env.txt lists every installed package, however it was installed."""

import json
import sys

import pytest
from myproj.lab.record.packages import installed_packages, versions_by_name
from record_package import write


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A directory for packages, first on the path."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def lines_of(name):
    return [line for line in installed_packages() if line.startswith(name)]


def headers(name, version):
    return f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nName: not this\n"


@pytest.mark.parametrize(
    "file_name",
    [
        "lab_test-1.2.dist-info/METADATA",  # a wheel
        "lab_test-1.2.egg-info/PKG-INFO",  # setuptools without pip
        "lab_test-1.2.egg-info",  # distutils, as some conda packages
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


def test_half_removed_packages_are_no_error(site):
    (site / "lab_test-1.2.dist-info").mkdir()
    assert lines_of("lab-test") == []
    assert lines_of("pytest==") == [f"pytest=={sys.modules['pytest'].__version__}"]


def test_spellings_of_a_name_are_one_package():
    assert versions_by_name(["Hydra_Core==1.3"]) == versions_by_name(["hydra-core==1.3"])
