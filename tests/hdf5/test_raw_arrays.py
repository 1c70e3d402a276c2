"""What is packed of arrays is what h5py and NumPy read; what HDF5 would fill with zeros is refused."""

import h5py
import numpy as np
import pytest
from hdf5_packing import all_rows, packing  # noqa: F401
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from labrig.data import DataFileError

ONCE = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
SPACE = h5py.h5s.create_simple((40,))


def in_order(layout, values):
    """The packed rows in the order of the source, by the field `row`."""
    x, row = all_rows(layout, "x", "row")
    return x[np.argsort(row)]


def is_packed(pack, path, expected):
    layout = pack("a", path, "--as", "hdf5")
    np.testing.assert_array_equal(in_order(layout, expected), expected)
    return layout.field("x").dtype == np.asarray(expected).dtype.newbyteorder("=")


def test_external_links_give_the_values_of_the_other_file(tmp_path, pack):
    """R07: bytes of another data set were packed."""
    x = np.random.default_rng(0).normal(size=(40, 3))
    with h5py.File(tmp_path / "raw/shard.h5", "w") as shard:
        shard["x"], shard["group/row"] = x, np.arange(40)
    with h5py.File(tmp_path / "raw/a.h5", "w") as file:
        file["x"] = h5py.ExternalLink("shard.h5", "/x")
        file["row"] = h5py.ExternalLink("shard.h5", "/group/row")
        file.create_group("all").create_dataset("filler", data=np.full(5000, 7.0))
        del file["all"]
    assert is_packed(pack, tmp_path / "raw/a.h5", x)


def test_groups_that_are_external_links_are_splits(tmp_path, pack):
    for i, name in enumerate(("train", "val")):
        with h5py.File(tmp_path / f"raw/{name}-shard.h5", "w") as shard:
            shard["x"] = np.arange(20.0) + 100 * i
    with h5py.File(tmp_path / "raw/a.h5", "w") as file:
        file["filler"] = np.full(9000, 3.0)
        for name in ("train", "val"):
            file[name] = h5py.ExternalLink(f"{name}-shard.h5", "/")
        del file["filler"]
    layout = pack("a", tmp_path / "raw/a.h5", "--as", "hdf5", "--each-number")
    (x,) = all_rows(layout, "x")
    assert sorted(x[layout.map(layout.splits["val"])]) == list(np.arange(20.0) + 100)


def virtual(path, names, in_file=("s1.h5",), size=20):
    for name in in_file:
        with h5py.File(path.parent / name, "w") as shard:
            shard["d"] = np.arange(20.0) + 1
    layout = h5py.VirtualLayout((40,), "f8")
    for i, name in enumerate(names):
        layout[20 * i : 20 * i + size] = h5py.VirtualSource(name, "d", (20,))[:size]
    with h5py.File(path, "w") as file:
        file.create_virtual_dataset("x", layout, fillvalue=0)
        file["row"] = np.arange(40)
    return path


def test_a_virtual_data_set_is_whole_or_refused(tmp_path, pack):
    """R08: half of the rows were zeros."""
    path = tmp_path / "raw/v.h5"
    assert is_packed(pack, virtual(path, ("s1.h5", "s1.h5")), np.tile(np.arange(20.0) + 1, 2))
    with pytest.raises(DataFileError, match=r"values in gone\.h5, which is not there"):
        pack("a", virtual(path, ("s1.h5", "gone.h5")), "--as", "hdf5")
    with pytest.raises(DataFileError, match="40 values, of which 30 lie in a file"):
        pack("a", virtual(path, ("s1.h5", "s1.h5"), size=15), "--as", "hdf5")
    virtual(path, ("s1.h5", "s2.h5"), ("s1.h5", "s2.h5"))
    with h5py.File(tmp_path / "raw/s2.h5", "w") as shard:
        shard["other"] = np.zeros(20)
    with pytest.raises(DataFileError, match="which is no data set there"):
        pack("a", path, "--as", "hdf5")
    for part in (slice(0, 20), slice(4, 20)):
        with h5py.File(tmp_path / "raw/s2.h5", "w") as shard:
            shard["d"] = np.arange(12.0)
        space = h5py.VirtualLayout((40 - part.start,), "f8")
        space[:20] = h5py.VirtualSource("s1.h5", "d", (20,))
        space[20:] = h5py.VirtualSource("s2.h5", "d", (20,))[part]
        with h5py.File(path, "w") as file:
            file.create_virtual_dataset("x", space, fillvalue=0)
        with pytest.raises(DataFileError, match=r"takes more values of /d in .*s2\.h5 than it has"):
            pack("a", path, "--as", "hdf5")


