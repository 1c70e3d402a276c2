"""Masks and images that a reader would take for others are refused."""

import struct

import pytest
from hdf5_packing import packing  # noqa: F401
from hdf5_pairs import H, W, of_palette, pairs
from labrig.data import DataFileError
from PIL import Image


def jpeg(path):
    image = Image.open(path).convert("L")
    image.save(path, "JPEG")


def coloured(path):
    image = Image.open(path)
    Image.new("RGB", image.size, (200, 0, 100)).save(path)


def test_a_number_that_has_another_colour_in_another_mask_is_refused(tmp_path, pack):
    """A program that leaves colours out, or sorts them, gives the classes other numbers."""
    root = tmp_path / "raw/cells"
    pairs(root, values=(0, 1), mask=of_palette)
    mask = Image.new("P", (W, H), 0)
    mask.putpalette([0, 200, 0, 200, 0, 0])
    mask.save(root / "masks/p1_0.png")
    message = (
        r"p1_0.png: the number 0 has the colour \[0, 200, 0\], but \[200, 0, 0\] in \S+p0_0.png"
    )
    for words in ((), ("--skip-damaged",)):
        with pytest.raises(DataFileError, match=message):
            pack("cells", root, "--as", "pairs", *words)
    mask.putpalette([200, 0, 0])  # the second colour is not there
    mask.save(root / "masks/p1_0.png")
    assert pack("cells", root, "--as", "pairs").n_samples == 8
    Image.new("L", (W, H), 1).save(root / "masks/p1_0.png")  # one number in grey
    with pytest.raises(
        DataFileError, match=r"the number 1 has the colour \[1, 1, 1\], but \[0, 200"
    ):
        pack("cells", root, "--as", "pairs")


def test_masks_as_gif_are_not_numbered_by_what_lies_in_each(tmp_path, pack):
    root = tmp_path / "raw/cells"
    pairs(root)
    for path in sorted((root / "masks").iterdir()):
        is_last = path.stem == "p3_1"
        mask = Image.new("L", (W, H), 255) if is_last else Image.open(path).convert("L")
        mask.save(path.with_suffix(".gif"))
        path.unlink()
    with pytest.raises(DataFileError, match=r"p3_1.gif: the number 0 has the colour \[255, 255"):
        pack("cells", root, "--as", "pairs")


@pytest.mark.parametrize("orientation", [0, 1])
def test_an_orientation_that_turns_nothing_is_none(tmp_path, pack, orientation):
    pairs(tmp_path / "raw/cells")
    path = tmp_path / "raw/cells/images/p1_0.png"
    exif = Image.Exif()
    exif[274] = orientation
    Image.open(path).copy().save(path, exif=exif)
    assert pack("cells", tmp_path / "raw/cells", "--as", "pairs").n_samples == 8


def two_pages(path):
    image = Image.open(path).copy()
    image.save(path, "TIFF", save_all=True, append_images=[image])


def turned(path):
    image = Image.open(path).copy()
    exif = image.getexif()
    exif[274] = 6
    image.save(path, exif=exif)


def cut_out(path):
    image = Image.new("RGBA", Image.open(path).size)
    image.putpixel((0, 0), (0, 0, 0, 255))
    image.save(path)


def of_white_with_alpha(path):
    Image.merge("LA", [Image.new("L", (W, H), 255), Image.open(path).convert("L")]).save(path)


def in_tiff(path, mode, tag, value):
    """A TIFF that says something else of its values than Pillow, which writes no such."""
    Image.open(path).convert(mode).save(path, "TIFF", tiffinfo={339: 1})
    content = bytearray(path.read_bytes())
    place = content.index(struct.pack("<HHI", tag, 3, 1))
    content[place + 8 : place + 10] = struct.pack("<H", value)
    path.write_bytes(content)


def of_signed_bytes(path):
    in_tiff(path, "L", 339, 2)


def of_unsigned_32_bits(path):
    in_tiff(path, "I", 339, 1)


def of_four_colours(path):
    in_tiff(path, "RGBA", 338, 0)


@pytest.mark.parametrize(
    ("folder", "edit", "message"),
    [
        ("masks", cut_out, r"its channels \(RGBA\) differ, a mask has one number"),
        ("masks", of_white_with_alpha, r"its channels \(LA\) differ"),
        ("masks", of_signed_bytes, "its values are 8 bits with a sign"),
        ("masks", of_unsigned_32_bits, "its values are 32 bits without a sign"),
        ("images", of_four_colours, "it has 4 channels, of which Pillow reads 3"),
        ("masks", jpeg, "it is a JPEG, which changes the values of a mask"),
        ("masks", two_pages, "it holds 2 images, expected one"),
        ("masks", coloured, r"its channels \(RGB\) differ, a mask has one number for each pixel"),
        ("images", turned, r"its pixels are stored turned \(EXIF orientation 6\)"),
    ],
)
def test_a_file_that_would_be_read_otherwise_than_meant_is_refused(
    tmp_path, pack, folder, edit, message
):
    pairs(tmp_path / "raw/cells")
    edit(tmp_path / "raw/cells" / folder / "p1_0.png")
    with pytest.raises(DataFileError, match=rf"{folder}/p1_0.png cannot be read: {message}"):
        pack("cells", tmp_path / "raw/cells", "--as", "pairs")
