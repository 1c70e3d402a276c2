"""What a run learnt is not measured on data whose numbers mean something else."""

from types import SimpleNamespace

import pytest
from hdf5_packing import packing  # noqa: F401
from labrig.data import H5DataModule, fingerprint
from labrig.errors import LabError
from labrig.training.trained.predictable import require_same_meaning

HEAD = "smoker,age,outcome"


@pytest.fixture
def packed(tmp_path, pack):
    """Packs a table of 30 patients, with a text, a number and these outcomes in turn."""

    def pack_table(name, outcomes, head=HEAD, smokers=("no", "yes")):
        rows = [f"{smokers[n % 2]},{n},{outcomes[n % len(outcomes)]}" for n in range(30)]
        source = tmp_path / "raw" / f"{name}.csv"
        source.write_text("\n".join([head, *rows]) + "\n")
        file = pack(name, source, "--as", "table", "--label", "outcome").path
        return file.rename(tmp_path / file.name)  # the directory of `pack` holds one file

    return pack_table


def require(own, other):
    """As `lab eval` does for a run that read `own`."""
    directory = own.parent
    paths = SimpleNamespace(data=[directory])
    project = SimpleNamespace(root=directory, source=directory, paths=paths)
    run = SimpleNamespace(id="the run", data=dict(fingerprint(own)), config={})
    require_same_meaning(project, run, H5DataModule(other.name, str(directory)))


def test_the_same_names_pass_also_with_one_class_less_at_the_end(packed, capsys):
    own = packed("own", ["healthy", "mild", "severe"])
    require(own, own)
    require(own, packed("twin", ["severe", "mild", "healthy"]))
    require(own, packed("fewer", ["healthy", "mild"]))
    require(own, packed("numbers", [0, 1, 2]))
    assert "nobody compared" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"outcomes": ["healthy", "severe"]}, "class 1 is 'severe' in other.h5, and 'mild' in own"),
        ({"head": "age,smoker,outcome"}, "column 0 is 'age' in other.h5, and 'smoker' in own"),
        ({"smokers": ("yes", "perhaps")}, "text of column 'smoker' 0 is 'perhaps' in other.h5"),
    ],
)
def test_other_meanings_are_refused(packed, changed, said):
    outcomes = ["healthy", "mild", "severe"]
    own = packed("own", outcomes)
    other = packed("other", **{"outcomes": outcomes} | changed)
    with pytest.raises(LabError, match=said):
        require(own, other)


def test_data_that_are_gone_are_not_compared_in_silence(packed, capsys):
    own = packed("own", ["healthy", "mild"])
    other = packed("other", ["healthy", "severe"])
    recorded = own.rename(own.with_suffix(".gone"))
    run = SimpleNamespace(id="the run", data={"path": str(own), "size_bytes": 1}, config={})
    run.data["sha256"] = fingerprint(recorded)["sha256"]
    paths = SimpleNamespace(data=[own.parent])
    project = SimpleNamespace(root=own.parent, source=own.parent, paths=paths)
    require_same_meaning(project, run, H5DataModule(other.name, str(own.parent)))
    assert "nobody compared the names" in capsys.readouterr().err