def test_external_bytes_are_whole_or_refused(tmp_path, pack, monkeypatch):
    monkeypatch.chdir(tmp_path / "raw")
    x = np.arange(40.0)
    (tmp_path / "raw/raw.bin").write_bytes(x.tobytes())
    with h5py.File("e.h5", "w") as file:
        file.create_dataset("x", (40,), "f8", external=[("raw.bin", 0, 320)])
        file["row"] = np.arange(40)
    assert is_packed(pack, tmp_path / "raw/e.h5", x)
    (tmp_path / "raw/raw.bin").write_bytes(x.tobytes()[:200])
    with pytest.raises(DataFileError, match=r"320 bytes of raw\.bin, which has 200"):
        pack("a", tmp_path / "raw/e.h5", "--as", "hdf5")


def odd_type(kind):
    if kind == "bfloat16":
        of_file = h5py.h5t.IEEE_F32LE.copy()
        of_file.set_fields(15, 7, 8, 0, 7)
        of_file.set_size(2)
        of_file.set_ebias(127)
        return of_file, np.arange(40, dtype=np.float32)
    of_file = h5py.h5t.STD_I16LE.copy()
    of_file.set_precision(12)
    return of_file, (np.arange(40) - 20).astype(np.int16)


@pytest.mark.parametrize("kind", ["bfloat16", "n-bit"])
def test_types_that_numpy_has_not_are_read_by_h5py(tmp_path, pack, kind):
    of_file, values = odd_type(kind)
    with h5py.File(tmp_path / "raw/a.h5", "w") as file:
        h5py.h5d.create(file.id, b"x", of_file, SPACE).write(SPACE, SPACE, values)
        file["row"] = np.arange(40)
    assert is_packed(pack, tmp_path / "raw/a.h5", values)


def test_attributes_that_say_what_the_numbers_mean_are_applied(tmp_path, pack, capsys):
    """R09: counts were packed for values, and -32768 for a missing one."""
    counts = np.arange(-20, 20).astype(np.int16)
    counts[7] = -32768
    with h5py.File(tmp_path / "raw/a.h5", "w") as file:
        file["x"], file["row"] = counts, np.arange(40)
        file["x"].attrs.update({"scale_factor": 0.5, "add_offset": 10.0})
        file["x"].attrs["_FillValue"] = np.int16(-32768)
    layout = pack("a", tmp_path / "raw/a.h5", "--as", "hdf5")
    expected = np.where(counts == -32768, np.nan, counts * 0.5 + 10)
    np.testing.assert_array_equal(in_order(layout, expected), expected)
    out = capsys.readouterr()
    assert "1 are missing, now NaN" in out.out
    assert "1 of 40 samples have NaN or inf in field x" in out.err
    with h5py.File(tmp_path / "raw/a.h5", "r+") as file:
        file["x"].attrs["valid_max"] = np.int16(7)
    with pytest.raises(DataFileError, match="valid_max"):
        pack("a", tmp_path / "raw/a.h5", "--as", "hdf5")


def h5_file(path, x=None, n=40, **attributes):
    with h5py.File(path, "w") as file:
        file["x"], file["row"] = np.arange(120.0).reshape(40, 3) if x is None else x, np.arange(n)
        file["x"].attrs.update(attributes)
    return path


def test_a_fill_value_of_another_type_means_the_value_that_is_stored(tmp_path, pack, capsys):
    """-9999.9 in float64 is no float32: the row stayed as values."""
    x = np.ones((40, 3), np.float32)
    x[4], x[7] = -9999.9, 1e20
    path = h5_file(tmp_path / "raw/a.h5", x, missing_value=-9999.9, _FillValue=1e20)
    values = in_order(pack("a", path, "--as", "hdf5"), x)
    assert np.flatnonzero(np.isnan(values).all(1)).tolist() == [4, 7]
    assert "6 are missing" in capsys.readouterr().out


LARGE = 2**60 + np.arange(120).reshape(40, 3)


