"""Tar archives are packed as they lie: the same file as from the folder that they hold."""

import json
import shutil
import tarfile

import numpy as np
import pytest
from hdf5_packing import packing  # noqa: F401 (fixture)
from labrig.data import DataFileError, fingerprint
from PIL import Image

CLASSES = ("cat", "dög é")


@pytest.fixture
def folder(tmp_path):
    """Six JPEGs of two classes."""
    rng = np.random.default_rng(0)
    for name in CLASSES:
        (tmp_path / "pets" / name).mkdir(parents=True)
        for i in range(3):
            pixels = rng.integers(0, 256, (40 + i, 50, 3), np.uint8)
            Image.fromarray(pixels).save(tmp_path / "pets" / name / f"image {i}.jpg")
    return tmp_path / "pets"


def tar_of(folder, file, arcname):
    with tarfile.open(file, "w") as archive:
        archive.add(folder, arcname)
    return file


def hash_of(layout):
    return fingerprint(layout.path)["sha256"]


@pytest.mark.parametrize("words", [["encoded"], ["images", "--size", "16", "16"]])
@pytest.mark.parametrize("arcname", [".", "pets", "a/b/pets"])
def test_an_archive_gives_the_same_file_as_its_folder(pack, folder, tmp_path, words, arcname):
    of_folder = hash_of(pack("pets", folder, "--as", *words))
    tar = tar_of(folder, tmp_path / "raw/pets.tar", arcname)
    layout = pack("pets", tar, "--as", *words)
    assert hash_of(layout) == of_folder
    assert sorted(tmp_path.glob("raw/*")) == [tar], "nothing was unpacked"


def test_a_folder_of_archives_has_a_class_in_each(pack, folder, tmp_path):
    expected = pack("pets", folder, "--as", "encoded")
    for name in CLASSES:
        tar_of(folder / name, tmp_path / "raw" / f"{name}.tar", "some/where")
    layout = pack("pets", tmp_path / "raw", "--as", "encoded")
    assert json.loads(layout.arrays["y"].attrs["classes"]) == [*CLASSES]
    assert layout.n_samples == 6

    def samples(of):
        flat, ends, y = (of.map(of.arrays[name]) for name in ("x", "x_offsets", "y"))
        return {(flat[a:b].tobytes(), n) for a, b, n in zip(ends, ends[1:], y, strict=False)}

    assert samples(layout) == samples(expected)


def test_archives_of_splits(pack, folder, tmp_path):
    for split in ("train", "val"):
        tar_of(folder, tmp_path / "raw" / f"{split}.tar", ".")
    with pytest.raises(DataFileError, match=r"pack pets train=\S+train.tar val=\S+val.tar"):
        pack("pets", tmp_path / "raw", "--as", "encoded")
    sources = [f"{split}={tmp_path}/raw/{split}.tar" for split in ("train", "val")]
    layout = pack("pets", *sources, "--as", "encoded")
    assert {name: split.n_rows for name, split in layout.splits.items()} == {"train": 6, "val": 6}


def test_parts_and_splits_in_archives_are_no_classes(pack, folder, tmp_path):
    for name in ("train-0000", "train-0001", "dev"):
        tar_of(folder, tmp_path / "raw" / f"{name}.tar", ".")
    with pytest.raises(DataFileError) as error:
        pack("pets", tmp_path / "raw", "--as", "encoded")
    typed = str(error.value).partition("lab data pack pets ")[2].splitlines()[0].split()
    layout = pack("pets", *typed)
    assert {name: split.n_rows for name, split in layout.splits.items()} == {"val": 6, "train": 12}
    (tmp_path / "all/pets").mkdir(parents=True)
    for name in ("train", "test"):
        shutil.copytree(folder, tmp_path / "all/pets" / name)
    tar = tar_of(tmp_path / "all", tmp_path / "all.tar", ".")
    message = (
        rf"Unpack it: tar -xf {tar}\nType: lab data pack pets test=pets/test train=pets/train --as"
    )
    with pytest.raises(DataFileError, match=message):
        pack("pets", tar, "--as", "encoded")


def test_a_member_that_was_added_again_is_refused(pack, folder, tmp_path):
    tar = tar_of(folder, tmp_path / "raw/pets.tar", "pets")
    with tarfile.open(tar, "a") as archive:
        archive.add(folder / "cat/image 0.jpg", "./pets/cat/image 0.jpg")
    with pytest.raises(DataFileError, match=rf"holds pets/cat/image 0.jpg twice.*tar -xf {tar}"):
        pack("pets", tar, "--as", "encoded")


def test_a_damaged_image_of_an_archive_is_named(pack, folder, tmp_path):
    damaged = folder / "cat/image 1.jpg"
    damaged.write_bytes(damaged.read_bytes()[:500])
    tar = tar_of(folder, tmp_path / "raw/pets.tar", "pets")
    with pytest.raises(DataFileError, match=r"pets\.tar/pets/cat/image 1\.jpg cannot be read"):
        pack("pets", tar, "--as", "encoded")
    layout = pack("pets", tar, "--as", "encoded", "--skip-damaged")
    assert json.loads(layout.attrs["skipped"]) == ["cat/image 1.jpg"]


@pytest.mark.parametrize("mode", ["gz", "cut", "text"])
def test_an_archive_that_cannot_be_read(pack, folder, tmp_path, mode):
    tar = tmp_path / "raw/pets.tar"
    if mode == "gz":
        with tarfile.open(tar, "w:gz") as archive:
            archive.add(folder, "pets")
    else:
        tar_of(folder, tar, "pets")
        tar.write_bytes(tar.read_bytes()[:5000] if mode == "cut" else b"text" * 500)
    with pytest.raises(DataFileError, match=r"cannot be read"):
        pack("pets", tar, "--as", "encoded")


def test_an_archive_without_images(pack, tmp_path):
    (tmp_path / "empty").mkdir()
    tar = tar_of(tmp_path / "empty", tmp_path / "raw/a.tar", "a")
    with pytest.raises(DataFileError, match=r"a\.tar has no images in it"):
        pack("a", tar, "--as", "encoded")


def test_links_and_paths_of_an_archive_lead_nowhere(pack, folder, tmp_path):
    """A member is a name and bytes: nothing is written, and a link is no file."""
    (tmp_path / "secret.jpg").write_bytes((folder / "cat/image 0.jpg").read_bytes())
    tar = tmp_path / "raw/pets.tar"
    with tarfile.open(tar, "w") as archive:
        archive.add(folder, "pets")
        link = tarfile.TarInfo("pets/cat/link.jpg")
        link.type = tarfile.SYMTYPE
        link.linkname = str(tmp_path / "secret.jpg")
        archive.addfile(link)
    assert pack("pets", tar, "--as", "encoded").n_samples == 6
