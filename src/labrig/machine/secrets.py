"""What looks like a secret: file names and tokens that must get into neither git nor a record.

Each freeze searches the changed files for them, so they are few, quick, and seldom wrong: about
0.15 s of CPU time a megabyte.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatch

from ..errors import Refused
from .known_secrets import hide_secrets

SECRET_NAMES = (
    ".env", ".env.*", "*.pem", "*.key", "*.p12", "*.pfx", "*.ppk", "*.jks", "*.kdbx",
    "id_rsa*", "id_ed25519*", "id_ecdsa*", ".netrc", "_netrc", "netrc", ".pgpass", "pgpass.conf",
    "kaggle.json", ".npmrc", ".pypirc", ".s3cfg", ".boto", ".dockercfg", ".htpasswd",
    "secret.*", "secrets.*", ".secrets", "*credentials*", "*service-account*.json",
    ".huggingface_token", "*.token",
)  # fmt: skip
EXAMPLE_NAMES = (
    ".env.example", ".env.template", ".env.sample", "*.pub",
    "*credentials*.py", "secret.py", "secrets.py",
)  # fmt: skip
# What is assigned to a name such as password or api_key, in quotes: no blanks, no placeholder.
NAMED = (
    rb"(?:passw(?:or)?d|passphrase|secret|(?:api|access|secret|private)_?key"
    rb"|(?:api|auth|access|bearer|refresh)_?token)"
)
QUOTED = rb"[\"'](?!\$|<|%|\{|x{3}|your|my_?|change|example|dummy|\*)[^\"'\s]{8,}[\"']"
VARIABLE = rb"[\"']\w*(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|JWT)[\"']"
SECRETS = {
    "a private key": rb"-----BEGIN [A-Z ]*PRIVATE KEY( BLOCK)?-----",
    "an AWS key": rb"\b(AKIA|ASIA)[0-9A-Z]{16}\b",
    "a GitHub token": rb"\b(gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{50})",
    "a GitLab token": rb"\bglpat-[A-Za-z0-9_-]{20}",
    "a Google key": rb"\bAIza[A-Za-z0-9_-]{35}",
    "a Hugging Face token": rb"\bhf_[A-Za-z0-9]{30}",
    "an OpenAI or Anthropic key": rb"\bsk-[A-Za-z0-9_-]{32}",
    "a password in a URL": rb"://[^\s/:@\"'{}<>$]+:[^\s/:@\"'{}<>$]{6,}@",
    "a PyPI token": rb"\bpypi-[A-Za-z0-9_-]{50}",
    "a Slack token": rb"\bxox[abprs]-[A-Za-z0-9-]{20}",
    "a W&B key": rb"(?i)\bwandb[\w.]*key[\"']?\s*[=:]\s*[\"']?([0-9a-f]{40}|wandb_v1_\w{20})",
    "a login with a key": rb"\blogin\(\s*(?:key|token|api_key)\s*=\s*" + QUOTED,
    "a JSON web token": rb"\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}",
    "an AWS secret": rb"(?i)\baws_secret_access_key[\"']?\s*[=:]\s*[\"']?[A-Za-z0-9/+]{40}",
    "a secret in a variable": rb"environ(?:\.setdefault\(|\[)\s*%b\s*(?:\]\s*=|,)\s*%b"
    % (VARIABLE, QUOTED),
    "a password": rb"(?i)%b[\"']?\s*(?::\s*\w+\s*)?[:=]\s*%b" % (NAMED, QUOTED),
}
PATTERNS = {kind: re.compile(pattern) for kind, pattern in SECRETS.items()}
SHORTEST_IN_CODE = 8  # characters of a value of .env that must not stand in code
HOST = re.compile(r"[^/:@]+(:\d+)?(/|$)")  # how an address without a user begins
INSIST = (
    "Move it to .env (never recorded) or out of the project; "
    "if it is no secret, insist with --allow."
)


def has_secret_name(path: str) -> bool:
    """Whether the file's name says that it holds a secret."""
    name = path.rsplit("/", 1)[-1]
    if any(fnmatch(name, pattern) for pattern in EXAMPLE_NAMES):
        return False
    return any(fnmatch(name, pattern) for pattern in SECRET_NAMES)


def find_tokens(content: bytes, where: str, secrets: Mapping[str, str]) -> list[str]:
    """`"where:line looks like <kind>"` for every token in `content`; the token itself is not repeated.

    Args:
        secrets: `known_secrets`, read once for many contents; each is named by its variable.
    """
    places = [
        f"{where}:{line_of(content, match.start())} looks like {kind}"
        for kind, pattern in PATTERNS.items()
        for match in pattern.finditer(content)
    ]
    for value, name in secrets.items():
        start = content.find(value.encode()) if len(value) >= SHORTEST_IN_CODE else -1
        if start >= 0:
            places.append(f"{where}:{line_of(content, start)} holds the value of {name}")
    return places


def line_of(content: bytes, start: int) -> int:
    """The number of the line in which the byte `start` lies."""
    return content.count(b"\n", 0, start) + 1


def hide_tokens(text: str) -> str:
    """A text without known secrets, and with `***` in place of all that looks like a token."""
    content = hide_secrets(text).encode(errors="surrogateescape")
    for pattern in SECRETS.values():
        content = re.sub(pattern + rb"[\w-]*", b"***", content)
    return content.decode(errors="surrogateescape")


def refuse_tokens(places: list[str], advice: str = INSIST) -> None:
    """Stops when `find_tokens` found something.

    Raises:
        Refused: with the places and `advice`.
    """
    if places:
        raise Refused(f"nothing was recorded: {'; '.join(places[:5])}.\n{advice}")


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