@pytest.mark.parametrize(
    ("x", "name", "value", "message"),
    [
        (
            None,
            "scale_factor",
            [0.1, 0.2, 0.3],
            r"/x, float64, has the attribute scale_factor \[0.1",
        ),
        (None, "scale_factor", [], r"attribute scale_factor \[\], which is not read"),
        (None, "add_offset", "abc", "attribute add_offset abc, which is not read here"),
        (LARGE, "_FillValue", -9999.9, "/x, int64, has the attribute _FillValue -9999.9"),
        (LARGE, "add_offset", 5, "/x: float64 does not hold its numbers"),
        (LARGE, "_FillValue", 2**60, "/x: float64 does not hold its numbers"),
        (LARGE * 1j, "scale_factor", 2, "/x, complex128, has the attribute scale_factor 2"),
    ],
)
def test_attributes_that_cannot_be_applied_are_refused(tmp_path, pack, x, name, value, message):
    with pytest.raises(DataFileError, match=message):
        pack("a", h5_file(tmp_path / "raw/a.h5", x, **{name: value}), "--as", "hdf5")


@pytest.mark.parametrize(("chunks", "told"), [((10, 2), "2 of its 8"), (None, "0 of its 1")])
def test_rows_that_nobody_wrote_are_refused(tmp_path, pack, chunks, told):
    """HDF5 reads them as zeros."""
    with h5py.File(tmp_path / "raw/a.h5", "w") as file:
        x = file.create_dataset("x", (40, 3), "f4", chunks=chunks)
        file["row"] = np.arange(40)
        if chunks:
            x[:10] = 1
    with pytest.raises(DataFileError, match=rf"/x: {told} parts were ever .* others as 0\.0: if"):
        pack("a", tmp_path / "raw/a.h5", "--as", "hdf5")
    with h5py.File(tmp_path / "raw/a.h5", "r+") as file:
        file["x"][...] = expected = file["x"][...]
    assert is_packed(pack, tmp_path / "raw/a.h5", expected)


@pytest.mark.parametrize("names", [("s01", "s02"), ("data",), ("Test", "Train")])
def test_groups_that_no_training_reads_are_refused(tmp_path, pack, names):
    with h5py.File(tmp_path / "raw/a.h5", "w") as file:
        for name in names:
            file[f"{name}/x"] = np.ones((40, 3))
    with pytest.raises(
        DataFileError, match=f"holds {', '.join(names)}. Expected .* groups called train, "
    ):
        pack("a", tmp_path / "raw/a.h5", "--as", "hdf5")


def test_the_names_of_an_enumeration_are_told(tmp_path, pack, capsys):
    path = h5_file(tmp_path / "raw/a.h5")
    with h5py.File(path, "r+") as file:
        animal = h5py.enum_dtype({"cat": 3, "dog": 7}, "i1")
        file.create_dataset("y", data=[3, 7] * 20, dtype=animal)
    assert pack("a", path, "--as", "hdf5").field("y").dtype == np.int8
    assert "/y: the names of its numbers are left out: {'cat': 3, 'dog': 7}" in (
        capsys.readouterr().out
    )


def test_a_link_to_nothing_is_said_to_be_one(tmp_path, pack):
    path = h5_file(tmp_path / "raw/a.h5")
    with h5py.File(path, "r+") as file:
        file["z"] = h5py.SoftLink("/gone")
    with pytest.raises(DataFileError, match="remove links to nothing"):
        pack("a", path, "--as", "hdf5")


def test_matlabs_arrays_have_the_axes_that_matlab_shows(tmp_path, pack):
    x = np.arange(120.0).reshape(40, 3)
    with h5py.File(tmp_path / "raw/a.mat", "w", userblock_size=512) as file:
        file["x"], file["row"] = x.T, np.arange(40.0)[None]
        for name in ("x", "row"):
            file[name].attrs["MATLAB_class"] = np.bytes_("double")
    assert is_packed(pack, tmp_path / "raw/a.mat", x)
    with h5py.File(tmp_path / "raw/a.mat", "r+") as file:
        file["x"].attrs["MATLAB_class"] = np.bytes_("char")
    with pytest.raises(DataFileError, match="MATLAB char"):
        pack("a", tmp_path / "raw/a.mat", "--as", "hdf5")


