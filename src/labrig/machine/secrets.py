"""What is secret: values that are known, names of files, and tokens, none of which gets into git or a record.

How a token looks says tokens.py. Searching takes about 0.05 s of CPU time a megabyte.
"""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import IO, cast

from ..errors import LabError, Refused
from ..project import this_project
from .text_formats import and_more

# Values that are known to be secret, and are hidden in everything that is written.
#
# They are the values of .env, and those of variables whose name says so. What holds one shows
# `${oc.env:NAME}` in its place, which a configuration reads back.

# The last word of such a name: DB_PASS, but not BYPASS.
SECRET_WORDS = {"AUTH", "CREDS", "JWT", "KEY", "PASS", "PAT", "PW", "PWD"}
# The end of such a name, also of a word that is written together: PGPASSWORD.
SECRET_ENDS = (
    "APIKEY",
    "CREDENTIAL",
    "CREDENTIALS",
    "PASSPHRASE",
    "PASSWD",
    "PASSWORD",
    "SECRET",
    "TOKEN",
)
SHORTEST = 6  # characters, when the name says that it is a secret
SHORTEST_UNNAMED = 8  # of another value of .env
# letters; such a value is a setting, and a part of other texts: offline, optimizer
LONGEST_WORD = 11
LONGEST_NUMBER = 8  # digits; such a value is a setting, too: 100000, 20261122
SHORTEST_LINE = 12  # of a value of several lines, of which each is hidden


@cache
def says_secret(name: str) -> bool:
    """Whether a variable's name says that its value is secret: HF_TOKEN, DB_PASSWORD2, PGPASSWORD."""
    word = name.upper().rpartition("_")[2].rstrip("0123456789")
    return word in SECRET_WORDS or word.endswith(SECRET_ENDS)


def known_secrets() -> dict[str, str]:
    """The variable of each secret value of this process and of its project's .env."""
    dotenv = values_of_dotenv()
    pairs = [*dotenv.items(), *((name, os.environ.get(name, "")) for name in dotenv)]
    # Asked for each text of each run: the values of other variables are not even decoded.
    pairs += [(name, os.environ[name]) for name in os.environ if says_secret(name)]
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


# Lower case; a name is compared without its capitals.
SECRET_NAMES = (
    ".env", ".env.*", "*.env", ".envrc", "*.pem", "*.key", "*.p8", "*.p12", "*.pfx", "*.pkcs12",
    "*.ppk", "*.jks", "*.keystore", "*.keytab", "*.kdb", "*.kdbx", "*.ovpn", "*.tfstate", "*.tfvars",
    "id_rsa*", "id_dsa*", "id_ed25519*", "id_ecdsa*", ".netrc*", "_netrc", "netrc",
    ".pgpass", "pgpass.conf", ".my.cnf", ".mylogin.cnf", "kaggle.json", ".npmrc", ".pypirc",
    ".s3cfg", ".boto", ".databrickscfg", "rclone.conf", ".dockercfg", ".htpasswd", ".vault_pass*",
    "secret.*", "secrets.*", ".secrets", "*.secret", "*.secrets", "*_secret.*", "*client_secret*",
    "*credentials*", "*service-account*.json", "*service_account*.json",
    "password.*", "passwords.*", "*.token", "token", ".token", "*token.txt", "*token.json",
    "stored_tokens", "api_key*", "api-key*", "apikey*", "*_api_key", "*api_key.*",
    ".huggingface_token",
)  # fmt: skip
EXAMPLE_NAMES = (
    "*.example", "*.template", "*.sample", "*.pub", "*.md", "*.py", "*.pyi",
)  # fmt: skip
SHORTEST_IN_CODE = 8  # characters of a value of .env that must not stand in code
SHORTEST_PIECE = 10  # characters of a secret that was cut, which no other text has
CODE = (".py", ".pyi", ".pyx", ".ipynb", ".c", ".cc", ".cpp", ".cu", ".h", ".hpp", ".js", ".ts")
PART_BYTES = 2**22  # of a file, searched at a time
LONGEST_LINE = 2**16  # bytes that may follow a part, up to the end of a line
GZIP = b"\x1f\x8b"
HOST = re.compile(r"[^/:@]+(:\d+)?(/|$)")  # how an address without a user begins
INSIST = (
    "Move it to .env (never recorded) or out of the project; "
    "if it is no secret, insist with --allow."
)


def has_secret_name(path: str) -> bool:
    """Whether the file's name says that it holds a secret."""
    name = path.rsplit("/", 1)[-1].lower()
    if any(fnmatchcase(name, pattern) for pattern in EXAMPLE_NAMES):
        return False
    return any(fnmatchcase(name, pattern) for pattern in SECRET_NAMES)


