"""What a command writes where the user says never replaces a file that it did not make."""

import pytest
from labrig.bench.bench import build_parser, check_options
from labrig.config.completion import completion_command
from labrig.errors import Refused
from labrig.machine.own_output import END_BYTES, MARK, refuse_to_overwrite
from labrig.project import Project
from labrig.report.report import report_command
from projects import copy_of, work_on
from record_package import PACKAGE, call, make_project, train

MODEL = "class Model: ...\n"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A project with a run. Shared: copy it."""
    project = make_project(tmp_path_factory.mktemp("overwriting") / "project")
    train(project)
    return project


@pytest.fixture
def own(trained, tmp_path):
    return work_on(Project(copy_of(trained.root, tmp_path / "project"), PACKAGE))


def report(own, file):
    report_command(own, ["-o", str(file)])


def export(own, file):
    call(own, "runs export", "-o", file)


def plot(own, file):
    pytest.importorskip("matplotlib")
    call(own, "runs plot", "@last", "-o", file)


WRITERS = (
    (report, "page.html"),
    (export, "table.csv"),
    (export, "table.tex"),
    (export, "table.md"),
    (plot, "curves.png"),
    (plot, "curves.svg"),
    (plot, "curves.pdf"),
)
IDS = [name for _, name in WRITERS]


@pytest.mark.parametrize(("write", "name"), WRITERS, ids=IDS)
def test_a_file_of_the_user_stays(own, tmp_path, write, name):
    """g-overwrite-report: lab report -o src/proj/trials/baseline/model.py, and every other -o."""
    file = tmp_path / name
    file.write_text(MODEL)
    with pytest.raises(Refused, match="is there already, and this command did not make it"):
        write(own, file)
    assert file.read_text() == MODEL


@pytest.mark.parametrize(("write", "name"), WRITERS, ids=IDS)
def test_a_file_that_the_command_made_is_written_again(own, tmp_path, write, name):
    file = tmp_path / name
    file.touch()  # as mktemp leaves it
    write(own, file)
    first = file.stat().st_ino, file.stat().st_mtime_ns
    write(own, file)
    assert (file.stat().st_ino, file.stat().st_mtime_ns) != first
    assert file.stat().st_size > 0


def test_any_ending_is_protected(own):
    """g-overwrite-report, as it was typed."""
    file = own.root / "src/myproj/trials/baseline/model.py"
    before = file.read_text()
    with pytest.raises(Refused):
        report(own, file)
    assert file.read_text() == before


def test_a_table_of_the_user_with_such_a_column_stays(own, tmp_path):
    """A sibling: the mark of a CSV file is its last column, with ids of runs."""
    file = tmp_path / "cricket.csv"
    file.write_text("player,runs\nann,52\n")
    with pytest.raises(Refused):
        export(own, file)
    assert file.read_text() == "player,runs\nann,52\n"


@pytest.mark.parametrize("name", ["README.md", "thesis.tex"])
def test_a_text_with_a_copied_table_stays(own, tmp_path, name):
    """A sibling: the mark of the table is in it."""
    file = tmp_path / name
    export(own, file)
    text = f"My thesis\n\n{file.read_text()}\nThe end\n"
    file.write_text(text)
    with pytest.raises(Refused):
        export(own, file)
    assert file.read_text() == text


def test_only_files_of_predictions_are_replaced_by_predictions(tmp_path):
    import numpy as np
    from labrig.data import write_data_file
    from labrig.training.trained.predict import is_prediction

    x = {"x": np.zeros((1 << 19, 1), np.float64)}
    mine = write_data_file(tmp_path / "mine.h5", x, {}, source="raw")
    predictions = write_data_file(tmp_path / "p.h5", x, {}, run="r", checkpoint_sha256="0" * 64)
    assert predictions.stat().st_size > 2 * END_BYTES
    with pytest.raises(Refused):
        refuse_to_overwrite(mine, is_prediction)
    refuse_to_overwrite(predictions, is_prediction)


def test_what_is_no_file_or_cannot_be_read_stays(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(Refused):
        refuse_to_overwrite(folder)
    mine = tmp_path / "mine"
    mine.write_text(MARK)
    refuse_to_overwrite(mine)
    assert mine.read_text() == MARK


def test_the_completion_of_another_program_called_lab_stays(own, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    file = tmp_path / "bash-completion/completions/lab"
    completion_command(own, ["bash"])
    completion_command(own, ["bash"])
    file.write_text("# of GitLab's lab\n")
    with pytest.raises(Refused):
        completion_command(own, ["bash"])
    assert file.read_text() == "# of GitLab's lab\n"


def test_a_picture_of_the_user_is_no_plot_of_bench(tmp_path):
    pytest.importorskip("matplotlib")
    file = tmp_path / "photo.png"
    file.write_bytes(b"\x89PNG a photo")
    with pytest.raises(Refused):
        check_options(build_parser().read(["trial=baseline", "--plot", str(file)]))
    assert file.read_bytes() == b"\x89PNG a photo"
