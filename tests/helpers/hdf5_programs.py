"""Programs that tests of lab/hdf5 start: each function here, by its name, in a new process.

start("pack_many", path, 10, 1000) runs `pack_many(path, "10", "1000")`.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from projects import SOURCE, project_in


def start(program: str, *words: object, **variables: str) -> subprocess.Popen:
    """Starts a function of this file, with pipes; its stderr goes to its stdout."""

    return subprocess.Popen(
        [sys.executable, __file__, program, *map(str, words)],
        env=os.environ | {"PYTHONPATH": str(SOURCE)} | variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(program: str, *words: object) -> str:
    """Runs a function of this file to its end and returns what it printed."""
    with start(program, *words) as process:
        output, _ = process.communicate(timeout=240)
    assert process.returncode == 0, output
    return output


def fill_small_disk(path):
    """Writes more than the limit on a file's size allows, as on a disk that fills up."""
    import resource

    import numpy as np
    from labrig.data import DataFileError, write_data_file

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    try:
        write_data_file(path, {"x": np.zeros((4, 1 << 20), np.uint8)}, {})
    except DataFileError as error:
        print("answered:", error)


def die_while_writing(path):
    import h5py

    file = h5py.File(path, "w", libver="latest")
    file["data/x"] = range(9)
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)


def hold_open(path):
    """Opens a file for writing until a line comes."""
    import h5py

    with h5py.File(path, "r+"):
        print("open", flush=True)
        input()


def pack_and_verify_a_table(root):
    """Prints which slow packages were imported for it."""
    from labrig.data import verify_file
    from labrig.hdf5.pack.command import pack_command

    table = Path(root) / "t.csv"
    table.write_text("a,b\n1,2\n3,4\n")
    pack_command(project_in(Path(root)), ["t", str(table), "--as", "table", "--to", root])
    verify_file(Path(root) / "t.h5")
    print("imported:", sorted({"torch", "lightning"} & set(sys.modules)))


def pack_many(path, n, extra_bytes):
    """Packs `n` samples of 20 KB with at most `extra_bytes` of memory more than after importing."""
    import resource

    import numpy as np
    from labrig.hdf5.file.atomic_file import temporary_directory_next_to
    from labrig.hdf5.pack.collect import collect_fields
    from labrig.hdf5.pack.writer import write_fields

    def samples():
        for i in range(int(n)):
            image = np.full((3, 64, 64), i % 251, np.uint8)
            yield {"x": image, "wav": np.zeros(1000 + i % 7), "y": np.int64(i)}
            if i == 200:
                print("begun", flush=True)

    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it in what `&` starts
    lines = Path("/proc/self/status").read_text().splitlines()
    status = dict(line.split(":", 1) for line in lines)
    allowed = int(status["VmData"].split()[0]) * 1024 + int(extra_bytes)
    resource.setrlimit(resource.RLIMIT_DATA, (allowed, allowed))
    path = Path(path)
    order = np.random.default_rng(0).permutation(int(n))
    with temporary_directory_next_to(path) as directory:
        fields = collect_fields(path, Path(directory), samples(), on_sample=lambda _: None)
        write_fields(path, fields, {"train": order}, order=order, provenance={})


def use_copy(path, node):
    """Stages a file, slowly, and uses the copy until stdin ends."""
    from labrig.data import read_layout
    from labrig.hdf5.read import stage

    class Owner:
        pass

    copy_file = stage._copy

    def copy_slowly(path, copy):
        print("copies", flush=True)
        time.sleep(0.5)
        copy_file(path, copy)

    stage._copy = copy_slowly
    owner = Owner()
    copy = stage.stage(Path(path), node, owner)
    print("has", read_layout(copy).n_samples, flush=True)
    sys.stdin.read()


def train(directory, options):
    """`hdf5_training.train` on the rank that the variables name; leaves its result in
    rank<rank>.json.
    """
    import warnings

    import hdf5_training
    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    result = hdf5_training.train(Path(directory), **json.loads(options))
    rank = os.environ.get("LOCAL_RANK", "0")
    (Path(directory) / f"rank{rank}.json").write_text(json.dumps(result))


def append(root, name, source, waits="no"):
    """`lab data append NAME SOURCE` in the project at `root`; its file gets its name when a line comes."""
    from labrig import project as module
    from labrig.errors import LabError
    from labrig.hdf5.pack import append
    from labrig.project import Project

    check_fits = append.check_fits

    def check_slowly(*parts):
        check_fits(*parts)
        print("packed", flush=True)
        if waits == "waits":
            input()

    append.check_fits = check_slowly
    project = Project(Path(root), "myproj")
    module._entered[:] = [project]
    os.chdir(root)
    try:
        append.append_command(project, [name, source])
    except LabError as error:
        sys.exit(f"answered: {error}")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