def find_tokens(content: bytes, where: str, secrets: Mapping[str, str]) -> list[str]:
    """`"where:line looks like <kind>"` for every token in `content`; the token itself is not repeated.

    Args:
        where: a path, or what the content is; in code only values in quotes are searched.
        secrets: `known_secrets`, read once for many contents; each is named by its variable.
    """
    from .tokens import tokens_in  # its patterns take 20 ms, and lists of runs search for nothing

    places = [
        f"{where}:{line_of(content, token.start)} looks like {token.kind}"
        for token in tokens_in(content, is_code=where.endswith(CODE))
    ]
    for value, name in secrets.items():
        for form in encoded_forms(value) if len(value) >= SHORTEST_IN_CODE else ():
            start = content.find(form.encode(errors="surrogateescape"))
            if start >= 0:
                places.append(f"{where}:{line_of(content, start)} holds the value of {name}")
                break
    return places


def find_tokens_in_file(path: Path, where: str, secrets: Mapping[str, str]) -> list[str]:
    """As `find_tokens`, for a file of any size, a part at a time; what gzip packed is unpacked.

    Raises:
        OSError: the file cannot be read.
    """
    places: dict[str, None] = {}
    n_lines = 0
    with open_unpacked(path) as file:
        while part := file.read(PART_BYTES):
            part += file.readline(LONGEST_LINE)  # a token does not go over a line
            found = find_tokens(part, where, secrets)
            places |= dict.fromkeys(shift_lines(place, where, n_lines) for place in found)
            n_lines += part.count(b"\n")
    return list(places)


def open_unpacked(path: Path) -> IO[bytes]:
    """A file to read, through gzip if it is packed by that."""
    with open(path, "rb") as file:
        is_packed = file.read(len(GZIP)) == GZIP
    if not is_packed:
        return open(path, "rb")
    import gzip

    return cast("IO[bytes]", gzip.open(path))


def shift_lines(place: str, where: str, n_lines: int) -> str:
    """A place of `find_tokens`, in a part before which a file has `n_lines` lines."""
    number, _, rest = place[len(where) + 1 :].partition(" ")
    return f"{where}:{int(number) + n_lines} {rest}"


def line_of(content: bytes, start: int) -> int:
    """The number of the line in which the byte `start` lies."""
    return content.count(b"\n", 0, start) + 1


def encoded_forms(value: str) -> list[str]:
    """A secret as it is, and as a part of any text in base64 that holds it."""
    content = value.encode(errors="surrogateescape")
    forms = [value]
    for n_before in range(3):  # three bytes become four characters
        encoded = b64encode(b"\0" * n_before + content).decode().rstrip("=")
        n_whole = (n_before + len(content)) * 8 // 6  # later ones hold bits of what follows
        core = encoded[-(-n_before * 8 // 6) : n_whole]
        if len(core) >= SHORTEST_IN_CODE:
            forms += {core, core.replace("+", "-").replace("/", "_")}
    return forms


def hide_tokens(text: str) -> str:
    """A text without known secrets, also in base64 or cut, and with `***` for what looks like a token.

    For texts that nothing reads back, such as that of an error.
    """
    from .tokens import tokens_in  # see find_tokens

    text = hide_secrets(text)
    for value in known_secrets():
        text = hide_pieces(text, encoded_forms(value))
    content = text.encode(errors="surrogateescape")
    for token in reversed(tokens_in(content)):
        content = content[: token.start] + b"***" + content[token.end :]
    return content.decode(errors="surrogateescape")


def hide_pieces(text: str, values: list[str]) -> str:
    """A text with `***` for every piece of one of the values that is long enough to tell it."""
    places = set()
    for value in values:
        for first in range(len(value) - SHORTEST_PIECE + 1):
            piece = value[first : first + SHORTEST_PIECE]
            start = text.find(piece)
            while start >= 0:
                places.update(range(start, start + SHORTEST_PIECE))
                start = text.find(piece, start + 1)
    shown = (
        "" if n in places and n - 1 in places else "***" if n in places else character
        for n, character in enumerate(text)
    )
    return "".join(shown) if places else text


def refuse_tokens_in(texts: Mapping[str, str], advice: str = INSIST) -> None:
    """Stops when a text that a record would hold has a token.

    Args:
        texts: each by what it is, such as "--why".
    """
    secrets = known_secrets()
    places = []
    for where, text in texts.items():
        places += find_tokens(text.encode(errors="replace"), where, secrets)
    refuse_tokens(places, advice)


def refuse_tokens(places: list[str], advice: str = INSIST) -> None:
    """Stops when `find_tokens` found something."""
    if places:
        raise Refused(f"nothing was recorded: {and_more(places, 5, between='; ')}.\n{advice}")


def without_credentials(url: str) -> str:
    """A remote's URL without user, password, token or query.

    `git@host:path` and `ssh://git@host/path` keep their user, which is no secret.
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    rest = re.split(r"[?#]", rest)[0]
    if "@" not in rest or HOST.match(rest):
        return f"{scheme}://{rest}"
    credentials, _, address = rest.rpartition("@")
    if scheme.endswith("ssh") and ":" not in credentials:
        return f"{scheme}://{rest}"
    return f"{scheme}://{address}"
