"""What is packed of images is what Pillow shows, or it is refused."""

import io
import struct
import zlib
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import sklearn.datasets
from hdf5_packing import all_rows, packing  # noqa: F401
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from labrig.data import DataFileError, H5Dataset
from PIL import Image, ImageOps

CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}  # of each kind of PNG


def png(bits, kind, values_HWC):
    """A PNG, bit by bit: Pillow writes no 16-bit colours."""

    def chunk(name, data):
        crc = zlib.crc32(name + data)
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", crc)

    height, width = values_HWC.shape[:2]
    rows = b""
    for row in values_HWC.reshape(height, -1):
        text = "".join(format(int(value), f"0{bits}b") for value in row)
        text += "0" * (-len(text) % 8)
        rows += b"\0" + bytes(int(text[i : i + 8], 2) for i in range(0, len(text), 8))
    head = struct.pack(">IIBBBBB", width, height, bits, kind, 0, 0, 0)
    content = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + content


def folder_with(root, *contents, suffix=".png"):
    (root / "a").mkdir(parents=True, exist_ok=True)
    for i, content in enumerate(contents):
        path = root / "a" / f"{i}{suffix}"
        path.write_bytes(content) if isinstance(content, bytes) else content(path)
    return root


def packed(layout):
    (x,) = all_rows(layout, "x")
    return x.transpose(0, 2, 3, 1)


@pytest.mark.parametrize("kind", ["images", "encoded"])
@pytest.mark.parametrize("colours", [0, 2, 4, 6])
def test_more_than_8_bits_are_refused_in_colour_too(tmp_path, pack, kind, colours):
    """R10, and R11 in grey: 0…1023 became 0…3."""
    values = np.arange(12 * CHANNELS[colours]).reshape(3, 4, -1) * 20
    root = folder_with(tmp_path / "raw/r", png(16, colours, values))
    with pytest.raises(DataFileError, match="more than 8 bits"):
        pack("r", root, "--as", kind)


def test_pairs_refuse_colours_of_16_bits_too(tmp_path, pack):
    values = np.arange(36).reshape(3, 4, 3) * 20
    folder_with(tmp_path / "raw/r/images", png(16, 2, values))
    folder_with(tmp_path / "raw/r/masks", png(8, 0, values[..., :1] % 2))
    with pytest.raises(DataFileError, match="colours have 16 bits"):
        pack("r", tmp_path / "raw/r", "--as", "pairs")


@pytest.mark.parametrize("bits", [1, 2, 4, 8, 16])
def test_the_values_of_a_mask_are_those_of_its_file_whatever_their_bits(tmp_path, pack, bits):
    values = np.arange(12).reshape(3, 4, 1) % 2**bits
    folder_with(tmp_path / "raw/r/images", png(8, 2, np.zeros((3, 4, 3), int)))
    folder_with(tmp_path / "raw/r/masks", png(bits, 0, values))
    (y,) = all_rows(pack("r", tmp_path / "raw/r", "--as", "pairs"), "y")
    np.testing.assert_array_equal(y[0], values[..., 0])
    assert len(y[0])


def with_hidden_red(path):
    pixels = np.zeros((4, 6, 4), np.uint8)
    pixels[..., 0] = 255  # red, of which nobody sees anything
    pixels[1:3, 1:3] = (0, 0, 0, 255)
    pixels[0, 0, 3] = 51
    Image.fromarray(pixels).save(path)


@pytest.mark.parametrize("kind", ["images", "encoded"])
def test_transparency_is_refused_or_shows_a_stated_colour(tmp_path, pack, kind):
    """R12: the background was the hidden red."""
    root = folder_with(tmp_path / "raw/r", with_hidden_red)
    with pytest.raises(DataFileError, match=r"transparent in places.*--background white"):
        pack("r", root, "--as", kind)
    layout = pack("r", root, "--as", kind, "--background", "#00ff00")
    if kind == "images":
        image = packed(layout)[0]
    else:
        tensor, _ = H5Dataset(layout, "train", shapes={"x": (4, 6)})[0]
        image = tensor.numpy().transpose(1, 2, 0)
    assert image[3, 5].tolist() == [0, 255, 0]
    assert image[1, 1].tolist() == [0, 0, 0]
    assert image[0, 0].tolist() == [51, 204, 0]


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_an_alpha_channel_without_transparency_changes_nothing(tmp_path, pack, mode):
    image = Image.new("RGBA", (6, 4), (120, 120, 120, 255))
    image = image.convert(mode)
    root = folder_with(tmp_path / "raw/r", image.save)
    np.testing.assert_array_equal(
        packed(pack("r", root, "--as", "images"))[0], image.convert("RGB")
    )
    assert len(packed(pack("r", root, "--as", "images"))[0])


