"""Runs that this library once wrote are read for good: a change of their format needs a bridge.

corpus/format-1.tar.xz holds them as they were written, without the library's own code (a megabyte). It is never
made anew; a later format gets a file of its own beside it.
"""

import json
import tarfile
from pathlib import Path

import pytest
from labrig.errors import Failed
from record_package import call, make_project

CORPUS = Path(__file__).parent / "corpus"
FINISHED = "20261128-063722-85e01b"
FAILED = "20261128-063740-4e3ad1"
RESUMED = "20261128-063811-8aee16"  # trained one epoch more after it had finished
SWEPT = ("20261128-063913-6e07c6", "20261128-063917-836512")
LEFT_OUT = "code.labrig-frozen.gz.bundle"
COMMAND = "20261128-063924-ee0835"
ACCURACY = {FINISHED: 0.2611, RESUMED: 0.95, SWEPT[0]: 0.6, SWEPT[1]: 0.2611}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    project = make_project(tmp_path_factory.mktemp("corpus") / "myproj")
    with tarfile.open(CORPUS / "format-1.tar.xz") as archive:
        archive.extractall(project.root, filter="data")
    return project


def output(project, capsys, words, *args):
    code = call(project, words, *args)
    return code, capsys.readouterr().out


def test_they_are_listed_with_their_numbers(project, capsys):
    code, text = output(project, capsys, "runs list", "--json")
    rows = {row["run_id"]: row for row in json.loads(text)}
    assert code == 0
    assert {run: row["status"] for run, row in rows.items()} == {
        FAILED: "failed",
        **dict.fromkeys([FINISHED, RESUMED, *SWEPT, COMMAND], "finished"),
    }
    found = {run: rows[run]["metrics"]["test/acc"] for run in ACCURACY}
    assert found == pytest.approx(ACCURACY, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("run", [FINISHED, FAILED, RESUMED, *SWEPT, COMMAND])
def test_each_is_shown_and_verified(project, capsys, run):
    code, text = output(project, capsys, "runs show", run)
    assert code == 0
    assert "04fefeae" in text  # the commit of its code
    with pytest.raises(Failed) as error:
        call(project, "runs verify", run)
    wrong = [
        line for line in str(error.value).splitlines()[1:] if " not " in line or "missing" in line
    ]
    wrong = [line for line in wrong if not line.endswith(("none were written", "not recorded"))]
    # Their data was not put into the corpus either: it is found only on the machine that made them.
    wrong = [
        line for line in wrong if not line.lstrip().startswith(f"the data of {run} is missing")
    ]
    assert len(wrong) == 2
    assert all(LEFT_OUT in line for line in wrong), error.value


def test_they_are_compared(project, capsys):
    code, text = output(project, capsys, "runs diff", *SWEPT)
    assert code == 1  # they differ
    assert "optimizer.lr" in text
    code, text = output(project, capsys, "runs table", "--metric", "test/acc")
    assert code == 0
    assert "0.95" in text
