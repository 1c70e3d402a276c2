"""Records that a colleague can write: nothing in them makes a reader hang or open its own files."""

import os
import shutil
import signal

import pytest
from labrig.errors import LabError
from labrig.record.files.atomic import is_below, open_file, read_bytes
from labrig.record.files.json_lines import lines_from_end, parts_of, raw_lines
from labrig.report.figures import find_pictures
from record_package import call, make_project, train

PRIVATE = b"private bytes of the reader"


@pytest.fixture
def project(tmp_path):
    return make_project(tmp_path / "myproj")


def files_below(directory):
    return sorted(path for path in directory.rglob("*") if path.is_file())


def replaced_by_pipes(run):
    """The run once for each of its files, with a pipe in its place."""
    for path in files_below(run.dir):
        kept = path.with_name(f"{path.name}.kept")
        path.rename(kept)
        os.mkfifo(path)
        yield path
        path.unlink()
        kept.rename(path)


@pytest.mark.release
@pytest.mark.slow
def test_no_command_hangs_on_a_pipe(project):
    """N-f-fifo."""
    run = train(project, metrics={"val/acc": 0.5})
    call(project, "runs note", run.id, "text")
    signal.alarm(100)
    broken = []
    for path in replaced_by_pipes(run):
        for words in (["runs list"], ["runs show", run.id], ["runs verify", run.id]):
            try:
                call(project, *words)
            except LabError:
                pass  # a message, as of a damaged record
            except Exception as error:
                broken.append(f"{words} with {path}: {error!r}")
    signal.alarm(0)
    assert broken == []


def test_lines_are_read_of_files_only(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "own").write_bytes(PRIVATE)
    (tmp_path / "link").symlink_to(tmp_path / "own")
    for name in ("pipe", "link", "none", "."):
        assert list(parts_of(tmp_path / name)) == []
        assert list(lines_from_end(tmp_path / name)) in ([], [b""])
        assert raw_lines(tmp_path / name) == [b""]


def test_a_directory_on_the_way_may_not_lead_out(tmp_path):
    run, own = tmp_path / "run", tmp_path / "own"
    run.mkdir()
    own.mkdir()
    (own / "a.png").write_bytes(PRIVATE)
    (run / "pictures").symlink_to(own)
    assert not is_below(run / "pictures/a.png", run)
    with pytest.raises(OSError, match="leads out"):
        open_file(run / "pictures/a.png", below=run)
    (run / "b").write_bytes(PRIVATE)
    assert read_bytes(run / "b", 99, below=run) == PRIVATE
    with pytest.raises(OSError, match="more than 9 bytes"):
        read_bytes(run / "b", 9, below=run)


@pytest.mark.parametrize("link", ["pictures/a.png", "pictures"])
def test_a_picture_behind_a_link_is_not_shown(tmp_path, link):
    """N-f-picturelink."""
    run, own = tmp_path / "run", tmp_path / "own"
    for folder in (run / "pictures", own):
        folder.mkdir(parents=True)
        (folder / "good.png").write_bytes(b"good")
    (own / "a.png").write_bytes(PRIVATE)
    if link == "pictures":
        shutil.rmtree(run / link)
        (run / link).symlink_to(own)
    else:
        (run / link).symlink_to(own / "a.png")
    pictures = find_pictures([run], tmp_path)
    assert [picture.facts.name for picture in pictures] == (
        ["good.png"] if link != "pictures" else []
    )
