"""samples() of a user's class: the file is named, damage left out, and conf/data/NAME.yaml complete."""

import json
import textwrap

import numpy as np
import pytest
import yaml
from hdf5_packing import all_rows, packing  # noqa: F401
from labrig.data import DataFileError, reading
from labrig.errors import LabError
from labrig.hdf5.file.info import info_command
from projects import call, project_in

HEAD = """
import numpy as np
from labrig.data import H5DataModule, map_in_order, reading
"""
READ = """
def read(path):
    values = np.loadtxt(path)
    return {"x": values, "y": int(path.stem[-1])}
"""
CLASSES = {
    "Plain": """
        for path in sorted(source.glob("*.txt")):
            yield read(path)
""",
    "Named": """
        for path in sorted(source.glob("*.txt")):
            with reading(path):
                yield read(path)
""",
    # the table and the next files are open already when a thread fails
    "Ahead": """
        names = (source / "list.csv").read_text().split()
        yield from map_in_order(read, [source / name for name in names])
""",
    "AheadNamed": """
        def named(path):
            with reading(path):
                return read(path)
        found = map_in_order(named, sorted(source.glob("*.txt")))
        yield from (sample for sample in found if sample)
""",
    # no variable holds the path
    "Hidden": """
        texts = ("\\0", "x/" * 10**6, "", b"s1.txt")
        for number in range(8):
            yield {"x": np.loadtxt(source / f"s{number}.txt"), "y": number}
""",
    "Wrong": """
        for path in sorted(source.glob("*.txt")):
            yield np.loadtxt(path)
""",
    "Mistaken": """
        for path in sorted(source.glob("*.txt")):
            with reading(path):
                yield {"x": np.loadtxt(path), "y": no_such_name}
""",
    "OneFile": """
        open("own_spectra.py").close()  # it lies next to the source, and is not of it
        lines = source.read_text().splitlines()
        open("own_spectra.py").close()
        for line in lines:
            yield {"x": np.array([float(word) for word in line.split(",")])}
""",
    # what a sample is called, and its class and sensor, are texts
    "Texts": """
        for i, kind in enumerate(["sit", "run", "Run", "run", "walk", "sit"][: 6 if source.stem == "all" else 5]):
            kind = kind.lower() if source.stem == "lower" else kind
            yield {"x": np.arange(3) + i, "y": kind, "name": f"{source.stem}/{i}", "sensor": f"s{i // 2}"}
""",
    "Mixed": """
        labels = ["run", 0] if source.stem == "all" else [0, "run"]
        for label in labels:
            yield {"x": np.zeros(3), "y": label}
""",
    "Masked": """
        for i in range(9):
            yield {"x": np.ma.masked_array(np.arange(3.0), [False, i > 4, False])}
""",
    "Broken": """
        yield {"x": np.zeros(3), "y": no_such_name}
""",
}


