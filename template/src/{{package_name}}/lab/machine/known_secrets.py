# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Values that are known to be secret, and are hidden in everything that is written.

They are the values of .env, and those of variables whose name says so. What holds one shows
`${oc.env:NAME}` in its place, which a configuration reads back.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from ..errors import LabError
from ..project import Project

SECRET_WORDS = {
    "APIKEY",
    "CREDENTIAL",
    "CREDENTIALS",
    "JWT",
    "KEY",
    "PASSPHRASE",
    "PASSWD",
    "PASSWORD",
    "PAT",
    "SECRET",
    "TOKEN",
}
SHORTEST = 4  # characters, when the name says that it is a secret
# A shorter value of .env, such as offline or cuda, is a setting, and a part of other words.
SHORTEST_UNNAMED = 8
SHORTEST_LINE = 12  # of a value of several lines, of which each is hidden


def says_secret(name: str) -> bool:
    """Whether a variable's name says that its value is secret: HF_TOKEN, DB_PASSWORD2."""
    return name.upper().rpartition("_")[2].rstrip("0123456789") in SECRET_WORDS


def known_secrets() -> dict[str, str]:
    """The variable of each secret value of this process and of its project's .env."""
    dotenv = values_of_dotenv()
    pairs = [*dotenv.items(), *((name, os.environ.get(name, "")) for name in dotenv)]
    pairs += [(name, value) for name, value in os.environ.items() if says_secret(name)]
    return {value: name for name, value in pairs if is_secret(name, value)}


def values_of_dotenv() -> dict[str, str]:
    """What the project's .env sets; empty outside of a project."""
    try:
        file = Project.find().root / ".env"
    except LabError:
        return {}
    if not file.is_file():
        return {}
    from dotenv import dotenv_values  # commands that only read records have no need of it

    return {name: value for name, value in dotenv_values(file).items() if value}


def is_secret(name: str, value: str) -> bool:
    """Whether the value of a variable, whose name says so or which .env sets, is to be hidden.

    A path is not: hiding it would spoil many others. Neither is an ordinary word.
    """
    if says_secret(name):
        return len(value) >= SHORTEST and not os.path.exists(value)
    is_word = value.isalpha() and len(value) < 2 * SHORTEST_UNNAMED
    return len(value) >= SHORTEST_UNNAMED and not is_word and not os.path.exists(value)


def secret_hider() -> Callable[[str], str]:
    """A function that replaces every known secret in a text."""
    names: dict[str, str] = {}
    for value, name in known_secrets().items():
        parts = [value, *(line for line in value.splitlines() if len(line) >= SHORTEST_LINE)]
        names |= dict.fromkeys(parts, name)
    if not names:
        return lambda text: text
    longest_first = sorted(names, key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, longest_first)))
    return lambda text: pattern.sub(lambda match: f"${{oc.env:{names[match[0]]}}}", text)


def hide_secrets(text: str) -> str:
    """A text with `${oc.env:NAME}` in place of every known secret."""
    return secret_hider()(text)
