"""The hashes of checkpoints: taken while they are written, read once for each file, and never in a hurry."""

import hashlib
import io
import json
import os
from pathlib import Path

import pytest
from labrig.record.files import checkpoint_hashes as hashes
from labrig.record.files.checkpoint_hashes import HashedFile, checkpoint_hashes, remember_hash
from labrig.record.read.run import Run
from labrig.record.verify.results import check_checkpoints
from records import write_record

BIG = bytes(range(256)) * (2 * hashes.BESIDE_BYTES // 256)  # is hashed by another thread


@pytest.fixture
def read(monkeypatch):
    """The names of the files that were read to hash them."""
    names = []

    def sha256(path):
        names.append(path.name)
        return hashlib.sha256(path.read_bytes()).hexdigest()

    monkeypatch.setattr(hashes, "sha256", sha256)
    return names


def written(path, content=b"weights"):
    with open(path, "wb") as file, HashedFile(file) as hashed:
        hashed.write(content)
    remember_hash(path, hashed.hexdigest())


def test_the_hash_is_that_of_the_pieces_in_their_order():
    pieces = [b"head", BIG, b"", memoryview(BIG)[1:], b"tail"]
    with io.BytesIO() as file, HashedFile(file) as hashed:
        for piece in pieces:
            assert hashed.write(piece) == len(piece)
        assert hashed.hexdigest() == hashlib.sha256(file.getvalue()).hexdigest()


def test_a_disk_that_is_full_says_so():
    class Full(io.BytesIO):
        def write(self, _):
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"), HashedFile(Full()) as hashed:
        hashed.write(BIG)


def test_what_was_hashed_while_it_was_written_is_not_read_again(tmp_path, read):
    written(tmp_path / "last.ckpt")
    os.link(tmp_path / "last.ckpt", tmp_path / "best.ckpt")
    os.replace(tmp_path / "last.ckpt", tmp_path / "previous.ckpt")
    written(tmp_path / "last.ckpt", b"others")
    found = checkpoint_hashes(tmp_path)
    assert read == []
    assert {name: entry["sha256"] for name, entry in found.items()} == {
        "best.ckpt": hashlib.sha256(b"weights").hexdigest(),
        "previous.ckpt": hashlib.sha256(b"weights").hexdigest(),
        "last.ckpt": hashlib.sha256(b"others").hexdigest(),
    }


def test_two_names_of_one_file_are_read_once(tmp_path, read):
    (tmp_path / "a.ckpt").write_bytes(b"foreign")
    os.link(tmp_path / "a.ckpt", tmp_path / "b.ckpt")
    found = checkpoint_hashes(tmp_path)
    assert read == ["a.ckpt"]
    assert found["a.ckpt"] == found["b.ckpt"]


def test_a_file_that_was_changed_since_is_read(tmp_path, read):
    written(tmp_path / "last.ckpt")
    (tmp_path / "last.ckpt").write_bytes(b"WEIGHTS")
    expected = hashlib.sha256(b"WEIGHTS").hexdigest()
    assert checkpoint_hashes(tmp_path)["last.ckpt"]["sha256"] == expected
    assert read == ["last.ckpt"]


def test_in_a_hurry_large_files_of_others_are_left(tmp_path, read):
    written(tmp_path / "last.ckpt")
    with open(tmp_path / "epoch-001.ckpt", "wb") as file:
        file.truncate(30 << 30)
    (tmp_path / "small.ckpt").write_bytes(b"small")
    found = checkpoint_hashes(tmp_path, may_read_bytes=1 << 20)
    assert read == ["small.ckpt"]
    assert found["epoch-001.ckpt"] == {"bytes": 30 << 30, "sha256": None}
    assert found["last.ckpt"]["sha256"]


def test_hashes_of_files_that_are_gone_are_forgotten(tmp_path):
    written(tmp_path / "last.ckpt")
    (tmp_path / "last.ckpt").unlink()
    written(tmp_path / "other.ckpt", b"other")
    assert len(json.loads((tmp_path / hashes.HASHES).read_text())) == 1


def test_verify_says_what_there_was_no_time_to_read(tmp_path):
    run_dir = tmp_path / "baseline/20261120-190001-abcdef"
    checkpoints = run_dir / "checkpoints"
    checkpoints.mkdir(parents=True)
    attempt = run_dir / "attempts/1"
    attempt.mkdir(parents=True)
    for name in ("last.ckpt", "epoch-001.ckpt"):
        (checkpoints / name).write_bytes(name.encode())
    recorded = checkpoint_hashes(checkpoints)
    recorded["epoch-001.ckpt"]["sha256"] = None
    write_record(run_dir)
    (attempt / "start.json").write_text("{}")
    end = {"status": "interrupted", "checkpoints": recorded}
    (attempt / "end.json").write_text(json.dumps(end))
    part = check_checkpoints(Run.open(Path(run_dir)))
    assert part.problems == []
    (unchecked,) = part.unchecked
    assert unchecked.startswith("no hash of epoch-001.ckpt: there was no time to read it")
    (checkpoints / "last.ckpt").write_bytes(b"else")
    assert check_checkpoints(Run.open(Path(run_dir))).problems
