"""examples/fast_python: every form of a program gives the result of the plain one."""

import importlib.util
import json
import math
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import torch
from projects import ROOT

FOLDER = ROOT / "examples/fast_python"
# What must run where its package is there; the others need a GPU.
ON_CPU = {
    "product": {"plain", "NumPy", "numba", "Cython", "PyTorch"},
    "mixture": {"plain", "NumPy", "numba", "array API, NumPy", "array API, PyTorch"},
    "inverse": {"plain", "NumPy", "PyTorch"},
    "elementwise": {"plain", "NumPy", "numba", "PyTorch"},
    "einsum": {"in one loop", "along a path", "opt_einsum"},
}
ON_GPU = {"PyTorch, GPU", "CuPy", "array API, CuPy", "Triton"}


@pytest.fixture
def here(monkeypatch):
    """Its modules can be imported, and are forgotten afterwards."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield
    for path in FOLDER.glob("*.py"):
        sys.modules.pop(path.stem, None)


def python(*words, **variables):
    """What a Python program in the folder prints."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=FOLDER,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.release
def test_all_forms_agree_and_those_that_do_not_run_say_why(tmp_path):
    caches = {"NUMBA_CACHE_DIR": str(tmp_path / "numba"), "XDG_CACHE_HOME": str(tmp_path)}
    caches["OMP_NUM_THREADS"] = "1"  # others may use the cores
    results = json.loads(python("compare.py", "--json", **caches))
    for program, forms in ON_CPU.items():
        of_program = {result["form"]: result for result in results if result["program"] == program}
        assert forms <= set(of_program) <= forms | ON_GPU
        for form in forms:
            result = of_program[form]
            if result["skipped"]:  # the packages are pinned
                assert result["skipped"] == "there is no C compiler"
                continue
            assert result["difference"] < 1e-8
            assert result["seconds"] > 0
        for form in set(of_program) & ON_GPU:
            if not torch.cuda.is_available():
                assert re.search("not installed|no NVIDIA GPU", of_program[form]["skipped"])
    numpy = next(result for result in results if result["form"] == "NumPy")
    assert numpy["faster"] > 5, "a product of BLAS against loops"
    if importlib.util.find_spec("numba"):
        assert list((tmp_path / "numba").rglob("*.nbi")), "what was compiled is kept"


def test_the_derivative_by_hand_is_right(here):
    import with_torch

    matrix = torch.randn(5, 5, dtype=torch.float64) + 4 * torch.eye(5, dtype=torch.float64)
    assert torch.autograd.gradcheck(with_torch.Inverse.apply, matrix.requires_grad_())
    array = np.arange(4.0)
    tensor = torch.from_dlpack(array)
    array[0] = 7.0
    assert tensor[0] == 7.0, "DLPack shares the memory"


def test_the_cupy_kernel_says_what_the_others_say(here):
    """Without a GPU its line of C++ can only be read: it has the constants of the plain one."""
    text = (FOLDER / "with_cupy.py").read_text(encoding="utf-8")
    (operation,) = re.findall(r'operation="z = (.*)"', text)
    condition, _, values = operation.partition(" ? ")
    yes, no = values.split(" : ")
    formula = f"[({yes}) if {condition} else ({no}) for x, y in zip(xs, ys)]"
    xs, ys = np.random.default_rng(0).normal(size=(2, 50)).tolist()
    import plain

    got = eval(formula, {"xs": xs, "ys": ys, "exp": math.exp, "zip": zip})
    assert got == pytest.approx(plain.elementwise(xs, ys))


def test_triton_in_its_interpreter():
    """The kernel itself, without a GPU, in a process of its own: the variable is read at import."""
    if importlib.util.find_spec("triton") is None:
        pytest.skip("triton is not installed")
    program = (
        "import torch, with_triton, with_torch\n"
        "x, y = torch.randn(2, 3000, dtype=torch.float64)\n"
        "print(torch.allclose(with_triton.elementwise(x, y), with_torch.elementwise(x, y)))\n"
    )
    assert python("-c", program, TRITON_INTERPRET="1") == "True\n"


def test_the_report_of_blas(here):
    import blas

    assert any(line.startswith("blas: ") for line in blas.describe())
    assert blas.gflops(repeats=1) > 0.1
