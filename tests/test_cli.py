"""The command `lab`: its first screen, and what it says to words that it does not know."""

import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from labrig import cli
from labrig.project import say_once


def test_help_fits_one_screen_and_names_every_command(capsys):
    assert cli.main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    names = set(re.findall(r"[a-z-]+", "\n".join(lines)))
    for command in cli.list_commands():
        assert set(command.words.split()) <= names, command.words
    titles = [line.split()[1] for line in lines if re.match("lab [a-z]+ ", line)]
    assert titles == list(cli.FIRST)
    assert len([line for line in lines if line.startswith("lab runs")]) == 1, (
        "a group is named once"
    )


@pytest.mark.parametrize(
    ("words", "exit_code", "message"),
    [
        (["trian"], 2, "did you mean: train"),
        (["list"], 2, "did you mean: lab runs list"),
        (["plot"], 2, "did you mean: lab runs plot"),
        (["test"], 2, "did you mean: lab eval"),
        (["compare"], 2, "did you mean: lab runs compare"),
        (["status"], 2, "did you mean: lab queue"),
        (["runs"], 2, "lab runs list"),
        (["runs", "--help"], 0, "lab runs list"),
        (["runs", "lst"], 2, "did you mean: list"),
        (["site", "shwo"], 2, "did you mean: show"),
    ],
)
def test_words_that_are_no_command(capsys, words, exit_code, message):
    assert cli.main(words) == exit_code
    output = capsys.readouterr()
    assert message in output.out + output.err


def test_an_interrupted_command_exits_with_130(monkeypatch, capsys):
    def interrupt(command, args):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.Command, "run", interrupt)
    assert cli.main(["train"]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_a_python_without_the_packages_is_named_with_what_to_type(monkeypatch, capsys):
    def importing(argv):
        raise ModuleNotFoundError("No module named 'hydra.core'", name="hydra.core")

    monkeypatch.setattr(cli, "run_command", importing)
    assert cli.main(["train"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"lab: this Python has no package 'hydra': {sys.executable}"
    assert ". .venv/bin/activate" in lines[1]


def test_a_module_that_the_project_lacks_is_no_missing_package(monkeypatch):
    def importing(argv):
        raise ModuleNotFoundError("No module named 'myproj.gone'", name="myproj.gone")

    monkeypatch.setattr(cli, "run_command", importing)
    with pytest.raises(ModuleNotFoundError):
        cli.main(["train"])


def test_a_line_that_concerns_a_process_is_printed_once(capsys):
    for _ in range(2):
        say_once("the disk of this test is full")
    assert capsys.readouterr().err == "lab: the disk of this test is full\n"


def test_the_light_library_says_what_a_name_of_training_needs():
    """As after `pip install labrig`: no packages that train."""
    code = """
import sys
sys.modules["lightning"] = None
try:
    from labrig import H5DataModule
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert 'pip install "labrig[train]"' in done.stdout


def test_a_reader_that_leaves_is_no_error():
    """`lab --help | head -1`, where the rest of the output is written when Python ends."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "labrig", "--help"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, timeout=120)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_an_output_without_room_is_not_the_disk_of_the_project(monkeypatch, unbuffered):
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    command = [sys.executable, "-m", "labrig", "--help"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 1
    assert done.stderr == (
        "lab: no space left for the output, or for a file that was not named. See: df -h, df -i\n"
    )


def test_a_full_table_of_processes_is_one_line(monkeypatch, capsys):
    def refuses(words):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(cli, "run_command", refuses)
    assert cli.main(["runs", "list"]) == 1
    said = capsys.readouterr().err
    assert "no further process may be started" in said
    assert said.count("\n") == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_a_closed_directory_of_somebody_else_is_one_line():
    with TemporaryDirectory() as open_folder:  # that of pytest is closed
        Path(open_folder).chmod(0o755)
        closed = Path(open_folder) / "home"
        closed.mkdir(mode=0o700)
        done = made_by_nobody(closed / "a/runs")
    assert done.stdout == f"no permission for {closed}/a/runs; {closed} belongs to root\n", (
        done.stderr
    )


def made_by_nobody(place):
    """What is said when another user makes a directory."""
    program = (
        "import os, pathlib\nfrom labrig.machine.disk import explain_disk_error\n"
        f"os.seteuid(65534)\nplace = pathlib.Path({str(place)!r})\n"
        "try:\n    place.mkdir(parents=True)\nexcept OSError as error:\n    print(explain_disk_error(error))"
    )
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
