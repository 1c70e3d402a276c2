"""A project with a data file of 1 MB to push, and commands in it that are killed on the way."""

import subprocess
import sys
from pathlib import Path

import numpy as np
from labrig.data import fingerprint, write_data_file
from labrig.remote.stores import command
from projects import ROOT, project_in

PROGRAM = Path(__file__).parent / "stores_program.py"


def write_digits(path, n_samples=1000, seed=0):
    """A data file of 1 kB a sample; its hash."""
    x = np.random.default_rng(seed).integers(0, 256, (n_samples, 1024), np.uint8)
    fields = {"x": x, "y": np.arange(n_samples) % 10}
    write_data_file(path, fields, {"train": range(n_samples)}, source="random")
    return fingerprint(path)["sha256"]


def project_with_data(folder, **options):
    """A project in `folder` whose data set `digits` has a file; and the hash of its content."""
    project = project_in(folder)
    return project, write_digits(folder / "data" / "digits.h5", **options)


def make_several(project, n_samples=(100, 101, 102)):
    """Has the data set be a folder of files a.h5, b.h5 …; their hashes."""
    yaml = project.root / "src/myproj/conf/data/digits.yaml"
    yaml.write_text(yaml.read_text().replace("path: digits.h5", "path: digits/"))
    folder = project.root / "data/digits"
    folder.mkdir(parents=True)
    return [
        write_digits(folder / f"{letter}.h5", n, seed)
        for seed, (letter, n) in enumerate(zip("abcdef", n_samples, strict=False))
    ]


def pull_after_a_cut(project, folder, hashes):
    """What a colleague has after a pull that was cut in the second file, and what the project has."""
    theirs = without_data(project, folder)
    here, there = (each.root / "data/digits" for each in (theirs, project))
    here.mkdir(parents=True)
    for name, sha256, n_bytes in (("a.h5", hashes[0], None), ("b.h5", hashes[1], 5000)):
        part = here / f".{name}.{sha256[:12]}.part"
        part.write_bytes((there / name).read_bytes()[:n_bytes])
    pull(theirs)
    return [{path.name: path.read_bytes() for path in each.iterdir()} for each in (here, there)]


def without_data(project, folder):
    """The same project elsewhere, as a colleague has it: all but the data."""
    other = project_in(folder)
    name = "src/myproj/conf/data/digits.yaml"
    (folder / name).write_bytes((project.root / name).read_bytes())
    return other


def killed(project, step, *words, **variables):
    """Runs a command until its bar has moved `step` times; the bytes that it told of until then."""
    paths = f"{ROOT / 'src'}:{ROOT / 'tests/helpers'}"
    environment = {**variables, "PYTHONPATH": paths}
    done = subprocess.run(
        [sys.executable, PROGRAM, str(step), *words],
        cwd=project.root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == -9, f"{done.stdout}\n{done.stderr}"
    return [int(line) for line in done.stdout.splitlines() if line.isdecimal()]


def files_at(project, place):
    with command.open_store(project, place) as store:
        return [file.file for file in store.files()]


def push(project, *words):
    command.push_command(project, ["digits", *map(str, words)])


def pull(project, *words):
    command.pull_command(project, ["digits", *map(str, words)])
