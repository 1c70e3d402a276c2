"""Further ways to load code and to read files: each is of the frozen bytes, or named in the record."""

import os
import py_compile
import shutil
import subprocess
import zipfile

import pytest
from labrig.record.freeze.loading import is_generated
from projects import copy_of
from record_of_imports import run_program, start_of
from repositories import commit, git, write

IGNORED = ".venv\n/runs\n/ignored*\n*.ckpt\n*.npy\n*.so\n*.pyc\nsrc/myproj/ignored*\nscripts/\n"


@pytest.fixture
def own(with_extra, tmp_path):
    folder = copy_of(with_extra, tmp_path / "myproj")
    write(folder, {".gitignore": IGNORED})
    return folder


def run_ways(own, ways, **options):
    """What a run prints that loads a module for each way, and the paths that its record names."""
    write(own, {f"src/myproj/way{n}.py": f"import os, sys\n{way}" for n, way in enumerate(ways)})
    commit(own, "Ways")
    modules = " ".join(f"myproj.way{n}" for n in range(len(ways)))
    output = run_program(own, modules=modules, **options)
    return output, {(file["path"], file["kind"]) for file in start_of(own)["code"]["not_frozen"]}


READS = {
    "r1.ckpt": "from importlib.resources import files\nfiles('myproj').joinpath('r1.ckpt').read_text()",
    "r2.ckpt": "os.read(os.open('src/myproj/r2.ckpt', os.O_RDONLY), 9)",
    "r3.ckpt": "open(b'src/myproj/r3.ckpt').read()",
    "r4.ckpt": "open('src/myproj/r4.ckpt', 'r+').read()",
    "r5.npy": "import numpy\nnumpy.load('src/myproj/r5.npy')",
    "r6.ckpt": "import numpy\nnumpy.memmap('src/myproj/r6.ckpt', mode='r')",
    "r7.ckpt": "import numpy\nnumpy.fromfile('src/myproj/r7.ckpt')",
    "r11.ckpt": "import shutil\nshutil.copyfile('src/myproj/r11.ckpt', os.devnull)",
}


@pytest.mark.slow
def test_a_file_is_named_however_it_is_read(own):
    np = pytest.importorskip("numpy")
    folder = own / "src/myproj"
    for name in READS:
        (folder / name).write_text("x" * 64)
    np.save(folder / "r5.npy", np.zeros(3))
    _, named = run_ways(own, READS.values())
    assert named == {(f"src/myproj/{name}", "read") for name in READS}


@pytest.mark.slow
def test_a_library_in_c_is_named(own):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a compiler")
    write(own, {"f.c": "int f(void) { return 3; }\n"})
    subprocess.run([compiler, "-shared", "-fPIC", "-o", "libf.so", "f.c"], cwd=own, check=True)
    _, named = run_ways(own, ["import ctypes\nctypes.CDLL(os.path.abspath('libf.so'))"])
    assert named == {("libf.so", "read")}


CODE = {
    "ignored1.py": "import runpy\nrunpy.run_module('myproj.ignored1')",
    "ignored2.py": "import myproj.ignored2\ndel sys.modules['myproj.ignored2']",
    "ignored3.py": "import myproj.ignored3, types\n"
    "sys.modules['myproj.ignored3'] = types.ModuleType('x')",
    "ignored7.pyc": "import myproj.ignored7",
    "ignored8.pyc": "from importlib.machinery import SourcelessFileLoader as L\n"
    "import importlib.util as u\np = os.path.dirname(__file__) + '/ignored8.pyc'\n"
    "s = u.spec_from_file_location('i', p, loader=L('i', p))\n"
    "s.loader.exec_module(u.module_from_spec(s))",
    "ignored9.pyc": "import marshal\n"
    "exec(marshal.loads(open('src/myproj/ignored9.pyc', 'rb').read()[16:]))",
    "ignored10.py": "sys.path.insert(0, 'src/myproj')\nimport ignored10",
    "ignored11/space.py": "import myproj.ignored11.space",
}


@pytest.mark.slow
def test_code_that_git_ignores_is_named_however_it_is_loaded(own):
    for name in CODE:
        write(own, {f"src/myproj/{name}": "VALUE = 1\n"})
        if name.endswith(".pyc"):
            py_compile.compile(own / "src/myproj" / name, cfile=own / "source.pyc", doraise=True)
            (own / "source.pyc").replace(own / "src/myproj" / name)
    _, named = run_ways(own, CODE.values(), policy="warn")
    assert named == {(f"src/myproj/{name}", "left out") for name in CODE}


EDITED = ("lib/relative.py", "linked/through.py", "src/myproj/space/module.py")


@pytest.mark.slow
def test_an_edit_after_the_freeze_does_not_run_however_it_is_found(own, tmp_path):
    """Through a relative path, a link to the project, a namespace package, and in new processes."""
    write(own, dict.fromkeys(EDITED, "VALUE = 1\n"))
    (tmp_path / "link").symlink_to(own)
    ways = [
        "sys.path.insert(0, 'lib')\nimport relative\nprint(relative.VALUE)",
        f"sys.path.insert(0, {str(tmp_path / 'link/linked')!r})\nimport through\nprint(through.VALUE)",
        "from .space import module\nprint(module.VALUE)",
        "from . import extra\nimport multiprocessing\n\ndef value():\n    return extra.VALUE\n\n"
        "def new_process(method):\n    with multiprocessing.get_context(method).Pool(1) as pool:\n"
        "        print(pool.apply(value))",
    ]
    edits = "".join(f"Path({name!r}).write_text('VALUE = 2\\n'); " for name in EDITED)
    edits += "Path('src/myproj/extra.py').write_text('VALUE = 2\\n')"
    start = "import myproj.way3 as w; [w.new_process(m) for m in ('spawn', 'forkserver', 'fork')]"
    output, named = run_ways(own, ways, between=edits, later=start)
    assert output.split() == ["1"] * 6
    assert named == set()


