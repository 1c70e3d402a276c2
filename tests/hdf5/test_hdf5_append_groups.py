"""`lab data append` with groups: a patient keeps its split, new ones are divided as by packing."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from labrig.data import DataFileError, H5DataModule, read_layout, write_data_file
from labrig.errors import LabError
from labrig.hdf5.file.checksum import fingerprint
from labrig.hdf5.file.find import data_files_of
from labrig.hdf5.file.groups import group_name, hash_of_group
from labrig.hdf5.file.info import info_command
from labrig.hdf5.file.joined import read_layouts
from test_hdf5_append import append, pack, project_to_pack_in  # noqa: F401
from test_hdf5_pack import images


def patients(name, numbers, first=0):
    """raw/NAME.csv with a row for each of these patients; its value is the number of the row."""
    lines = [f"{first + row},{number}\n" for row, number in enumerate(numbers)]
    Path(f"raw/{name}.csv").write_text("age,patient\n" + "".join(lines))
    return f"raw/{name}.csv"


def splits_of_patients(project, patient_of_age):
    """The splits of each patient, by the values of the samples, whatever the files say of groups."""
    layout = read_layouts(data_files_of(project, "g"))
    ages = layout.map(layout.field("x"))[:, 0].astype(int)
    splits = {}
    for name, rows in layout.splits.items():
        for age in ages[layout.map(rows)].tolist():
            splits.setdefault(patient_of_age[age], set()).add(name)
    return splits


SHARES = ("--split", "train=0.5,val=0.25,test=0.25")


@pytest.fixture
def grouped(project):
    """The data set g with 12 patients of three samples; the patient of each."""
    numbers = [f"p{i % 12}" for i in range(36)]
    pack(project, "g", patients("a", numbers), "--as", "table", "--group", "patient", *SHARES)
    return numbers


def test_a_group_keeps_its_split_and_new_ones_are_divided(project, grouped):
    first = splits_of_patients(project, grouped)
    before = fingerprint(project.root / "data/g.h5")
    second = [f"p{i % 20}" for i in range(11, 31)]
    append(project, "g", patients("b", second, first=100))
    third = [f"p{i}" for i in (30, 3, 19, 31, 7, 30)]
    append(project, "g", patients("c", third, first=200), "--seed", 7)
    patient_of = (
        dict(enumerate(grouped)) | dict(enumerate(second, 100)) | dict(enumerate(third, 200))
    )
    splits = splits_of_patients(project, patient_of)
    assert {len(each) for each in splits.values()} == {1}
    assert {patient: splits[patient] for patient in first} == first
    new = [splits[f"p{i}"].pop() for i in range(12, 20)]
    assert sorted(new) == ["test"] * 2 + ["train"] * 4 + ["val"] * 2
    assert fingerprint(project.root / "data/g/g-0001.h5")["sha256"] == before["sha256"]
    layout = read_layouts(data_files_of(project, "g"))
    ages = layout.map(layout.field("x"))[:, 0].astype(int).tolist()
    number_of = {}  # one number for each patient, in all files
    for age, number in zip(ages, layout.map(layout.field("group")).tolist(), strict=True):
        assert number_of.setdefault(patient_of[age], number) == number
    assert sorted(number_of.values()) == [*range(22)]
    data = [H5DataModule("g/", [str(project.root / "data")], folds=4, fold=k) for k in range(4)]
    held_out = [{patient_of[ages[row]] for row in each.rows("val")} for each in data]
    assert sum(map(len, held_out)) == len(set().union(*held_out)) > 10


def test_one_patient_alone_keeps_its_split(project, grouped):
    """Shares alone would put the only group of a file into train."""
    splits = splits_of_patients(project, grouped)
    patient = next(name for name, each in splits.items() if each == {"test"})
    append(project, "g", patients("b", [patient] * 2, first=50))
    second = read_layout(project.root / "data/g/g-0002.h5")
    assert {name: split.n_rows for name, split in second.splits.items()} == {"test": 2}
    with pytest.raises(DataFileError, match=r"nothing was added: .*g-0002.h5 holds these samples"):
        append(project, "g", "raw/b.csv")


def test_groups_found_in_names_and_those_of_arrays_are_known_again(project):
    root = images(project.root / "raw/pets")
    pack(project, "pets", root, "--as", "images", "--size", 4, 4, "--group", r"image (\d)", *SHARES)
    append(project, "pets", images(project.root / "raw/more", classes=("cat",), each=6))
    layout = read_layouts(data_files_of(project, "pets"))
    assert layout.map(layout.field("group"))[12:].max() == 5
    np.savez("raw/n.npz", x=np.zeros((4, 2)), who=np.array([7.0, 8.0, 9.0, 9.0]))
    pack(project, "n", "raw/n.npz", "--as", "arrays", "--group", "who")
    np.savez("raw/m.npz", x=np.ones((2, 2)), who=np.array([9.0, 10.0]))
    append(project, "n", "raw/m.npz")
    layout = read_layouts(data_files_of(project, "n"))
    numbers, who = (layout.map(layout.field(name)) for name in ("group", "who"))
    assert len({*zip(numbers.tolist(), who.tolist(), strict=True)}) == 4
    assert [group_name(group) for group in (7, 7.0, "7", np.float32(7))] == ["7"] * 4
    assert group_name(7.5) == "7.5"


def test_names_of_groups_are_not_in_the_file(project, grouped, capsys):
    path = project.root / "data/g.h5"
    assert json.loads(read_layout(path).attrs["groups"])[3] == hash_of_group("p3")
    assert b"p11" not in path.read_bytes()
    info_command(project, ["g"])
    assert "  groups:" not in capsys.readouterr().out


@pytest.mark.parametrize("groups", [None, "[]", "{", '["a"]'])
def test_files_that_do_not_say_their_groups_are_refused(project, grouped, groups):
    layout = read_layout(project.root / "data/g.h5")
    fields = {name: layout.map(array).copy() for name, array in layout.fields.items()}
    attrs = {"command": layout.attrs["command"]} | ({} if groups is None else {"groups": groups})
    write_data_file(project.root / "data/g.h5", fields, {"train": range(36)}, **attrs)
    with pytest.raises(LabError, match=r"g keeps groups together, .* may be in another split"):
        append(project, "g", "raw/a.csv")
    assert not (project.root / "data/g").exists()


def test_files_that_number_groups_differently_are_refused(project, grouped):
    append(project, "g", patients("b", ["p0", "q"], first=50))
    pack(project, "h", patients("c", ["q", "p0"]), "--as", "table", "--group", "patient")
    os.rename(project.root / "data/h.h5", project.root / "data/g/g-0003.h5")
    with pytest.raises(LabError, match=r"or number them differently: a group of the new data may"):
        append(project, "g", patients("d", ["p1"], first=60))
    with pytest.raises(LabError, match=r"each numbers by itself.* with lab data append"):
        H5DataModule("g/", [str(project.root / "data")], folds=2, fold=0).rows("val")


def test_a_group_in_two_splits_is_left_to_its_owner(project, capsys):
    Path("raw/splits.csv").write_text("0,train\n1,val\n2,val\n")
    words = ("--as", "table", "--group", "patient")
    pack(project, "g", patients("a", ["p0", "p0", "p1"]), *words, "--split-file", "raw/splits.csv")
    source = patients("b", ["p1", "p0"], first=50)
    with pytest.raises(DataFileError, match=r"1 groups are .* such as p0 in train and val: .*file"):
        append(project, "g", source)
    assert not (project.root / "data/g").exists()
    capsys.readouterr()
    Path("raw/more.csv").write_text("0,train\n1,val\n")
    append(project, "g", source, "--split-file", "raw/more.csv")
    assert "2 of 2 groups are in more than one split, such as p1 in" in capsys.readouterr().err


def test_damaged_groups_add_nothing(project, grouped):
    path = project.root / "data/g.h5"
    layout = read_layout(path)
    with open(path, "r+b") as file:
        file.seek(layout.field("group").offset)
        file.write(bytes([5]))
    with pytest.raises(DataFileError, match=r"group is damaged"):
        append(project, "g", patients("b", ["p0"], first=50))
    assert not (project.root / "data/g").exists()


def test_a_group_that_is_known_by_another_spelling_is_refused_or_joined(project, grouped):
    """Files keep hashes of names only, so that of what all spellings share is kept as well."""
    before = splits_of_patients(project, grouped)
    second = ["P3", "p5 ", "p5", "q1"]
    words = ("g", patients("b", second, first=100))
    with pytest.raises(DataFileError, match=r"in another spelling: 'P3', 'p5 '\..*--join-names"):
        append(project, *words)
    append(project, *words, "--join-names")
    meant = dict(enumerate(grouped)) | dict(enumerate(["p3", "p5", "p5", "q1"], 100))
    after = splits_of_patients(project, meant)
    assert {name: after[name] for name in before} == before
    layout = read_layouts(data_files_of(project, "g"))
    ages = layout.map(layout.field("x"))[:, 0].astype(int).tolist()
    number_of = dict(zip(ages, layout.map(layout.field("group")).tolist(), strict=True))
    assert (number_of[100], number_of[101], number_of[102]) == (
        number_of[3],
        number_of[5],
        number_of[5],
    )
    append(project, "g", patients("c", ["P4", "Q1"], first=200), "--names-as-written")
    layout = read_layouts(data_files_of(project, "g"))
    assert len(np.unique(layout.map(layout.field("group")))) == 15
