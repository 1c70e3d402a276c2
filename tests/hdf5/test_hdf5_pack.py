"""Raw data of each kind become one file, in a seeded order, split as asked."""

import json
import os
import signal
import time
from itertools import pairwise

import numpy as np
import pytest
import soundfile
from hdf5_packing import all_rows, packing  # noqa: F401
from hdf5_programs import start
from labrig.data import DataFileError, H5Dataset, read_layout
from labrig.errors import LabError
from labrig.hdf5.pack import folders as raw_images
from PIL import Image


def images(root, sizes=((9, 7),), classes=("cat", "dög é"), each=6, kind="png"):
    rng = np.random.default_rng(0)
    for name in classes:
        (root / name).mkdir(parents=True)
        for i in range(each):
            pixels_HWC = rng.integers(0, 255, (*sizes[i % len(sizes)], 3)).astype(np.uint8)
            Image.fromarray(pixels_HWC).save(root / name / f"image {i}.{kind}")
    return root


def test_images_come_as_they_are_with_their_class(tmp_path, pack):
    root = images(tmp_path / "raw" / "pets")
    layout = pack("pets", root, "--as", "images")
    x, y = all_rows(layout, "x", "y")
    assert x.shape == (12, 3, 9, 7)
    classes = json.loads(layout.arrays["y"].attrs["classes"])
    assert classes == ["cat", "dög é"]
    packed = {(image.tobytes(), classes[label]) for image, label in zip(x, y, strict=True)}
    source = set()
    for path in root.rglob("*.png"):
        with Image.open(path) as image:
            source.add(
                (
                    np.ascontiguousarray(np.asarray(image).transpose(2, 0, 1)).tobytes(),
                    path.parent.name,
                )
            )
    assert packed == source
    assert sum(split.shape[0] for split in layout.splits.values()) == 12
    assert y.tolist() != sorted(y.tolist())  # a random order


def test_images_of_several_sizes_need_a_target_size(tmp_path, pack):
    root = images(tmp_path / "raw" / "pets", sizes=((9, 7), (8, 12)))
    with pytest.raises(DataFileError, match=r"dög é/image 1|cat/image 1.*--size"):
        pack("pets", root, "--as", "images")
    assert os.listdir(tmp_path / "data") == []
    assert pack("pets", root, "--as", "images", "--size", 6, 5).arrays["x"].shape == (12, 3, 6, 5)


def test_encoded_images_are_kept_and_decoded_when_read(tmp_path, pack):
    root = images(tmp_path / "raw" / "pets", sizes=((40, 30), (33, 64)), kind="jpg")
    layout = pack("pets", root, "--as", "encoded")
    flat, offsets = all_rows(layout, "x", "x_offsets")
    stored = {flat[a:b].tobytes() for a, b in pairwise(offsets)}
    assert stored == {path.read_bytes() for path in root.rglob("*.jpg")}
    dataset = H5Dataset(layout, "train", shapes={"x": (16, 24)})
    x, _ = dataset.__getitems__(range(len(dataset)))
    assert x.shape == (len(dataset), 3, 16, 24)
    with pytest.raises(DataFileError, match=r"height and width: data\.shapes\.x=\[224,224\]"):
        H5Dataset(layout, "train")


@pytest.mark.parametrize("kind", ["images", "encoded"])
def test_a_damaged_image_is_named_and_skipped_only_when_asked(tmp_path, pack, kind):
    root = images(tmp_path / "raw" / "pets", kind="jpg", sizes=((64, 64),))
    damaged = root / "cat" / "image 3.jpg"
    damaged.write_bytes(damaged.read_bytes()[:700])
    with pytest.raises(DataFileError, match=r"cat/image 3\.jpg cannot be read.*--skip-damaged"):
        pack("pets", root, "--as", kind)
    assert os.listdir(tmp_path / "data") == []
    layout = pack("pets", root, "--as", kind, "--skip-damaged")
    assert layout.n_samples == 11
    assert json.loads(layout.attrs["skipped"]) == ["cat/image 3.jpg"]


