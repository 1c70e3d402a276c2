"""The command line for everyone: help with an example, 80 columns, colours and letters that the terminal has."""

import io
import re
import shlex
import sys

import pytest
from labrig import cli
from labrig.commands import EXAMPLES
from labrig.machine.text_formats import lacks_letters, shows_colours
from projects import PROJECT

COMMANDS = {command.words: command for command in cli.list_commands()}
STARTED_BY_OTHERS = {"", "rank", "sweep worker"}


def test_every_command_has_an_example_and_every_example_a_command():
    assert set(EXAMPLES) == set(COMMANDS) - STARTED_BY_OTHERS


@pytest.mark.parametrize("words", sorted(EXAMPLES))
def test_help_has_an_example_and_80_columns(words, monkeypatch, capsys):
    monkeypatch.chdir(PROJECT)
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as ended:
        cli.main([*words.split(), "--help"])
    assert ended.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80, [line for line in lines if len(line) > 80]
    assert lines[-1] == f"example: {EXAMPLES[words]}"
    assert lines[0].startswith(f"usage: lab {words}")
    example = shlex.split(EXAMPLES[words])
    assert example[1 : 1 + len(words.split())] == words.split()
    for option in re.findall(r"(?<= )--?[a-z][\w-]*", EXAMPLES[words]):
        assert any(re.search(rf"{re.escape(option)}\b", line) for line in lines[:-1]), option


def test_help_is_given_next_to_settings(monkeypatch, capsys):
    """audit-2, defect 6: lab doctor --nodes took --help for a setting."""
    monkeypatch.chdir(PROJECT)
    with pytest.raises(SystemExit) as ended:
        cli.main(["doctor", "--nodes", "site=slurm", "--help"])
    assert ended.value.code == 0
    assert "usage: lab doctor" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["runs", "list", "--colums", "size"], "there is no --colums; did you mean: --columns"),
        (["runs", "list", "--limit", "4"], "there is no --limit"),
        (["runs", "table", "--met", "acc"], "there is no --met; did you mean: --metric"),
        (["data", "pack", "a", "--size", "3"], "argument --size: expected 2 arguments"),
        (["runs", "show"], "the following arguments are required: RUN"),
    ],
)
def test_a_mistake_is_answered_in_one_line(monkeypatch, capsys, words, message):
    """It was under 16 lines of usage, and named nothing near."""
    monkeypatch.chdir(PROJECT)
    assert cli.main(words) == 2
    answer = f"lab: {message}. See: lab {words[0]} {words[1]} --help\n"
    assert capsys.readouterr() == ("", answer)


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, True),
        ({"NO_COLOR": "1"}, False),
        ({"NO_COLOR": ""}, True),
        ({"TERM": "dumb"}, False),
    ],
)
def test_colours_are_for_terminals_that_want_them(monkeypatch, variables, expected):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert shows_colours(Terminal()) is expected
    assert not shows_colours(io.StringIO())


@pytest.mark.parametrize(
    ("encoding", "locale", "lacks"),
    [
        ("utf-8", "C.UTF-8", False),
        ("utf-8", "fr_FR.UTF-8", False),
        ("utf-8", "C", True),
        ("utf-8", "POSIX", True),
        ("ascii", "C.UTF-8", True),
        ("iso8859-1", "fr_FR", True),
    ],
)
def test_letters_that_a_terminal_lacks(monkeypatch, encoding, locale, lacks):
    monkeypatch.setenv("LC_ALL", locale)
    terminal = Terminal()
    terminal.encoding = encoding
    assert lacks_letters(terminal) is lacks
    if locale == "C":
        terminal.isatty = lambda: False
        assert not lacks_letters(terminal), "a file gets every letter"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_signs_are_written_in_ascii(monkeypatch, encoding):
    written = io.BytesIO()
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, io.TextIOWrapper(written, encoding, write_through=True))
    cli.allow_any_letter()
    print("0.95 ± 0.01 → 3 × 2 … 手")
    print("├─ wide", file=sys.stderr)
    plain_or_latin = {
        "ascii": "0.95 +- 0.01 -> 3 x 2 ... ?\n|- wide\n",
        "latin-1": "0.95 ± 0.01 -> 3 × 2 ... ?\n|- wide\n",
    }
    assert written.getvalue().decode(encoding) == plain_or_latin[encoding]
