# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""The template's machinery is tested in the template. Here: each command is there."""

from importlib import import_module
from pathlib import Path

PACKAGE = next(Path(__file__).parents[2].glob("src/*/lab")).parent.name


def test_every_command_has_a_function():
    cli = import_module(f"{PACKAGE}.lab.cli")
    commands = cli.list_commands()
    assert commands
    for command in commands:
        module = import_module(command.module, cli.__package__)
        assert callable(getattr(module, command.function)), command.words
