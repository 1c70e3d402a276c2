"""Projects with the nastiest answers that are accepted: they install elsewhere, and their own tests pass."""

import subprocess
import sys
import tomllib

import pytest
from project_files import check_project
from projects import call, equip

NASTY = {
    "null": '"; \\ 🎲 {{ 7 }} ${x} </a>',
    "no": "'''\"\"\" {% raw %} - x: [y # z",
}


@pytest.mark.release
@pytest.mark.parametrize("package", NASTY)
def test_a_project_with_nasty_answers_installs_and_passes_its_tests(render, tmp_path, package):
    text = NASTY[package]
    answers = {"project_name": text, "description": text, "author": text, "license": "none"}
    folder = render(tmp_path / "p", package_name=package, **answers)
    check_project(folder, package_name=package, **answers)
    equip(folder)

    assert " passed" in call(folder, "make", "test")
    call(folder, "lab", "check", "trial=baseline", "--no-batch")

    call(folder, sys.executable, "-m", "hatchling", "build", "--target", "wheel")
    wheel = next((folder / "dist").glob("*.whl"))
    uv = [f"{sys.prefix}/bin/uv", "pip", "install", "--quiet", "--no-deps"]
    subprocess.run([*uv, "--target", tmp_path / "elsewhere", wheel], check=True)
    program = (
        f"import sys; sys.path.insert(0, sys.argv[1]); import {package}; print({package}.__file__)"
    )
    command = [sys.executable, "-I", "-c", program, tmp_path / "elsewhere"]
    printed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == str(tmp_path / "elsewhere" / package / "__init__.py")
    metadata = next((tmp_path / "elsewhere").glob("*.dist-info/METADATA"))
    assert f"\nSummary: {text}\n" in metadata.read_text(encoding="utf-8")
    assert tomllib.loads((folder / "pyproject.toml").read_text())["project"]["name"] == package
