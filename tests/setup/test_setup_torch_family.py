"""`make add PACKAGE=torchvision` next to a chosen build of torch: what fits it is installed, or refused.

Packages of three lines stand in for torch, torchvision and a package that needs both; pip and uv are real.
"""

import os
import subprocess
import sys
import threading
from functools import partial
from http.server import ThreadingHTTPServer

import pytest
from labrig.project import Project
from projects import PROJECT
from setup_projects import INDEX_ONLY, UV, setup, unpinned, write_stand_in
from test_setup_packages import NOWHERE, QuietHandler, dependencies, with_torch  # noqa: F401

# No index in the world has these versions; as in torchvision's metadata
FITS = "torch (==98.0)"
NEWER = "torch (==99.0)"


@pytest.fixture
def served(tmp_path):
    """Package indexes: PyPI's, whose torchvision and torch are newer ones for GPUs, and PyTorch's for cpu."""
    pypi = tmp_path / "served/simple"
    write_stand_in(pypi / "torch", "99.0")
    write_stand_in(pypi / "torch", "98.0")
    write_stand_in(pypi / "torchvision", "89.0", "torchvision", [NEWER])
    write_stand_in(pypi / "torchvision", "88.0", "torchvision", [FITS])
    write_stand_in(pypi / "needsboth", "1.0", "needsboth", ["torch", "torchvision"])
    write_stand_in(pypi / "needsnewer", "1.0", "needsnewer", ["torch>=98.5"])
    pytorch = tmp_path / "served/whl/cpu"
    write_stand_in(pytorch / "torch", "98.0+cpu")
    write_stand_in(pytorch / "torchvision", "88.5+cpu", "torchvision", ["torch (==98.5)"])
    write_stand_in(pytorch / "torchvision", "88.0+cpu", "torchvision", [FITS])
    handler = partial(QuietHandler, directory=tmp_path / "served")
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        variables = {f"{tool}_EXTRA_INDEX_URL": f"{url}/simple" for tool in ("PIP", "UV")}
        yield variables | {"TORCH_INDEX": f"{url}/whl"} | INDEX_ONLY | unpinned(tmp_path)
        server.shutdown()


@pytest.fixture
def wheels(tmp_path):
    """Variables of a directory with wheels for cpu, and of no index of PyTorch's."""
    folder = tmp_path / "wheels"
    write_stand_in(folder, "98.0+cpu")
    write_stand_in(folder, "88.5+cpu", "torchvision", ["torch (==98.5)"])
    write_stand_in(folder, "88.0+cpu", "torchvision", [FITS])
    write_stand_in(folder, "88.1+cu126", "torchvision", [FITS])
    return {"PIP_FIND_LINKS": str(folder), "TORCH_INDEX": f"{NOWHERE}/whl"}


def family(folder):
    paths = (folder / ".venv/lib").glob("python3*/site-packages/torch*.dist-info")
    return sorted(path.name.removesuffix(".dist-info") for path in paths)


CPU = ["torch-98.0+cpu", "torchvision-88.0+cpu"]


@pytest.mark.release
@pytest.mark.parametrize("uv", [None, UV], ids=["pip", "uv"])
@pytest.mark.parametrize("place", ["index", "directory"])
def test_the_torchvision_that_fits_is_added_and_torch_stays(with_torch, served, wheels, uv, place):  # noqa: F811
    variables = served | (wheels if place == "directory" else {})
    setup(with_torch, uv, TORCH="cpu", **variables)
    assert family(with_torch) == CPU[:1]
    output = setup(with_torch, uv, target="add", PACKAGE="torchvision", **variables)
    assert family(with_torch) == CPU
    assert "torchvision for torch 98.0+cpu, from" in output
    assert dependencies(with_torch)[-1] == "torchvision"
    assert "up to date" in setup(with_torch, uv, TORCH="cpu", **variables)
    setup(with_torch, uv, target="add", PACKAGE="needsboth", **variables)
    assert family(with_torch) == CPU