TYPES = [
    f"{order}{kind}" for kind in ("i1", "u2", "i4", "i8", "f2", "f4", "f8", "c8") for order in "<>"
]
STORED = [
    {},
    {"chunks": True},
    {"chunks": True, "compression": "gzip", "shuffle": True, "fletcher32": True},
    {"maxshape": (None, None)},
    {"chunks": True, "scaleoffset": True},
]


@pytest.mark.release
@pytest.mark.slow
@ONCE
@given(
    dtype=st.sampled_from([*TYPES, "?"]),
    how=st.sampled_from(STORED),
    user_block=st.sampled_from([0, 512]),
    libver=st.sampled_from(["earliest", "latest"]),
    linked=st.booleans(),
    seed=st.integers(0, 99),
)
def test_any_hdf5_file(tmp_path_factory, pack, dtype, how, user_block, libver, linked, seed):
    folder = tmp_path_factory.mktemp("raw")
    rng = np.random.default_rng(seed)
    x = (rng.normal(size=(17, 3)) * 100).astype(np.dtype(dtype).newbyteorder("="))
    how = {**how}
    if how.pop("scaleoffset", False) and np.dtype(dtype).kind in "iu":
        how["scaleoffset"] = 0
    holder = folder / "shard.h5" if linked else folder / "a.h5"
    with h5py.File(holder, "w", userblock_size=user_block, libver=libver) as file:
        file.create_dataset("x", data=x.astype(dtype), dtype=dtype, **how)
        file["row"] = np.arange(17)
    if linked:
        with h5py.File(folder / "a.h5", "w") as file:
            file["x"], file["row"] = (h5py.ExternalLink("shard.h5", f"/{n}") for n in ("x", "row"))
    with h5py.File(holder) as file:
        expected = file["x"][...]
    assert is_packed(pack, folder / "a.h5", expected)


@pytest.mark.release
@pytest.mark.slow
@ONCE
@given(
    dtype=st.sampled_from([*TYPES, "?"]),
    fortran=st.booleans(),
    how=st.sampled_from(["npy", "npz", "compressed"]),
    seed=st.integers(0, 99),
)
def test_any_numpy_file(tmp_path_factory, pack, dtype, fortran, how, seed):
    folder = tmp_path_factory.mktemp("raw")
    x = (np.random.default_rng(seed).normal(size=(17, 2, 3)) * 50).astype(dtype)
    x = np.asarray(x, order="F" if fortran else "C")
    if how == "npy":
        np.save(folder / "x.npy", x)
        np.save(folder / "row.npy", np.arange(17))
        sources = [folder / "x.npy", folder / "row.npy"]
    else:
        save = np.savez if how == "npz" else np.savez_compressed
        save(folder / "a.npz", x=x, row=np.arange(17))
        sources = [folder / "a.npz"]
    layout = pack("a", *sources, "--as", "arrays")
    assert in_order(layout, x).tobytes() == x.astype(x.dtype.newbyteorder("=")).tobytes()


def test_one_list_of_numbers_may_be_a_sequence_so_it_is_asked(tmp_path, pack):
    """D3: each token became a sample, in random order."""
    np.save(tmp_path / "raw/tokens.npy", np.arange(50, dtype=np.uint8))
    with pytest.raises(
        DataFileError, match=r"one list of 50 numbers.*lose its order.*--each-number"
    ):
        pack("a", tmp_path / "raw/tokens.npy", "--as", "arrays")
    assert pack("a", tmp_path / "raw/tokens.npy", "--as", "arrays", "--each-number").n_samples == 50


def test_groups_of_samples_that_have_a_split_are_kept_and_told(tmp_path, pack, capsys):
    """--group was dropped without a word."""
    with h5py.File(tmp_path / "raw/a.h5", "w") as file:
        for name, patients in (("train", [1, 2, 3, 3]), ("val", [3, 4, 4, 4])):
            file[f"{name}/x"], file[f"{name}/g"] = np.random.default_rng(0).random((4, 3)), patients
    layout = pack("a", tmp_path / "raw/a.h5", "--as", "hdf5", "--group", "g")
    g, group = all_rows(layout, "g", "group")
    np.testing.assert_array_equal(g[:, None] == g, group[:, None] == group)
    assert "1 of 4 groups are in more than one split, such as 3 in" in capsys.readouterr().err
