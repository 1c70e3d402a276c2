"""Images and masks are matched by name or by a table, and packed with exact values."""

import csv
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml
from hdf5_packing import all_rows, packing  # noqa: F401
from hdf5_pairs import H, W, of_palette, pairs
from labrig.data import DataFileError
from labrig.errors import LabError, Refused
from labrig.hdf5.pack.command import pack_command
from PIL import Image
from projects import project_in

MASKS = {
    "8 bits": ((0, 128, 255), None, np.uint8, [0, 128, 255]),
    "a palette": ((0, 1, 2), of_palette, np.uint8, [0, 1, 2]),
    "16 bits": (
        (0, 3, 255),
        lambda numbers: Image.fromarray(numbers.astype(np.uint16) * 257),
        np.uint16,
        [0, 771, 65535],
    ),
    "1 bit": ((0, 1), lambda numbers: Image.fromarray(numbers > 0), np.uint8, [0, 1]),
    "three equal channels": (
        (0, 7),
        lambda numbers: Image.fromarray(np.stack([numbers] * 3, -1)),
        np.uint8,
        [0, 7],
    ),
    "grey with alpha": (
        (0, 7),
        lambda numbers: Image.fromarray(np.stack([numbers, numbers * 0 + 255], -1), "LA"),
        np.uint8,
        [0, 7],
    ),
}


@pytest.mark.filterwarnings("ignore:'mode' parameter is deprecated")
@pytest.mark.parametrize("kind", MASKS)
def test_values_of_a_mask_are_kept_exactly(tmp_path, pack, kind):
    """R39: numbers of palettes, of one bit and of equal channels; colours and JPEG are refused below."""
    values, mask, dtype, stored = MASKS[kind]
    mask_of = pairs(tmp_path / "raw/cells", values=values, mask=mask)
    layout = pack("cells", tmp_path / "raw/cells", "--as", "pairs")
    x, y = all_rows(layout, "x", "y")
    assert (x.shape, y.shape, y.dtype) == ((8, 3, H, W), (8, H, W), dtype)
    for image, numbers in zip(x, y, strict=True):
        expected = mask_of[image.tobytes()]
        np.testing.assert_array_equal(numbers, expected[..., 0] if expected.ndim == 3 else expected)
    assert json.loads(layout.arrays["y"].attrs["values"]) == stored


def test_a_mask_that_numbers_its_objects_has_no_list_of_classes(tmp_path, pack):
    def of_objects(numbers):
        return Image.fromarray(np.arange(H * W, dtype=np.uint16).reshape(H, W) + numbers)

    pairs(tmp_path / "raw/cells", values=(0, 1), mask=of_objects)
    layout = pack("cells", tmp_path / "raw/cells", "--as", "pairs")
    assert "values" not in layout.arrays["y"].attrs
    config = yaml.safe_load((tmp_path / "src/myproj/conf/data/cells.yaml").read_text())
    assert config["classes"] is None


def test_a_yaml_of_classes_that_is_there_gets_the_lines_to_write(tmp_path, pack, capsys):
    for name in ("cat", "dog"):
        (tmp_path / "raw/old" / name).mkdir(parents=True)
        Image.new("RGB", (W, H)).save(tmp_path / "raw/old" / name / "0.png")
    pack("cells", tmp_path / "raw/old", "--as", "images")
    pairs(tmp_path / "raw/cells")
    pack("cells", tmp_path / "raw/cells", "--as", "pairs")
    said = capsys.readouterr().out
    assert "It reads no masks. Write: _target_: labrig.data.PairDataModule" in said
    assert "classes: {y: [0, 255]}" in said


def resized(tmp_path, pack):
    """Image and mask of one white rectangle, scaled to a third."""
    root = tmp_path / "raw/cells"
    for name in ("images", "masks"):
        (root / name).mkdir(parents=True)
    rng = np.random.default_rng(0)
    for i in range(4):
        top, left = rng.integers(0, 8, 2) * 3
        shape = np.zeros((90, 120), np.uint8)
        shape[top : top + 33, left : left + 48] = 200
        Image.fromarray(shape).convert("RGB").save(root / f"images/{i}.png")
        Image.fromarray(shape).save(root / f"masks/{i}.png")
    return all_rows(pack("cells", root, "--as", "pairs", "--size", 30, 40), "x", "y")


