"""Values that are known to be secret, and are hidden in everything that is written.

They are the values of .env, and those of variables whose name says so. What holds one shows
`${oc.env:NAME}` in its place, which a configuration reads back.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from ..errors import LabError
from ..project import this_project

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
SHORTEST = 6  # characters, when the name says that it is a secret
SHORTEST_UNNAMED = 8  # of another value of .env
LONGEST_WORD = (
    11  # letters; such a value is a setting, and a part of other texts: offline, optimizer
)
LONGEST_NUMBER = 8  # digits; such a value is a setting, too: 100000, 20261122
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
        file = this_project().root / ".env"
    except LabError:
        return {}
    if not file.is_file():
        return {}
    from dotenv import dotenv_values  # commands that only read records have no need of it

    return {name: value for name, value in dotenv_values(file).items() if value}


def is_secret(name: str, value: str) -> bool:
    """Whether the value of a variable, whose name says so or which .env sets, is to be hidden.

    A path, an ordinary word and a small number are not: hiding them would spoil other settings.
    """
    is_word = value.isalpha() and len(value) <= LONGEST_WORD
    is_number = value.isdigit() and len(value) <= LONGEST_NUMBER
    shortest = SHORTEST if says_secret(name) else SHORTEST_UNNAMED
    return not (len(value) < shortest or is_word or is_number or os.path.exists(value))


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