def test_folders_that_are_not_what_was_meant(tmp_path, pack):
    empty = tmp_path / "raw" / "empty"
    empty.mkdir()
    with pytest.raises(DataFileError, match="has no images"):
        pack("a", empty, "--as", "images")
    root = images(tmp_path / "raw" / "pets")
    (root / "bird").mkdir()
    with pytest.raises(DataFileError, match="classes without images: bird"):
        pack("a", root, "--as", "images")
    (root / "bird").rmdir()
    Image.new("RGB", (3, 3)).save(root / "loose.png")
    with pytest.raises(DataFileError, match=r"loose\.png is in no sub-directory"):
        pack("a", root, "--as", "images")
    with pytest.raises(LabError, match="there is no"):
        pack("a", root / "nowhere", "--as", "images")


def test_a_class_with_one_sample_and_one_sample_at_all(tmp_path, pack):
    root = images(tmp_path / "raw" / "pets", each=4)
    Image.new("RGB", (7, 9)).save(root.joinpath("one").mkdir() or root / "one" / "a.png")
    assert 1 in np.bincount(
        pack("pets", root, "--as", "images").map(read_layout(tmp_path / "data/pets.h5").arrays["y"])
    )
    single = images(tmp_path / "raw" / "single", classes=("only",), each=1)
    os.remove(tmp_path / "data/pets.h5")
    layout = pack("single", single, "--as", "images")
    assert {name: split.shape[0] for name, split in layout.splits.items()} == {"train": 1}


def test_a_source_that_changes_while_packed_is_reported(tmp_path, pack, monkeypatch):
    root = images(tmp_path / "raw" / "pets", each=2)
    decode = raw_images.decode_image

    def slow_decode(*args, **more):
        victim = next(root.rglob("image 1.png"))
        os.utime(victim, ns=(time.time_ns(), time.time_ns()))
        return decode(*args, **more)

    monkeypatch.setattr(raw_images, "decode_image", slow_decode)
    with pytest.raises(DataFileError, match="changed while it was packed"):
        pack("pets", root, "--as", "images")
    assert os.listdir(tmp_path / "data") == []


def recordings(root, rate_hz=8000, kinds=("wav", "flac")):
    rng = np.random.default_rng(0)
    wavs = []
    for i in range(8):
        folder = root / f"class{i % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        wavs.append(rng.integers(-3000, 3000, rng.integers(100, 900)).astype(np.int16))
        soundfile.write(folder / f"{i}.{kinds[i % len(kinds)]}", wavs[-1], rate_hz)
    return wavs


def test_audio_of_any_length(tmp_path, pack):
    wavs = recordings(tmp_path / "raw")
    layout = pack("birds", tmp_path / "raw", "--as", "audio")
    flat, offsets = all_rows(layout, "wav", "wav_offsets")
    stored = {flat[a:b].tobytes() for a, b in pairwise(offsets)}
    assert stored == {wav.tobytes() for wav in wavs}
    assert layout.arrays["wav"].attrs["sample_rate_hz"] == 8000


def test_audio_of_another_rate_or_cut_short_is_named(tmp_path, pack):
    recordings(tmp_path / "raw")
    soundfile.write(tmp_path / "raw/class1/odd.wav", np.zeros(50, np.int16), 16000)
    with pytest.raises(DataFileError, match=r"odd\.wav.*16000 Hz.*expected 8000 Hz"):
        pack("birds", tmp_path / "raw", "--as", "audio")
    os.remove(tmp_path / "raw/class1/odd.wav")
    for name in ("0.wav", "1.flac"):
        path = next((tmp_path / "raw").rglob(name))
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(DataFileError, match=rf"{name} cannot be read"):
            pack("birds", tmp_path / "raw", "--as", "audio")
        path.write_bytes(whole)
    (tmp_path / "raw/class1/text.wav").write_text("no recording" * 9)
    with pytest.raises(
        DataFileError, match=r"text\.wav cannot be read: it is no recording \([^<]+\)"
    ):
        pack("birds", tmp_path / "raw", "--as", "audio")