@pytest.mark.release
@pytest.mark.parametrize("uv", [None, UV], ids=["pip", "uv"])
def test_a_torchvision_that_another_package_brings_fits_too(with_torch, served, uv):  # noqa: F811
    setup(with_torch, uv, TORCH="cpu", **served)
    setup(with_torch, uv, target="add", PACKAGE="needsboth", **served)
    assert family(with_torch) == CPU
    before = (with_torch / "pyproject.toml").read_text()
    output = setup(with_torch, uv, target="add", PACKAGE="needsnewer", rc=2, **served)
    assert "torch==98.0+cpu" in output
    assert "stays" in output
    assert "needsnewer was not added" in output
    assert family(with_torch) == CPU
    assert (with_torch / "pyproject.toml").read_text() == before


@pytest.mark.release
@pytest.mark.parametrize("uv", [None, UV], ids=["pip", "uv"])
def test_where_nothing_fits_it_is_refused_and_torch_default_takes_the_index(
    with_torch,  # noqa: F811
    served,
    wheels,
    uv,
):
    variables = served | wheels
    for wheel in os.scandir(wheels["PIP_FIND_LINKS"]):
        if wheel.name.startswith("torchvision-88.0"):
            os.unlink(wheel)
    setup(with_torch, uv, TORCH="cpu", **variables)
    before = (with_torch / "pyproject.toml").read_text()
    for package in ("torchvision", "needsboth"):
        output = setup(with_torch, uv, target="add", PACKAGE=package, rc=2, **variables)
        assert "torchvision of the build cpu for torch 98.0+cpu is not to be had from" in output
        assert "with TORCH=default behind" in output
        assert f"{package} was not added" in output
        assert family(with_torch) == CPU[:1]
        assert (with_torch / "pyproject.toml").read_text() == before
    setup(with_torch, uv, target="add", PACKAGE="torchvision", TORCH="default", **served)
    assert family(with_torch) == ["torch-99.0", "torchvision-89.0"]


@pytest.mark.release
def test_a_build_that_something_else_replaced_is_not_up_to_date(with_torch, served):  # noqa: F811
    setup(with_torch, TORCH="cpu", **served)
    assert "up to date" in setup(with_torch, TORCH="cpu", **served)
    variables = {name: value for name, value in (os.environ | served).items() if value}
    python = with_torch / ".venv/bin/python"
    command = [python, "-m", "pip", "install", "--quiet", "torchvision", "torch>=99"]
    subprocess.run(command, env=variables | {"PIP_CONSTRAINT": os.devnull}, check=True)
    assert family(with_torch) == ["torch-99.0", "torchvision-89.0"]
    output = setup(with_torch, TORCH="cpu", **served)
    assert "up to date" not in output
    assert "torch of the build default is replaced" in output
    assert family(with_torch) == CPU[:1]


def test_a_package_without_a_name_is_asked_for(light):
    command = ["make", "add", "PACKAGE="]
    variables = os.environ | {"PYTHON": f"{sys.base_prefix}/bin/python3"}
    done = subprocess.run(command, cwd=light, env=variables, capture_output=True, text=True)
    assert done.returncode == 2
    assert "setup: name a package: make add PACKAGE=einops" in done.stdout + done.stderr


def test_the_wheel_that_fits_is_chosen_by_what_it_asks_for(module, monkeypatch, tmp_path):
    family_module = module("setup.torch_build")
    build = module("setup.torch_build")
    monkeypatch.setattr(build, "WHEELS", [str(tmp_path)])
    write_stand_in(tmp_path, "0.28.0+cpu", "torchvision", ["numpy", "torch (==2.13.0)"])
    write_stand_in(tmp_path, "0.28.2+cpu", "torchvision", ["torch==2.13.0"])
    write_stand_in(tmp_path, "0.28.10+cpu", "torchvision", ["torch==2.13.1"])
    write_stand_in(tmp_path, "0.28.3", "torchvision", ["torch==2.13.0"])
    write_stand_in(tmp_path, "2.9.0+cpu", "torchaudio")
    fitting = family_module.fitting_wheel
    assert fitting("torchvision", "cpu", "2.13.0+cpu") == "0.28.2+cpu"
    assert fitting("torchvision", "cpu", "2.12.0+cpu") is None
    assert fitting("torchaudio", "cpu", "2.13.0+cpu") == "2.9.0+cpu"
    assert build.local_wheel(Project(PROJECT, "myproj"), "cpu") is None
