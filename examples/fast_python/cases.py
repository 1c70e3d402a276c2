"""Which programs are compared, with which arguments, and in which forms."""

import importlib
import importlib.util
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import einsum_paths
import numpy as np

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Form:
    """A form of a program: a function of a module, with the arrays that it wants.

    Args:
        packages: that it needs.
        convert: makes its arguments from NumPy arrays.
        gpu: it needs an NVIDIA GPU.
    """

    name: str
    load: Callable[[], Callable[..., Any]]
    packages: tuple[str, ...] = ()
    convert: Callable[[tuple], tuple] = tuple
    gpu: bool = False

    def why_not(self) -> str | None:
        """Why it cannot run here; None when it can."""
        missing = [name for name in self.packages if importlib.util.find_spec(name) is None]
        if missing:
            return f"{' and '.join(missing)} is not installed"
        if "Cython" in self.packages and shutil.which("cc") is None:
            return "there is no C compiler"
        if self.gpu and not has_gpu():
            return "there is no NVIDIA GPU"
        return None


@dataclass(frozen=True)
class Program:
    """A program: its arguments as NumPy arrays, and its forms, the plain one first."""

    name: str
    arguments: tuple
    forms: list[Form]


def has_gpu() -> bool:
    if importlib.util.find_spec("torch") is None:
        return Path("/dev/nvidiactl").exists()
    import torch

    return torch.cuda.is_available()


def programs() -> list[Program]:
    rng = np.random.default_rng(0)
    n_points, n_components, n_features = 4000, 5, 4
    matrix = rng.normal(size=(120, 120))
    square = rng.normal(size=(60, 60)) + 8 * np.eye(60)
    mixture = (
        rng.normal(size=(n_points, n_features)) * 3,
        rng.normal(size=(n_components, n_features)) * 3,
        rng.uniform(0.5, 2, (n_components, n_features)),
        np.full(n_components, 1 / n_components),
    )
    chain = tuple(rng.normal(size=(24, 24)) for _ in range(4))
    return [
        Program("product", (matrix, matrix.T.copy()), forms_of("product")),
        Program("mixture", mixture, forms_of("mixture")),
        Program("inverse", (square, rng.normal(size=(60, 60))), forms_of("inverse")),
        Program("elementwise", tuple(rng.normal(size=(2, 200_000))), forms_of("elementwise")),
        Program("einsum", chain, forms_of_einsum()),
    ]


def forms_of(program: str) -> list[Form]:
    """The modules that have a function of this name."""
    forms = [
        Form("plain", from_module("plain", program), convert=lists),
        Form("NumPy", from_module("with_numpy", program)),
    ]
    if program in ("product", "mixture", "elementwise"):
        forms.append(Form("numba", from_module("with_numba", program), ("numba",)))
    if program == "product":
        forms.append(Form("Cython", partial(load_cython, program), ("Cython",)))
    if program == "mixture":
        load = from_module("with_array_api", program)
        needs = ("array_api_compat",)
        cupy_too = (*needs, "cupy")
        forms += [
            Form("array API, NumPy", load, needs),
            Form("array API, PyTorch", load, (*needs, "torch"), tensors),
            Form("array API, CuPy", load, cupy_too, cupy_arrays, gpu=True),
        ]
        return forms
    load = from_module("with_torch", program)
    forms += [
        Form("PyTorch", load, ("torch",), tensors),
        Form("PyTorch, GPU", load, ("torch", "cupy"), gpu_tensors, gpu=True),
        Form("CuPy", from_module("with_cupy", program), ("cupy",), cupy_arrays, gpu=True),
    ]
    if program == "elementwise":
        load = from_module("with_triton", program)
        forms.append(Form("Triton", load, ("triton",), gpu_tensors, gpu=True))
    return forms


def forms_of_einsum() -> list[Form]:
    return [
        Form("in one loop", lambda: einsum_paths.in_one_loop),
        Form("along a path", lambda: einsum_paths.along_a_path),
        Form("opt_einsum", lambda: einsum_paths.with_opt_einsum, ("opt_einsum",)),
    ]


def from_module(module: str, function: str) -> Callable[[], Callable[..., Any]]:
    """Imports the module only when it is wanted: it may need a package that is not there."""
    return lambda: getattr(importlib.import_module(module), function)


def load_cython(function: str) -> Callable[..., Any]:
    """Compiles with_cython.pyx once; $XDG_CACHE_HOME keeps it."""
    import pyximport

    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    pyximport.install(build_dir=str(caches / "fast_python"), language_level=3)
    return getattr(importlib.import_module("with_cython"), function)


def lists(arrays: tuple) -> tuple:
    return tuple(array.tolist() for array in arrays)


def tensors(arrays: tuple) -> tuple:
    """PyTorch tensors that share the memory of the arrays."""
    import torch

    return tuple(torch.from_dlpack(array) for array in arrays)


def gpu_tensors(arrays: tuple) -> tuple:
    return tuple(tensor.cuda() for tensor in tensors(arrays))


def cupy_arrays(arrays: tuple) -> tuple:
    import cupy

    return tuple(cupy.asarray(array) for array in arrays)