@pytest.fixture
def raw(tmp_path, pack, monkeypatch):
    """raw/s0.txt … s7.txt, of which s3 and s5 are damaged; and the classes that read them."""
    folder = tmp_path / "raw" / "spectra"
    folder.mkdir()
    for i in range(8):
        np.savetxt(folder / f"s{i}.txt", np.arange(3) + i)
    for i in (3, 5):
        (folder / f"s{i}.txt").write_text("1.0\nbroken\n3.0\n")
    (folder / "list.csv").write_text("\n".join(f"s{i}.txt" for i in range(8)))
    text = HEAD + READ
    for name, body in CLASSES.items():
        text += f"\n\nclass {name}(H5DataModule):\n    @classmethod\n    def samples(cls, source):"
        text += textwrap.indent(textwrap.dedent(body), "        ")
    (tmp_path / "own_spectra.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "own_spectra", raising=False)
    monkeypatch.chdir(tmp_path)
    return folder


@pytest.mark.parametrize("name", ["Plain", "Named", "Ahead", "AheadNamed", "Hidden"])
def test_a_damaged_file_is_named(raw, pack, name):
    with pytest.raises(DataFileError) as error:
        pack("spectra", raw, "--as", f"own_spectra.{name}")
    message = str(error.value)
    first = message.splitlines()[0]
    assert "raw/spectra/s3.txt" in first, message
    assert "ValueError: could not convert string 'broken'" in message
    assert "--skip-damaged" in message
    assert ("with reading(path)" in message) == ("Named" not in name)


def test_a_source_that_is_a_file_is_named_and_not_its_neighbours(raw, pack, tmp_path):
    (tmp_path / "table.txt").write_text("1,2\n3,x\n")
    with pytest.raises(DataFileError, match=r"samples\(\) failed at table\.txt:"):
        pack("spectra", tmp_path / "table.txt", "--as", "own_spectra.OneFile")


@pytest.mark.parametrize("name", ["Named", "AheadNamed"])
def test_damaged_files_are_left_out_and_counted(raw, pack, capsys, name):
    layout = pack("spectra", raw, "--as", f"own_spectra.{name}", "--skip-damaged")
    assert sorted(json.loads(layout.attrs["skipped"])) == ["s3.txt", "s5.txt"]
    said = capsys.readouterr().out
    assert "2 samples left out\n    raw/spectra/s3.txt: could not convert string" in said
    x, y = all_rows(layout, "x", "y")
    assert sorted(y.tolist()) == [0, 1, 2, 4, 6, 7]
    np.testing.assert_array_equal(x, y[:, None] + np.arange(3))


def test_a_generator_that_ended_cannot_go_on_and_says_so(raw, pack):
    message = "s3.txt:\n(.*\n)+A generator that failed is over, so --skip-damaged cannot go on"
    with pytest.raises(DataFileError, match=message):
        pack("spectra", raw, "--as", "own_spectra.Plain", "--skip-damaged")


def test_a_sample_of_another_form_is_named_with_its_file(raw, pack):
    for i in (3, 5):
        np.savetxt(raw / f"s{i}.txt", np.arange(6).reshape(3, 2))
    with pytest.raises(
        DataFileError, match=r"sample 3 \(the last file that was opened: \S+s3.txt\)"
    ):
        pack("spectra", raw, "--as", "own_spectra.Plain")
    with pytest.raises(DataFileError, match=r"yielded ndarray \(.*s0.txt\), expected a dict"):
        pack("spectra", raw, "--as", "own_spectra.Wrong")


def test_names_of_classes_samples_and_groups_are_texts(raw, pack, tmp_path):
    (tmp_path / "lower.txt").touch()
    words = ("--as", "own_spectra.Texts", "--names", "--group", "sensor")
    layout = pack("spectra", tmp_path / "lower.txt", *words)
    assert json.loads(layout.fields["y"].attrs["classes"]) == ["run", "sit", "walk"]
    x, y, group = all_rows(layout, "x", "y", "group")
    rows = (tmp_path / "data/spectra.names.csv").read_text().splitlines()[1:]
    names = [row.split(",")[2] for row in rows]
    assert sorted(names) == [f"lower/{i}" for i in range(5)]
    samples = [int(name[-1]) for name in names]
    np.testing.assert_array_equal(x, np.array(samples)[:, None] + np.arange(3))
    assert [["run", "sit", "walk"][label] for label in y] == [
        ["sit", "run", "run", "run", "walk"][sample] for sample in samples
    ]
    same = group[:, None] == group
    np.testing.assert_array_equal(same, np.equal.outer(*[np.array(samples) // 2] * 2))


def test_spellings_of_a_class_are_refused_and_names_do_not_mix_with_numbers(raw, pack, tmp_path):
    (tmp_path / "all.txt").touch()
    with pytest.raises(DataFileError, match="classes that differ in their spelling only: 'Run'"):
        pack("spectra", tmp_path / "all.txt", "--as", "own_spectra.Texts", "--group", "sensor")
    (tmp_path / "number-first.txt").touch()
    for name in ("all", "number-first"):
        with pytest.raises(DataFileError, match="the name of a class as y in 1 of 2 samples"):
            pack("spectra", tmp_path / f"{name}.txt", "--as", "own_spectra.Mixed")


def test_a_mask_is_not_lost(raw, pack):
    with pytest.raises(
        DataFileError, match=r"sample 5.*: 'x' is object .*a mask is not kept, so fill"
    ):
        pack("spectra", raw, "--as", "own_spectra.Masked")


def test_a_mistake_in_the_code_is_no_damage(raw, pack):
    with pytest.raises(NameError, match="no_such_name"):
        pack("spectra", raw, "--as", "own_spectra.Broken", "--skip-damaged")
    with pytest.raises(DataFileError, match=r"NameError: name 'no_such_name' is not defined"):
        pack("spectra", raw, "--as", "own_spectra.Mistaken", "--skip-damaged")


def test_reading_names_the_file_outside_of_a_packing_too(tmp_path):
    with pytest.raises(DataFileError, match=r"a\.txt cannot be read"), reading(tmp_path / "a.txt"):
        (tmp_path / "a.txt").read_text()


OWN = '''

class Spectra(H5DataModule):
    """Spectra that are moved by up to `shift` channels."""

    def __init__(self, smooth, shift: int = 3, **settings):
        super().__init__(**settings)
        self.smooth, self.shift = smooth, shift

    @classmethod
    def samples(cls, source):
        for path in sorted(source.glob("*.txt")):
            yield {"x": np.loadtxt(path).astype(np.float32), "y": np.int64(path.stem[-1])}
'''


@pytest.mark.release
@pytest.mark.slow
def test_the_yaml_of_a_class_is_complete(own_project, tmp_path):
    for i in range(10):
        np.savetxt(tmp_path / f"s{i}.txt", np.arange(64) + i)
    data = own_project / "src/myproj/data.py"
    data.write_text(data.read_text() + OWN)
    refused = call(own_project, "lab", "data", "pack", "spectra", tmp_path, rc=2)
    assert "Or name a class of data.py with samples(): Digits, Spectra" in refused
    said = call(own_project, "lab", "data", "pack", "spectra", tmp_path, "--as", "Spectra")
    assert "conf/data/spectra.yaml: look at it" in said
    file = own_project / "src/myproj/conf/data/spectra.yaml"
    config = yaml.safe_load(file.read_text())
    assert config["_target_"] == "${package}.data.Spectra"
    assert config["seed"] == "${seed}"
    assert config["pack"] == f"lab data pack spectra {tmp_path} --as Spectra"
    assert {"path", "search", "batch_size", "fields", "num_workers", "stage"} <= config.keys()
    assert config["smooth"] == "???"
    assert "# It also takes: shift" in file.read_text()
    checked = call(own_project, "lab", "check", "trial=baseline", "data=spectra", "seed=5", rc=2)
    assert "smooth" in checked
    shown = call(
        own_project, "lab", "config", "trial=baseline", "data=spectra", "data.smooth=2", "seed=5"
    )
    assert yaml.safe_load(shown)["data"]["seed"] == 5
    # without the source its samples() would get None
    again = call(own_project, "lab", "data", "pack", "spectra", rc=2)
    assert f"lab data pack spectra {tmp_path} --as Spectra" in again
    other = call(own_project, "lab", "data", "pack", "spectra", tmp_path, "--as", "Digits", rc=2)
    assert "names myproj.data.Spectra" in other
    file.write_text(file.read_text().replace("seed: ${seed}", "# no seed"))
    for target in ("${package}.data.Spectra", "labrig.data.H5DataModule"):
        file.write_text(f"_target_: {target}\npath: a.h5\n")
        shown = call(own_project, "lab", "config", "trial=baseline", "data=spectra", "seed=5")
        assert yaml.safe_load(shown)["data"]["seed"] == 5


def test_a_mistyped_kind_names_the_nearest(pack, tmp_path):
    with pytest.raises(LabError, match="did you mean: pairs"):
        pack("spectra", tmp_path / "raw", "--as", "pair")
    with pytest.raises(LabError, match=r"myproj\.data\.Nowhere cannot be loaded"):
        pack("spectra", tmp_path / "raw", "--as", "Nowhere")
    with pytest.raises(
        LabError, match=r"--as Spectra is myproj\.data\.Spectra, but .*names myproj"
    ):
        pack("digits", tmp_path / "raw", "--as", "Spectra")


# The programs that made the raw data.

PROGRAM = "# draws spectra\nkey = 'hf_" + "a1B2" * 9 + "'\n" + "x = 1  # é\n" * 9000


def test_programs_of_the_raw_data_are_kept_with_the_file(raw, pack, tmp_path, capsys):
    (raw / "make.py").write_text(PROGRAM)
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/scan.sh").write_text("scan --all\n")
    words = ("--as", "own_spectra.Named", "--skip-damaged", "--made-by", "tools/scan.sh")
    layout = pack("spectra", raw, *words)
    made_by = {program["path"]: program for program in json.loads(layout.attrs["made_by"])}
    assert list(made_by) == ["raw/spectra/make.py", "tools/scan.sh"]
    text = made_by["raw/spectra/make.py"]["text"]
    assert "a1B2" not in text
    assert text.endswith("x = 1  # é\n" * 9000)
    assert made_by["tools/scan.sh"]["text"] == "scan --all\n"
    assert "program kept with it: raw/spectra/make.py" in capsys.readouterr().out


def test_programs_of_the_project_did_not_make_the_raw_data(tmp_path, pack, monkeypatch):
    np.save(tmp_path / "x.npy", np.zeros((5, 2)))  # next to the project's Makefile
    (tmp_path / "other.py").write_text("")
    layout = pack("a", tmp_path / "x.npy", "--as", "arrays")
    assert "made_by" not in layout.attrs
    with pytest.raises(LabError, match=r"names no program that made its raw data\. Pack it with"):
        info_command(project_in(tmp_path), [str(layout.path), "--made-by"])
    (tmp_path / "folder.py").mkdir()
    with pytest.raises(LabError, match=r"folder\.py cannot be read: Is a directory"):
        pack("a", tmp_path / "x.npy", "--as", "arrays", "--made-by", tmp_path / "folder.py")
    with pytest.raises(LabError, match=r"there is no .*no\.py"):
        pack("a", tmp_path / "x.npy", "--as", "arrays", "--made-by", tmp_path / "no.py")
