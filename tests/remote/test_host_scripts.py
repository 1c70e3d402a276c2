"""The scripts that run on a host: every name is filled in and quoted, and shellcheck reads them."""

import subprocess

import pytest
from labrig.remote.connection import FOLDER, Quoted, host_script
from labrig.remote.place import LABEL, MARK, READY
from programs import need

ODD = "it's a/b c"
VALUES = {
    "look": {
        "mark": MARK, "folder": Quoted('"$HOME/lab"/p'), "label": ODD, "ready": ODD,
        "bundles": ["a", "b"],
    },
    "upload": {"file": ODD, "n_bytes": 3},
    "unpack": {
        "folder": ODD, "bundles": ["a", "b"], "name": "c.d", "commit": "c", "library": "d",
        "library_folder": "e", "label": LABEL, "n_bytes": 3,
    },
    "environment": {"code": ODD, "environment": ODD, "library": ODD, "ready": READY},
    "sent_last": {"sending": ODD, "nonce": "1f"},
    "store": {
        "mark": MARK, "folder": Quoted('"$HOME"/a'), "part": ODD, "file": ODD, "start": 3,
        "n_bytes": 5, "sha256": 64 * "a",
    },
    "stored": {"mark": MARK, "folder": Quoted('"$HOME"/a')},
    "started_first": {"name": "a", "judge": "ann@b", "folder": ODD, "claim": "ln -sn a b"},
}  # fmt: skip


def test_each_script_is_listed():
    assert {path.stem for path in FOLDER.glob("*.sh")} == set(VALUES)


@pytest.mark.parametrize("name", VALUES)
def test_a_script_is_filled_in_and_read_by_bash(name):
    script = host_script(name, **VALUES[name])
    assert "@@" not in script
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_a_name_without_a_value_is_no_script():
    with pytest.raises(KeyError, match="n_bytes"):
        host_script("upload", file="a")


def test_half_of_an_upload_never_has_its_name(tmp_path):
    file = tmp_path / "it's" / "a b"
    script = host_script("upload", file=file, n_bytes=5)
    short = subprocess.run(["bash", "-c", script], input=b"1234", check=False)
    assert short.returncode != 0
    assert not file.exists()
    subprocess.run(["bash", "-c", script], input=b"12345", check=True)
    assert file.read_bytes() == b"12345"


def test_shellcheck_reads_them(tmp_path):
    need("shellcheck")
    files = []
    for name, values in VALUES.items():
        files.append(tmp_path / f"{name}.sh")
        files[-1].write_text(f"#!/bin/bash\n{host_script(name, **values)}\n")
    # the job script has set the variables of the last two
    command = ["shellcheck", "--format=gcc", "--exclude=SC2154", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == ""
    assert done.returncode == 0