@pytest.mark.slow
@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", [".jpg", ".png", ".tif", ".webp"])
def test_images_are_turned_as_they_are_shown(tmp_path, pack, orientation, suffix):
    """R13: the white half of a phone's photograph was on top."""
    pixels = np.zeros((16, 24, 3), np.uint8)
    pixels[:8] = 255
    pixels[:, :4, 0] = 99
    image, exif = Image.fromarray(pixels), Image.Exif()
    exif[274] = orientation

    def save(path):
        image.save(path, exif=exif)

    root = folder_with(tmp_path / "raw/r", save, suffix=suffix)
    with Image.open(root / f"a/0{suffix}") as opened:
        opened.load()
        shown = np.asarray(ImageOps.exif_transpose(opened).convert("RGB"))
    np.testing.assert_array_equal(packed(pack("r", root, "--as", "images"))[0], shown)
    encoded = pack("r", root, "--as", "encoded")
    tensor, _ = H5Dataset(encoded, "train", shapes={"x": shown.shape[:2]})[0]
    np.testing.assert_array_equal(tensor.numpy().transpose(1, 2, 0), shown)
    small = packed(pack("r", root, "--as", "images", "--size", *(n // 2 for n in shown.shape[:2])))
    assert np.abs(small[0].astype(int) - shown[::2, ::2]).mean() < 12


@pytest.mark.parametrize("suffix", [".png", ".tif", ".webp"])
@pytest.mark.parametrize("kind", ["images", "encoded", "pairs"])
def test_several_images_in_a_file_are_refused_in_every_kind(tmp_path, pack, suffix, kind):
    frames = [Image.new("RGB", (4, 4), (i * 60, 0, 0)) for i in range(3)]

    def save(path):
        frames[0].save(path, save_all=True, append_images=frames[1:])

    if kind == "pairs":
        folder_with(tmp_path / "raw/r/masks", Image.new("L", (4, 4)).save)
        folder_with(tmp_path / "raw/r/images", save, suffix=suffix)
    else:
        folder_with(tmp_path / "raw/r", save, suffix=suffix)
    with pytest.raises(DataFileError, match="it holds 3 images, expected one"):
        pack("r", tmp_path / "raw/r", "--as", kind)


def test_what_is_no_image_is_named_by_its_first_bytes(tmp_path, pack):
    root = folder_with(tmp_path / "raw/r", b"\0\5\x16\7 of macOS")
    with pytest.raises(
        DataFileError,
        match=r"0\.png cannot be read: it is no image that Pillow reads, it begins with",
    ):
        pack("r", root, "--as", "images")


@pytest.mark.parametrize("kind", ["images", "encoded"])
def test_a_tiff_of_channels_that_pillow_drops_is_refused(tmp_path, pack, kind):
    content = io.BytesIO()
    Image.new("RGBA", (6, 4), "red").save(content, "TIFF")
    extra = struct.pack("<HHIH", 338, 3, 1, 2)  # the fourth is alpha
    changed = content.getvalue().replace(extra, struct.pack("<HHIH", 338, 3, 1, 0))
    root = folder_with(tmp_path / "raw/r", changed, suffix=".tif")
    with pytest.raises(DataFileError, match=r"4 channels, of which Pillow reads 3.*data\.py"):
        pack("r", root, "--as", kind)


@pytest.mark.slow
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@example(mode="L", suffix=".tif", orientation=5, n=1, seed=0)
@given(
    mode=st.sampled_from(["1", "L", "P", "RGB", "RGBA", "LA", "CMYK", "I;16", "I", "F", "YCbCr"]),
    suffix=st.sampled_from([".png", ".jpg", ".bmp", ".webp", ".tif"]),
    orientation=st.integers(1, 8),
    n=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_any_image(tmp_path_factory, pack, mode, suffix, orientation, n, seed):
    """What is packed is what Pillow shows; otherwise it is refused for something that is lost."""
    values = np.random.default_rng(seed).integers(0, 256, (n, 5, 7, 4), dtype=np.uint8)
    whole = [Image.fromarray(value).convert("RGBA") for value in values]
    frames = [
        Image.fromarray(value[..., 0].astype(np.uint16) * 200)
        if mode == "I;16"
        else image.convert("L").convert(mode)
        if mode in ("I", "F", "LA")
        else image.convert("RGB").convert(mode)
        if mode in ("CMYK", "YCbCr")
        else image.convert(mode)
        for value, image in zip(values, whole, strict=True)
    ]
    exif = Image.Exif()
    exif[274] = orientation
    root = tmp_path_factory.mktemp("raw")
    (root / "a").mkdir()
    path = root / f"a/0{suffix}"
    more = {"save_all": True, "append_images": frames[1:]} if n > 1 else {}
    try:
        frames[0].save(path, exif=exif, **more)
    except (OSError, ValueError, KeyError, TypeError, struct.error):
        return  # this format has no such images
    # not by its path: Pillow 12 and 13 map a TIFF of grey with its sides already exchanged
    with Image.open(io.BytesIO(path.read_bytes())) as image:
        image.load()
        loses = {
            "images, expected one": getattr(image, "n_frames", 1) > 1,
            "more than 8 bits": image.mode.startswith(("I", "F")),
            "transparent in places": image.has_transparency_data
            and image.convert("RGBA").getextrema()[3][0] < 255,
        }
        shown = ImageOps.exif_transpose(image)
        try:
            layout = pack("r", root, "--as", "images")
        except DataFileError as error:
            reasons = [words for words, is_lost in loses.items() if is_lost]
            assert any(words in str(error) for words in reasons), error  # noqa: PT017
        else:
            assert not any(loses.values())
            np.testing.assert_array_equal(packed(layout)[0], np.asarray(shown.convert("RGB")))


PICTURES = [
    *sorted((Path(sklearn.datasets.__file__).parent / "images").glob("*.jpg")),
    *sorted((Path(matplotlib.__file__).parent / "mpl-data").rglob("*.png"))[:12],
    *sorted((Path(matplotlib.__file__).parent / "mpl-data/sample_data").glob("*.jpg")),
]


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.name)
def test_pictures_that_packages_ship(tmp_path, pack, path):
    root = folder_with(tmp_path / "raw/r", path.read_bytes(), suffix=path.suffix)
    with Image.open(path) as image:
        on_white = Image.new("RGBA", image.size, "white")
        on_white.alpha_composite(image.convert("RGBA"))
        layout = pack("r", root, "--as", "images", "--background", "white")
        np.testing.assert_array_equal(packed(layout)[0], np.asarray(on_white.convert("RGB")))
    assert layout.n_samples == 1
