# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""What must not get into a record: files whose name says secret, texts that look like a token."""

import re
from fnmatch import fnmatch

from ..errors import Refused
from .hooks import SECRETS

SECRET_NAMES = (
    ".env", ".env.*", "*.pem", "*.key", "*.p12", "id_rsa*", "id_ed25519*", "id_ecdsa*",
    ".netrc", "*credentials*", ".huggingface_token",
)  # fmt: skip
EXAMPLE_NAMES = (".env.example", ".env.template", ".env.sample", "*.pub", "*credentials*.py")

MORE = {
    "a PyPI token": rb"\bpypi-[A-Za-z0-9_-]{50}",
    "a password in a URL": rb"://[^\s/:@\"'{}<>$]+:[^\s/:@\"'{}<>$]{6,}@",
}
PATTERNS = {kind: re.compile(shape) for kind, shape in (SECRETS | MORE).items()}


def secret_name(path: str) -> bool:
    """Whether the file's name says that it holds a secret."""
    name = path.rsplit("/", 1)[-1]
    return any(fnmatch(name, p) for p in SECRET_NAMES) and not any(fnmatch(name, p) for p in EXAMPLE_NAMES)


def scan(content: bytes, where: str) -> list[str]:
    """`"where:line looks like <kind>"` for every token in `content`; the token itself is not repeated."""
    newline = b"\n"
    return [
        f"{where}:{content.count(newline, 0, match.start()) + 1} looks like {kind}"
        for kind, pattern in PATTERNS.items()
        for match in pattern.finditer(content)
    ]


def refuse(found: list[str]) -> None:
    """Stops when `scan` found something.

    Raises:
        Refused: with where it is, and how to insist.
    """
    if found:
        places = "; ".join(found[:5])
        advice = "Move it to .env (never recorded) or out of the project; if it is no secret, insist with --allow."
        raise Refused(f"nothing was recorded: {places}.\n{advice}")


def without_credentials(url: str) -> str:
    """A remote's URL without user, password or token (`git@host:path` keeps its user, which is no secret)."""
    return re.sub(r"^(\w+://)[^/@]*@", r"\1", url)
