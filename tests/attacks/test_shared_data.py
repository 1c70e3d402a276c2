"""Places of shared data, and YAML files that name them, may be an enemy's: what is not the data is refused."""

import os

import pytest
from labrig.data import read_layout
from labrig.errors import Failed, LabError
from labrig.hdf5.file.find import read_data_section
from labrig.remote.stores import command
from labrig.remote.stores.store import FolderStore
from shared_data import files_at, project_with_data, pull, push, without_data, write_digits


@pytest.fixture
def shared(tmp_path, monkeypatch):
    """A project that has pushed its data, a colleague's, and the file in the folder of the group."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    project, sha256 = project_with_data(tmp_path / "mine")
    push(project, tmp_path / "group")
    stored = tmp_path / "group" / f"{sha256}-digits.h5"
    stored.chmod(0o644)
    return project, without_data(project, tmp_path / "theirs"), stored


def kept_after_refusal(theirs, match):
    """What lies in data/ after a pull that is refused."""
    with pytest.raises(Failed, match=match):
        pull(theirs)
    folder = theirs.root / "data"
    return os.listdir(folder) if folder.exists() else []


@pytest.mark.parametrize("where", ["signature", "array", "attribute", "short", "other"])
def test_bytes_that_do_not_have_the_hash_are_refused(shared, where):
    _, theirs, stored = shared
    content = bytearray(stored.read_bytes())
    if where == "signature":
        content[0] ^= 1
    elif where == "array":
        content[read_layout(stored).arrays["x"].offset + 5000] ^= 1
    elif where == "attribute":
        content[content.index(b"random")] ^= 1  # where the data are from
    elif where == "short":
        content = content[:-400_000]
    stored.write_bytes(content)
    if where == "other":  # a whole data file under the hash of another
        stored.unlink()
        write_digits(stored, seed=1)
    assert kept_after_refusal(theirs, "is refused: [^\n]*\nNothing of it was kept") == []


def test_a_file_of_another_hash_is_not_taken_for_it(shared):
    project, theirs, stored = shared
    stored.rename(stored.with_name("0" * 64 + "-digits.h5"))
    assert kept_after_refusal(theirs, "has no file of the hash") == []
    assert files_at(project, str(stored.parent)) == ["0" * 64 + "-digits.h5"]


@pytest.mark.parametrize("name", ["../../x.h5", "a/x.h5", "x\n.h5", "x.py", ".h5", "x.h5.part"])
def test_names_that_lead_elsewhere_are_left_out(module, name):
    store = module("remote.stores.store")
    assert store.stored_files([(f"{'0' * 64}-{name}", 1, 0.0)]) == []


def test_a_link_in_the_place_is_not_followed(shared, tmp_path):
    _, theirs, stored = shared
    stored.rename(tmp_path / "elsewhere")
    stored.symlink_to(tmp_path / "elsewhere")
    assert kept_after_refusal(theirs, "has no file of the hash") == []


@pytest.mark.parametrize("path", ["../../stolen.h5", "/tmp/stolen.h5", "a/../../../stolen.h5"])
def test_a_yaml_whose_path_leads_out_of_the_data_is_refused(shared, path):
    _, theirs, _ = shared
    yaml = theirs.root / "src/myproj/conf/data/digits.yaml"
    yaml.write_text(yaml.read_text().replace("path: digits.h5", f"path: {path}"))
    with pytest.raises(LabError, match=r"the path of digits: .* is not a relative path without"):
        pull(theirs)
    assert not (theirs.root / "data").exists()


@pytest.mark.parametrize(
    "stored",
    [
        "{name: digits, place: 'ssh://-oProxyCommand=touch x/a', sha256: HASH}",
        "{name: digits, place: /group, sha256: ../../a}",
        "{name: '../a', place: /group, sha256: HASH}",
        "{place: /group}",
        "[1, 2]",
        "text",
    ],
)
def test_a_yaml_with_a_forged_place_is_refused(shared, stored):
    _, theirs, _ = shared
    sha256 = read_data_section(theirs, "digits")["stored"]["sha256"]
    yaml = theirs.root / "src/myproj/conf/data/digits.yaml"
    lines = [line for line in yaml.read_text().splitlines() if not line.startswith("stored")]
    yaml.write_text("\n".join([*lines, f"stored: {stored.replace('HASH', sha256)}"]))
    with pytest.raises(LabError, match=r"the setting stored of digits: .*lab data push digits"):
        pull(theirs)


def test_a_part_that_is_a_link_is_not_written_through(shared, tmp_path):
    project, theirs, stored = shared
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (theirs.root / "data").mkdir()
    (theirs.root / "data" / f".digits.h5.{stored.name[:12]}.part").symlink_to(precious)
    with pytest.raises(OSError, match=r"symbolic link"):
        pull(theirs)
    stored.unlink()
    (stored.parent / f".{stored.name}.part").symlink_to(precious)
    with pytest.raises(OSError, match=r"symbolic link"):
        push(project)
    assert precious.read_text() == "mine"


def test_a_stream_without_an_end_is_left(shared, monkeypatch, module):
    _, theirs, _ = shared
    monkeypatch.setattr(module("hdf5.file.atomic_file"), "BLOCK_BYTES", 1000)
    monkeypatch.setattr(FolderStore, "open", lambda *_: open("/dev/zero", "rb"))  # noqa: SIM115
    assert kept_after_refusal(theirs, "is refused") == []


def test_a_list_of_a_hostile_place_prints_no_control_signs(shared, capsys):
    project, _, stored = shared
    stored.rename(stored.with_name(f"{stored.name[:64]}-\x1b[31mx.h5"))
    command.list_command(project, [str(stored.parent)])
    assert "\x1b" not in capsys.readouterr().out