def test_resizing_takes_the_nearest_value_of_a_mask_and_keeps_it_on_its_image(tmp_path, pack):
    x, y = resized(tmp_path, pack)
    assert set(np.unique(y)) == {0, 200}
    assert y.any((1, 2)).all()
    np.testing.assert_array_equal(x[:, 0] >= 100, y == 200)


def test_images_of_16_bits_stay_as_they_are_and_are_no_8_bit_images(tmp_path, pack):
    pairs(tmp_path / "raw/cells", n=4)
    wide = np.arange(H * W, dtype=np.uint16).reshape(H, W) * 90
    for path in (tmp_path / "raw/cells/images").iterdir():
        Image.fromarray(wide).save(path)
    layout = pack("cells", tmp_path / "raw/cells", "--as", "pairs")
    (x,) = all_rows(layout, "x")
    np.testing.assert_array_equal(x, np.broadcast_to(wide, (4, 1, H, W)))
    config = yaml.safe_load((tmp_path / "src/myproj/conf/data/cells.yaml").read_text())
    assert config["scale"] == {"x": 65535}
    (tmp_path / "raw/cells/masks").rename(tmp_path / "elsewhere")
    (tmp_path / "data/cells.h5").unlink()
    for kind in ("images", "encoded"):
        with pytest.raises(DataFileError, match=r"more than 8 bits \(I;16\), an RGB image has 8"):
            pack("cells", tmp_path / "raw/cells", "--as", kind)


@pytest.mark.parametrize("kind", ["images", "encoded"])
def test_images_and_masks_are_no_classes(tmp_path, pack, kind):
    root = tmp_path / "raw/cells"
    pairs(root)
    with pytest.raises(DataFileError) as error:
        pack("cells", root, "--as", kind)
    assert f"Type: lab data pack cells {root} --as pairs" in str(error.value)
    (root / "masks").rename(root / "annotated by anna")  # the files have the same names
    with pytest.raises(DataFileError, match="--as pairs"):
        pack("cells", root, "--as", kind)
    with pytest.raises(LabError, match="looks like pairs"):
        pack("cells", root)
    assert not (tmp_path / "data").exists() or not any((tmp_path / "data").iterdir())


def test_folders_of_splits_are_no_classes(tmp_path, pack):
    root = tmp_path / "raw/cells"
    pairs(root / "train")
    pairs(root / "validation")
    typed = f"lab data pack cells train={root}/train val={root}/validation --as pairs"
    for kind in ("images", "pairs"):
        with pytest.raises(DataFileError) as error:
            pack("cells", root, "--as", kind)
        assert typed.partition(" cells ")[2] in str(error.value)
    layout = pack("cells", *typed.split()[4:])
    assert {name: split.n_rows for name, split in layout.splits.items()} == {"train": 8, "val": 8}
    for split in ("train", "val"):
        (tmp_path / "raw/pets" / split / "cat").mkdir(parents=True)
        Image.new("RGB", (4, 4)).save(tmp_path / "raw/pets" / split / "cat/a.png")
    with pytest.raises(DataFileError, match=r"train=\S+ val=\S+ --as images"):
        pack("pets", tmp_path / "raw/pets", "--as", "images")


