"""The copy of the code on a node: it is removed however a job ends, and a full disk is one line."""

import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

from labrig.cluster import job
from labrig.cluster.job.rank import clean_as_last
from labrig.machine.ranks import discover
from labrig.record.freeze.library import file_versions
from small_disks import mounted, needs_root


def test_the_last_process_of_a_node_removes_its_copy(tmp_path, monkeypatch):
    node_dir = tmp_path / "lab-44-1001-c2"
    (node_dir / "code").mkdir(parents=True)
    monkeypatch.setenv("LAB_FROZEN", str(node_dir / "code"))
    monkeypatch.setenv("LAB_JOB", "44")
    first, last = (replace(discover({}), node_rank=1, local_size=2, local_rank=n) for n in (0, 1))
    clean_as_last(os.getpid(), first)
    assert node_dir.exists()
    clean_as_last(os.getpid() + 1, last)  # of a process that a rank has forked
    assert node_dir.exists()
    monkeypatch.setenv("LAB_JOB", "4")  # another job's copy
    clean_as_last(os.getpid(), last)
    assert node_dir.exists()
    monkeypatch.setenv("LAB_JOB", "44")
    clean_as_last(os.getpid(), last)
    assert not node_dir.exists()


@needs_root
def test_a_full_disk_of_a_node_is_one_line(tmp_path):
    script = (Path(job.__file__).parent / "job.sh").read_text()
    unpack = re.search(r"^unpack\(\) {.*?^}\n", script, re.DOTALL | re.MULTILINE)[0]
    files = tmp_path / "files"
    files.mkdir()
    for n in range(40):
        (files / f"{n}.bin").write_bytes(os.urandom(20_000))
    subprocess.run(["tar", "-cf", tmp_path / "code.tar", "-C", files, "."], check=True)
    with mounted(tmp_path / "node", "size=200k") as node:
        text = unpack.replace("@@{node_local}", str(node))
        command = f'{text}unpack "{tmp_path}/code.tar" "{node}/lab-1/code" -m'
        environment = os.environ | {"SLURMD_NODENAME": "c2"}
        done = subprocess.run(
            ["bash", "-euc", command], capture_output=True, text=True, env=environment
        )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"c2 cannot unpack {tmp_path}/code.tar into {node}/lab-1/code (")
    assert " free): tar: " in line
    assert line.endswith("No space left on device. Another disk: site.node_local")
    done = subprocess.run(["bash", "-euc", command.replace(str(node), str(tmp_path / "room"))])
    assert done.returncode == 0
    assert (tmp_path / "room/lab-1/code/0.bin").stat().st_size == 20_000


def test_the_frozen_library_has_no_pictures_and_no_bytecode():
    endings = {Path(name).suffix for name in file_versions()}
    assert ".py" in endings
    assert not endings & {".pyc", ".png", ".svg", ".md"}
