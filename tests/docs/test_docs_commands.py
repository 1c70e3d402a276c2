"""Every command that a page names exists, has the options that are typed, and takes the settings."""

import re
from functools import cache

import pytest
from labrig import cli
from labrig.commands import EXAMPLES
from labrig.config.compose import compose
from labrig.project import Project
from page_commands import commands_of, words_of
from projects import PROJECT, ROOT

PAGES = [PROJECT / "README.md", PROJECT / "AGENTS.md", *sorted((ROOT / "docs").glob("*.md"))]
COMPOSING = {"train", "check", "config", "submit", "bench", "sweep", "prefetch", "shell"}
BY_WORDS = {command.words: command for command in cli.list_commands()}
NO_COMMAND = {"reads", "is", "of", "or", "and", "has", "on", "in", "rows", "command", "that", "to"}
# The reader's own trials, data sets and groups become those that a new project has
OF_A_NEW_PROJECT = (
    (r"^trial=.*", "trial=baseline"),
    (r"^data=.*", "data=digits"),
    (r"^site=[A-Z].*", "site=slurm"),
    (r"^after=.*", "seed=0"),  # a run that a job waits for, not a setting
    (r"^on=.*", "seed=0"),  # a host of ~/.config/lab, not a setting
    (r"^profile=[A-Z].*", "profile=none"),
    (r"^model\.(?!width|n_classes).*", "seed=0"),
    (r"^\+augment=.*", "seed=0"),
    (r"^program\..*", "seed=0"),  # an option of the reader's script
    (r"^task=.*", "seed=0"),
    (r"^data\.fold=.*", "seed=0"),
    (r"^data\._target_=\..*", "seed=0"),
    (r"^schedule=step$", "seed=0"),  # the reader's file
)


@cache
def help_of(words):
    """What `lab WORDS --help` prints."""
    from contextlib import redirect_stdout
    from io import StringIO

    printed = StringIO()
    with redirect_stdout(printed), pytest.raises(SystemExit):
        BY_WORDS[words].run(["--help"])
    return printed.getvalue()


def command_named(words):
    """The words of the command, as `runs list`; None for the beginning of a sentence."""
    for n in (2, 1):
        name = " ".join(words[:n])
        if name in BY_WORDS:
            return name
    groups = {command.group for command in BY_WORDS.values()}
    is_known = (
        not words
        or words[0].startswith("-")
        or words[0].isupper()  # of the reader's, or of another plug-in
        or words[0] in {*groups, *NO_COMMAND}
    )
    assert is_known, f"there is no command: lab {' '.join(words)}"
    return None


@cache
def composes(settings):
    compose(Project(PROJECT, "myproj"), list(settings))
    return True


def of_a_new_project(setting):
    key, _, value = setting.partition("=")
    if not re.match(r"[\[{]|\w+\(", value):
        value = value.split(",")[0]
    if re.match(r"(tag|interval|range|choice|int)\(", value):
        return "seed=0"
    setting = f"{key}={value}"
    for pattern, replacement in OF_A_NEW_PROJECT:
        setting = re.sub(pattern, replacement, setting)
    return setting


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_commands_of_a_page_can_be_typed(path, monkeypatch):
    monkeypatch.chdir(PROJECT)
    commands = commands_of(path.name, path.read_text(encoding="utf-8"))
    for typed in commands:
        name = command_named(typed.words)
        if name is None or name not in EXAMPLES:
            continue
        known = help_of(name)
        for option in typed.options:
            assert re.search(rf"(?<![\w-]){re.escape(option)}\b", known), f"{typed.text}: {option}"
        if name in COMPOSING and typed.settings:
            settings = {of_a_new_project(setting) for setting in typed.settings}
            assert composes(tuple(sorted({"trial=baseline", *settings}))), typed.text


def test_commands_are_found():
    commands = [text for path in PAGES for text in commands_of(path.name, path.read_text("utf-8"))]
    assert len(commands) > 150
    assert words_of("lab bench trial=a --lr     the loss over the rate") == (
        "bench",
        "trial=a",
        "--lr",
    )
    assert words_of("lab submit job.gpus=0 -- lab data pack x") == ("submit", "job.gpus=0")