def test_splits_as_a_file_says(tmp_path, pack):
    root = images(tmp_path / "raw" / "pets")
    lines = [
        f"{path.relative_to(root)},{'test' if '0' in path.name else 'train'}"
        for path in root.rglob("*.png")
    ]
    (tmp_path / "splits.csv").write_text("\n".join(lines), encoding="utf-8")
    layout = pack("pets", root, "--as", "images", "--split-file", tmp_path / "splits.csv")
    assert {name: split.shape[0] for name, split in layout.splits.items()} == {
        "test": 2,
        "train": 10,
    }
    (tmp_path / "splits.csv").write_text("\n".join(lines[1:]), encoding="utf-8")
    with pytest.raises(DataFileError, match=r"has no line for .* counted from 0"):
        pack("pets", root, "--as", "images", "--split-file", tmp_path / "splits.csv")


def test_groups_found_in_the_names(tmp_path, pack):
    root = images(tmp_path / "raw" / "pets", each=9)
    layout = pack(
        "pets", root, "--as", "images", "--group", r"image (\d)", "--split", "train=0.5,test=0.5"
    )
    assert sorted(split.shape[0] for split in layout.splits.values()) in ([8, 10], [9, 9])


def test_groups_of_each_split_are_counted(tmp_path, pack, capsys):
    """A new user with 15 patients did not see that one of them was the whole test."""
    root = images(tmp_path / "raw" / "pets", each=9)
    pack("pets", root, "--as", "images", "--group", r"image (\d)")
    assert "  9 groups: test 1, train 7, val 1\n" in capsys.readouterr().out


def test_a_split_without_samples_is_told(tmp_path, pack, capsys):
    root = images(tmp_path / "raw" / "pets", each=9)
    pack("pets", root, "--as", "images", "--group", "image")
    told = capsys.readouterr()
    assert "  1 group: train 1\n" in told.out
    assert told.err == (
        "lab: nothing is left for val and test: there are too few groups, 1. Look at --group.\n"
    )


@pytest.mark.parametrize(
    "words", [("raw/pets", "--split", "training=0.9,val=0.1"), ("validation=raw/pets",)]
)
def test_a_split_that_no_training_reads_is_refused(tmp_path, pack, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    images(tmp_path / "raw" / "pets")
    with pytest.raises(DataFileError, match=r"do not read the split '\w+'. Call it (train|val)\."):
        pack("pets", *words, "--as", "images")


@pytest.mark.parametrize("split", ["train", "train=2", "train=0.5,test=0.6", "train=1,test=0"])
def test_shares_that_make_no_sense(tmp_path, pack, split):
    with pytest.raises(DataFileError, match="--split"):
        pack("pets", images(tmp_path / "raw" / "pets"), "--as", "images", "--split", split)


def test_a_data_set_nobody_knows_names_the_nearest(pack):
    with pytest.raises(LabError, match="no data set 'digit'; did you mean: digits"):
        pack("digit")


def test_the_same_seed_gives_the_same_file_and_another_one_another(tmp_path, pack):
    contents = []
    for seed in (1, 1, 2):
        layout = pack("digits", "--seed", seed)
        contents.append(
            [
                layout.map(array).tobytes()
                for array in (*layout.arrays.values(), *layout.splits.values())
            ]
        )
    assert contents[0] == contents[1]
    assert contents[0] != contents[2]


@pytest.mark.release
@pytest.mark.slow
def test_memory_does_not_grow_with_the_source(tmp_path):
    n, extra_bytes = 15_000, 100 << 20
    with start("pack_many", tmp_path / "a.h5", n, extra_bytes) as process:
        process.communicate(timeout=240)
    assert process.returncode == 0
    assert read_layout(tmp_path / "a.h5").n_samples == n
    assert (tmp_path / "a.h5").stat().st_size > 2.5 * extra_bytes


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_packing_leaves_nothing_under_the_name(tmp_path, how):
    with start("pack_many", tmp_path / "a.h5", 10**6, 1 << 30) as process:
        assert process.stdout.readline() == "begun\n"
        process.send_signal(how)
        process.wait(timeout=60)
    assert not (tmp_path / "a.h5").exists()
    assert how == signal.SIGKILL or os.listdir(tmp_path) == []
