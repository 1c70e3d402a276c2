"""Files that packages ship: each is packed as its own library reads it, or refused for a reason that is true."""

import json
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas
import pytest
from hdf5_packing import all_rows, packing  # noqa: F401
from labrig.data import DataFileError
from PIL import Image, ImageOps, UnidentifiedImageError


def shipped(package, *patterns):
    """The files of a package that is installed."""
    spec = find_spec(package)
    root = Path(spec.submodule_search_locations[0]) if spec else Path("gone")
    return sorted({path for pattern in patterns for path in root.glob(pattern)})


def name_of(path):
    return "/".join(path.parts[-2:])


def in_order(tmp_path, layout, *fields):
    """The fields in the order of the source, by the names that packing wrote."""
    lines = (tmp_path / "data/t.names.csv").read_text().splitlines()[1:]
    order = np.argsort([int(line.split(",")[2]) for line in lines])
    return [values[order] for values in all_rows(layout, *fields)]


# Why a table is refused, and whether that is so
TRUE_OF_TABLE = {
    "has gaps": lambda own, text: own.isna().any().any(),
    "names the rows": lambda own, text: (own.nunique() >= 0.9 * len(own)).any(),
    "as a date": lambda own, text: "Jan-1-1995" in text,
    "values, the head line": lambda own, text: (
        len({line.count(",") for line in text.splitlines()}) > 1
    ),
    "--separator": lambda own, text: "," not in text.splitlines()[0],
    "another sign than -": lambda own, text: "\xe2\x80\x93" in text,
}
TABLES = shipped(
    "statsmodels", "datasets/*/*.csv", "datasets/*/src/*.csv", "duration/tests/results/*.csv"
)


@pytest.mark.parametrize("path", [p for p in TABLES if p.stat().st_size < 1e6], ids=name_of)
def test_tables_of_statsmodels(tmp_path, pack, path):
    try:
        layout = pack("t", path, "--as", "table", "--names", "--names-as-written")
    except DataFileError as error:
        try:
            own = pandas.read_csv(path, encoding="latin-1")
        except ValueError:
            own = pandas.DataFrame()
        text = path.read_text(encoding="latin-1")
        reasons = [is_true for words, is_true in TRUE_OF_TABLE.items() if words in str(error)]
        assert reasons, error  # noqa: PT017
        assert all(is_true(own, text) for is_true in reasons), error  # noqa: PT017
        return
    own = pandas.read_csv(path)
    (x,) = in_order(tmp_path, layout, "x")
    attrs = layout.arrays["x"].attrs
    columns, categories = (json.loads(attrs.get(key, "{}")) for key in ("columns", "categories"))
    left_out = set(own.columns) - set(columns)
    assert all(name.startswith("Unnamed: 0") for name in left_out)
    assert len(x) == len(own)
    for i, name in enumerate(columns):
        values = own[name].to_numpy()
        if name in categories:
            assert [categories[name][int(number)] for number in x[:, i]] == list(map(str, values))
        else:
            np.testing.assert_array_equal(x[:, i], values.astype(x.dtype))


PICTURES = shipped("skimage", "data/*.png", "data/*.jpg", "data/*.tif")


@pytest.mark.parametrize("path", PICTURES, ids=name_of)
def test_pictures_of_scikit_image(tmp_path, pack, path):
    (tmp_path / "raw/r/a").mkdir(parents=True)
    (tmp_path / "raw/r/a" / path.name).write_bytes(path.read_bytes())
    bits = path.read_bytes()[24] if path.suffix == ".png" else 8  # of its header
    try:
        image = Image.open(path)
    except UnidentifiedImageError:
        with pytest.raises(DataFileError, match="it is no image"):
            pack("r", tmp_path / "raw/r", "--as", "images")
        return
    with image:
        n_frames = getattr(image, "n_frames", 1)
        shown = ImageOps.exif_transpose(image).convert("RGBA")
    on_white = Image.new("RGBA", shown.size, "white")
    on_white.alpha_composite(shown)
    try:
        layout = pack("r", tmp_path / "raw/r", "--as", "images", "--background", "white")
    except DataFileError as error:
        is_several = n_frames > 1 and f"{n_frames} images" in str(error)
        assert is_several or (bits > 8 and "more than 8 bits" in str(error))  # noqa: PT017
        return
    own = np.asarray(on_white.convert("RGB")).transpose(2, 0, 1)
    np.testing.assert_array_equal(all_rows(layout, "x")[0][0], own)


TRUE_OF_ARRAYS = {
    "a single value": lambda arrays: any(a.ndim == 0 for a in arrays.values()),
    "differ in number of samples": lambda arrays: len({len(a) for a in arrays.values()}) > 1,
    "name has letters": lambda arrays: not all(name.isidentifier() for name in arrays),
    "has type": lambda arrays: any(
        a.dtype.kind not in "biufc" or a.dtype.itemsize > 8 for a in arrays.values()
    ),
    "named values": lambda arrays: any(a.dtype.names for a in arrays.values()),
    "cannot be read": lambda arrays: any(a.dtype.hasobject for a in arrays.values()),
    "no samples": lambda arrays: all(a.size == 0 for a in arrays.values()),
}
ARRAYS = [
    *shipped("scipy", "**/tests/data/*.npz", "**/tests/data/**/*.npy", "stats/*.npz"),
    *shipped("skimage", "data/*.npy", "data/*.npz"),
    *shipped("matplotlib", "mpl-data/sample_data/*.npz"),
]


@pytest.mark.slow
@pytest.mark.parametrize("path", [p for p in ARRAYS if p.stat().st_size < 3e6], ids=name_of)
def test_arrays_of_scipy_and_others(tmp_path, pack, path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded = np.load(path, allow_pickle=True)
        is_npz = path.suffix == ".npz"
        own = {name: loaded[name] for name in loaded.files} if is_npz else {path.stem: loaded}
    try:
        layout = pack("t", path, "--as", "arrays", "--each-number")
    except DataFileError as error:
        reasons = [is_true for words, is_true in TRUE_OF_ARRAYS.items() if words in str(error)]
        assert reasons, error  # noqa: PT017
        assert all(is_true(own) for is_true in reasons), error  # noqa: PT017
        return
    names = [*own]
    rows = {
        tuple(np.concatenate([np.ravel(own[name][i]) for name in names]).tolist())
        for i in range(layout.n_samples)
    }
    packed = all_rows(layout, *names)
    found = {
        tuple(np.concatenate([np.ravel(values[i]) for values in packed]).tolist())
        for i in range(layout.n_samples)
    }
    assert {str(row) for row in rows} == {str(row) for row in found}
    assert [values.dtype for values in packed] == [own[name].dtype for name in names]


def test_there_are_at_least_twenty_of_them():
    if not TABLES or not PICTURES:
        pytest.skip("statsmodels or scikit-image are not installed")
    assert (len(TABLES) >= 20, len(PICTURES) >= 20, len(ARRAYS) >= 10) == (True, True, True)