def damage(root):
    """What is wrong with six samples of twelve, and the word that names it."""
    image, mask = root / "images", root / "masks"
    whole = (image / "p0_1.png").read_bytes()
    (image / "p0_1.png").write_bytes(whole[: len(whole) // 2])
    (mask / "p1_0.png").write_bytes(b"")
    Image.new("L", (W, H + 2)).save(mask / "p1_1.png")
    (mask / "p2_0.png").unlink()
    (image / "p2_1.png").unlink()
    Image.new("RGB", (W, H), "red").save(mask / "p3_0.png")
    return {
        "p2_0": r"2 of 12 samples are not complete:\n  \S+/images/p2_0.png has no partner in \S+masks",
        "p2_1": r"masks/p2_1.png has no partner in \S+/images",
        "p0_1": r"images/p0_1.png cannot be read: image file is truncated",
        "p1_0": r"masks/p1_0.png cannot be read: it is no image",
        "p1_1": rf"masks/p1_1.png cannot be read: it has {W}x{H + 2} pixels, its partner "
        rf"\S+images/p1_1.png {W}x{H} pixels",
        "p3_0": r"masks/p3_0.png cannot be read: its channels \(RGB\) differ",
    }


def test_what_is_wrong_with_a_pair_is_told_with_its_file_and_left_out_when_asked(tmp_path, pack):
    root = tmp_path / "raw/cells"
    pairs(root, n=12)
    messages = damage(root)
    words = ("cells", root, "--as", "pairs")
    for name, message in messages.items():
        with pytest.raises(DataFileError, match=message):
            pack(*words)
        if name != "p2_0":  # both are told at once
            (root / "images" / f"{name}.png").unlink(missing_ok=True)
            (root / "masks" / f"{name}.png").unlink(missing_ok=True)
        if name == "p2_1":
            (root / "images/p2_0.png").unlink()


def test_left_out_samples_are_counted_and_recorded(tmp_path, pack, capsys):
    root = tmp_path / "raw/cells"
    pairs(root, n=12)
    names = damage(root)
    layout = pack("cells", root, "--as", "pairs", "--skip-damaged", "--group", r"(p\d)_")
    assert layout.n_samples == 6
    assert "6 samples left out" in capsys.readouterr().out
    skipped = [Path(key).stem for key in json.loads(layout.attrs["skipped"])]
    assert sorted(skipped) == sorted(names)


def test_files_that_do_not_fit_the_first_are_named_and_never_skipped(tmp_path, pack):
    root = tmp_path / "raw/cells"
    pairs(root)
    numbers = np.zeros((H, W), np.uint16)
    Image.fromarray(numbers).save(root / "masks/p1_0.png")
    for words in ((), ("--skip-damaged",)):
        with pytest.raises(DataFileError, match=r"masks/p1_0.png gives uint16, but \S+p0_0.png"):
            pack("cells", root, "--as", "pairs", *words)
    Image.new("L", (W + 2, H)).save(root / "masks/p1_0.png")
    Image.new("RGB", (W + 2, H)).save(root / "images/p1_0.png")
    message = rf"p1_0.png has {W + 2}x{H} pixels, but \S+p0_0.png {W}x{H}.*--size HEIGHT WIDTH"
    with pytest.raises(DataFileError, match=message):
        pack("cells", root, "--as", "pairs", "--skip-damaged")


def test_partners_may_differ_in_ending_and_lie_in_folders_of_patients(tmp_path, pack, capsys):
    root = tmp_path / "raw/cells"
    mask_of = pairs(root)
    for path in sorted((root / "images").iterdir()):
        patient, number = path.stem.split("_")
        for name in ("images", "masks"):
            (root / name / patient).mkdir(exist_ok=True)
        path.rename(root / "images" / patient / f"{number}.png")
        old = root / "masks" / path.name
        Image.open(old).save(root / "masks" / patient / f"{number}_mask.bmp")
        old.unlink()
    (root / "images/._0.png").write_bytes(b"what macOS leaves")
    layout = pack("cells", root, "--as", "pairs", "--group", r"images/(p\d)/")
    assert layout.n_samples == 8
    assert f"{root}/masks: partners are found without _mask, " in capsys.readouterr().out
    for image, numbers in zip(*all_rows(layout, "x", "y"), strict=True):
        np.testing.assert_array_equal(numbers, mask_of[image.tobytes()])


def test_three_folders_give_three_fields(tmp_path, pack):
    root = tmp_path / "raw/cells"
    pairs(root)
    (root / "depth").mkdir()
    for i, path in enumerate(sorted((root / "images").iterdir())):
        values = np.full((H, W), i / 4, np.float32)
        Image.fromarray(values).save(root / "depth" / f"{path.stem}.tif")
    layout = pack("cells", root, "--as", "pairs")
    x, y, depth = all_rows(layout, "x", "y", "depth")
    assert (x.dtype, y.dtype, depth.dtype) == (np.uint8, np.uint8, np.float32)
    assert sorted(depth[:, 0, 0]) == [i / 4 for i in range(8)]
    assert "values" not in layout.arrays["depth"].attrs
    config = yaml.safe_load((tmp_path / "src/myproj/conf/data/cells.yaml").read_text())
    assert config["classes"] == {"y": [0, 255]}
    assert set(config["fields"]) == {"x", "y", "depth"}


def test_a_table_names_files_groups_and_splits(tmp_path, pack, capsys):
    root = tmp_path / "raw"
    mask_of = pairs(root / "scans")
    (root / "scans/images").rename(root / "scans/photo")
    rows = [
        (f"scans/photo/{path.name}", f"scans/masks/{path.name}", path.stem[:2], 50 + i)
        for i, path in enumerate(sorted((root / "scans/photo").iterdir()))
    ]

    def write(rows, head=("image", "mask", "patient", "age")):
        with (root / "pairs.csv").open("w", newline="") as file:
            csv.writer(file).writerows([head, *rows])

    write(rows)
    words = ("cells", root / "pairs.csv", "--as", "pairs")
    layout = pack(*words, "--group", "patient", "--split", "train=0.5,test=0.5")
    x, y = all_rows(layout, "x", "y")
    for image, numbers in zip(x, y, strict=True):
        np.testing.assert_array_equal(numbers, mask_of[image.tobytes()])
    assert {split.n_rows % 2 for split in layout.splits.values()} == {0}  # patients have two
    assert "columns that are not read: age" in capsys.readouterr().out
    parts = ["train", "train", "val", "val"] * 2
    write(
        [(*row[:2], part) for row, part in zip(rows, parts, strict=True)],
        ("image", "mask", "split"),
    )
    assert {name: split.n_rows for name, split in pack(*words).splits.items()} == {
        "train": 4,
        "val": 4,
    }
    write([(*row[:2], "Train") for row in rows], ("image", "mask", "split"))
    with pytest.raises(
        DataFileError, match=r"pairs\.csv: row 1: .* the split 'Train'\. Call it train"
    ):
        pack(*words)
    write([*rows[:6], ("scans/photo/no.png", *rows[6][1:]), (rows[7][0], "", *rows[7][2:])])
    message = (
        r"2 of 8 samples are not complete:\n.*row 7: there is no \S+no.png\n.*row 8 has no mask"
    )
    with pytest.raises(DataFileError, match=message):
        pack(*words)
    assert pack(*words, "--skip-damaged").n_samples == 6


def test_sources_that_do_not_fit_together_are_refused(tmp_path, pack):
    root = tmp_path / "raw"
    pairs(root / "cells")
    pairs(root / "other")
    (root / "other/masks").rename(root / "other/depth")
    (root / "other/masks").mkdir()
    for path in (root / "cells/masks").iterdir():
        (root / "other/masks" / path.name).write_bytes(path.read_bytes())
    with pytest.raises(DataFileError, match=r"other gives the fields y, x, depth|depth, x, y"):
        pack("cells", root / "cells", root / "other", "--as", "pairs")
    shutil.copytree(root / "cells", root / "same/cells")
    layout = pack("cells", root / "cells", root / "same/cells", "--as", "pairs")
    assert layout.n_samples == 16
    (root / "cells/masks/p0_0.bmp").write_bytes(b"")
    with pytest.raises(DataFileError, match=r"p0_0.bmp and \S+p0_0.png have one name"):
        pack("cells", root / "cells", "--as", "pairs")


def test_a_table_without_rows_or_with_one_column_of_files_is_reported(tmp_path, pack):
    (tmp_path / "raw/pairs.csv").write_text("image,mask\n")
    with pytest.raises(DataFileError, match=r"pairs\.csv has no rows"):
        pack("cells", tmp_path / "raw/pairs.csv", "--as", "pairs")
    (tmp_path / "raw/pairs.csv").write_text("image,mask\na.png,7\n")
    with pytest.raises(DataFileError, match=r"has 1 columns of image files, .*image, mask\. Paths"):
        pack("cells", tmp_path / "raw/pairs.csv", "--as", "pairs")


def test_images_with_and_without_many_bits_do_not_mix(tmp_path, pack):
    root = tmp_path / "raw/cells"
    pairs(root)
    (root / "x").mkdir()
    for path in (root / "images").iterdir():
        Image.new("L", (W, H)).save(root / "x" / path.name)
    Image.fromarray(np.zeros((H, W), np.uint16)).save(root / "images/p2_0.png")
    with pytest.raises(DataFileError, match=r"images/p2_0.png gives uint16, but \S+p0_0.png uint8"):
        pack("cells", root, "--as", "pairs")


def test_names_tell_the_source_of_each_row(tmp_path, pack):
    """A new user could not tell which image a predicted mask is of."""
    pairs(tmp_path / "raw/cells")
    layout = pack("cells", tmp_path / "raw/cells", "--as", "pairs", "--names")
    (x,) = all_rows(layout, "x")
    lines = list(csv.DictReader((tmp_path / "data/cells.names.csv").read_text().splitlines()))
    assert [int(line["row"]) for line in lines] == [*range(8)]
    for line, pixels in zip(lines, x, strict=True):
        image = Image.open(tmp_path / "raw/cells" / line["sample"])
        np.testing.assert_array_equal(np.asarray(image).transpose(2, 0, 1), pixels)
    for split, rows in layout.splits.items():
        named = [int(line["row"]) for line in lines if line["split"] == split]
        assert named == layout.map(rows).tolist()


def test_names_have_file_names_of_another_encoding_too(tmp_path, pack):
    """They were a traceback."""
    pairs(tmp_path / "raw/cells")
    for folder in ("images", "masks"):
        old = sorted((tmp_path / "raw/cells" / folder).iterdir())[0]
        os.rename(old, os.fsencode(old.parent) + b"/caf\xe9" + os.fsencode(old.suffix))
    pack("cells", tmp_path / "raw/cells", "--as", "pairs", "--names")
    lines = list(csv.DictReader((tmp_path / "data/cells.names.csv").read_text().splitlines()))
    assert r"images/caf\udce9.png" in {line["sample"] for line in lines}


def test_names_replace_no_file_of_the_user(tmp_path, pack):
    """The raw table of a data set may lie next to it, under its name."""
    rows = "".join(f"{n},{n % 2}\n" for n in range(20))
    table = tmp_path / "data/patients.csv"
    table.parent.mkdir()
    table.write_text("x,y\n" + rows)
    words = ("patients", table, "--as", "table", "--label", "y", "--names")
    pack_command(project_in(tmp_path), [*map(str, words)])
    assert table.read_text() == "x,y\n" + rows
    names = tmp_path / "data/patients.names.csv"
    assert names.read_text().startswith("row,split,sample\n0,")
    (tmp_path / "data/patients.h5").unlink()
    names.write_text("of mine\n")
    with pytest.raises(Refused, match="is there already, and this command did not make it"):
        pack_command(project_in(tmp_path), [*map(str, words)])
    assert names.read_text() == "of mine\n"
    assert not (tmp_path / "data/patients.h5").exists(), "refused before anything is packed"


def test_arrays_have_no_names(tmp_path, pack):
    np.save(tmp_path / "raw/x.npy", np.zeros((4, 2)))
    with pytest.raises(LabError, match="which arrays have not"):
        pack("a", tmp_path / "raw/x.npy", "--as", "arrays", "--names")


@pytest.mark.parametrize("name", ["raw", "raw/cells/images"])
def test_a_folder_beside_the_right_one_is_answered_with_the_right_one(tmp_path, pack, name):
    pairs(tmp_path / "raw/cells")
    right = tmp_path / "raw/cells"
    with pytest.raises(DataFileError, match=f"{right} holds pairs: type {right} in place of"):
        pack("cells", tmp_path / name, "--as", "pairs")


@pytest.mark.parametrize(
    ("folders", "message"),
    [
        ((), "holds no pairs: expected folders such as"),
        (("images",), "holds no pairs"),
        (("left", "right"), "has left, right; expected `images`, and another one"),
        (("images", "imgs"), "has images, imgs; expected `images`, and another one"),
    ],
)
def test_a_folder_of_another_form_is_reported(tmp_path, pack, folders, message):
    (tmp_path / "raw/cells").mkdir()
    for name in folders:
        (tmp_path / "raw/cells" / name).mkdir()
        Image.new("RGB", (4, 4)).save(tmp_path / "raw/cells" / name / "a.png")
    with pytest.raises(DataFileError, match=message):
        pack("cells", tmp_path / "raw/cells", "--as", "pairs")