def make_archive(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("packed.py", "VALUE = 7\n")


IMPORT_PACKED = "sys.path.insert(0, {!r})\nimport packed\nprint(packed.VALUE)"


@pytest.mark.slow
def test_modules_of_an_archive_are_those_of_its_file(own, tmp_path):
    make_archive(own / "lib.zip")
    output, named = run_ways(own, [IMPORT_PACKED.format(str(own / "lib.zip"))])
    assert (output, named) == ("7\n", set())
    shutil.rmtree(own / "runs")
    make_archive(tmp_path / "outside.zip")
    _, named = run_ways(own, [IMPORT_PACKED.format(str(tmp_path / "outside.zip"))])
    assert named == {(str(tmp_path / "outside.zip"), "outside")}


@pytest.mark.slow
def test_a_sitecustomize_is_named(own, tmp_path):
    """a-sitecustomize."""
    write(tmp_path, {"steer/sitecustomize.py": "STEERS = True\n"})
    output = run_program(own, PYTHONPATH=f"{tmp_path / 'steer'}{os.pathsep}{own / 'src'}")
    assert f"{tmp_path / 'steer/sitecustomize.py'}: outside of the repository" in output
    assert start_of(own)["code"]["complete"] is False


READS_IN_WORKER = """
import multiprocessing
import sys

from . import place

def read(path):
    sys.path.insert(0, "helpers")
    import helper
    return open(path).read() + str(helper.VALUE)

def read_in(method, path):
    with multiprocessing.get_context(method).Pool(1) as pool:
        print(pool.apply(read, (path,)))
"""


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_what_a_worker_process_reads_is_named_as_of_the_main_process(own, tmp_path, method):
    """N-a-workerread."""
    write(own, {"ignored.txt": "text", "helpers/helper.py": "VALUE = 1\n"})
    write(own, {".gitignore": f"{IGNORED}helpers/\n"})
    write(own, {"src/myproj/place.py": "", "src/myproj/works.py": READS_IN_WORKER})
    commit(own, "Works")
    call = f"import myproj.works as w; w.read_in({method!r}, 'ignored.txt')"
    output = run_program(own, modules="", later=call)
    assert "text1" in output
    code = start_of(own)["code"]
    assert {(file["path"], file["kind"]) for file in code["not_frozen"]} == {
        ("ignored.txt", "read"),
        ("helpers/helper.py", "left out"),
    }
    assert code["complete"] is False
    assert not list(own.glob("runs/*/*/attempts/1/.read-*"))


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["triton_utils", "torchinductor", ".triton", "torch_extensions"])
def test_a_folder_is_not_a_cache_for_its_name(own, tmp_path, folder):
    """N-a-triton."""
    write(tmp_path / folder, {"helper.py": "VALUE = 1\n"})
    path = f"{own}/src{os.pathsep}{tmp_path / folder}"
    output = run_program(own, modules="helper", PYTHONPATH=path)
    assert f"{tmp_path / folder}/helper.py: outside of the repository" in output


@pytest.mark.parametrize("name", ["TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", None])
def test_what_torch_generates_lies_in_its_caches(tmp_path, monkeypatch, name):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if name:
        monkeypatch.setenv(name, str(tmp_path))
    folder = tmp_path if name else tmp_path / "torch_extensions"
    monkeypatch.delenv("TORCH_EXTENSIONS_DIR", raising=False)
    assert is_generated(str(folder / "ab/cd.py"))
    assert not is_generated(f"{folder}2/cd.py")


@pytest.mark.slow
def test_the_bytes_that_ran_count_not_those_that_a_filter_stores(own):
    """N-a-cleanfilter."""
    git(own, "config", "filter.rate.clean", "sed s/0.31/0.77/")
    write(own, {".gitattributes": "rate.* filter=rate\n", "rate.txt": "0.31\n"})
    write(
        own,
        {
            "src/myproj/rate.py": "RATE = 0.31\n",
            "src/myproj/.gitattributes": "rate.py filter=rate\n",
        },
    )
    shown = "import myproj.rate as r; print(r.RATE, open('rate.txt').read())"
    output = run_program(own, modules="", later=shown)
    assert "0.31 0.31" in output
    code = start_of(own)["code"]
    assert code["complete"] is False
    assert {(file["path"], file["kind"]) for file in code["not_frozen"]} == {
        ("rate.txt", "filtered"),
        ("src/myproj/rate.py", "filtered"),
    }


@pytest.mark.slow
def test_flags_of_python_are_recorded(own):
    """N-a-optimize."""
    run_program(own, PYTHONOPTIMIZE="1")
    assert start_of(own)["flags"]["optimize"] == 1
    assert start_of(own)["variables"]["PYTHONOPTIMIZE"] == "1"
