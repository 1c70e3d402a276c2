# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""What looks like a secret: file names and tokens that must get into neither git nor a record."""

from __future__ import annotations

import re
from fnmatch import fnmatch

from ..errors import Refused

SECRET_NAMES = (
    ".env", ".env.*", "*.pem", "*.key", "*.p12", "id_rsa*", "id_ed25519*", "id_ecdsa*",
    ".netrc", "*credentials*", ".huggingface_token",
)  # fmt: skip
SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "JWT")  # in names of variables
EXAMPLE_NAMES = (".env.example", ".env.template", ".env.sample", "*.pub", "*credentials*.py")
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
}


def has_secret_name(path: str) -> bool:
    """Whether the file's name says that it holds a secret."""
    name = path.rsplit("/", 1)[-1]
    if any(fnmatch(name, pattern) for pattern in EXAMPLE_NAMES):
        return False
    return any(fnmatch(name, pattern) for pattern in SECRET_NAMES)


def has_secret_variable_name(name: str) -> bool:
    """Whether an environment variable's name says that its value is a secret."""
    return any(word in name.upper() for word in SECRET_WORDS)


def find_tokens(content: bytes, where: str) -> list[str]:
    """`"where:line looks like <kind>"` for every token in `content`; the token itself is not repeated."""
    places = []
    for kind, pattern in SECRETS.items():
        for match in re.finditer(pattern, content):
            line = content.count(b"\n", 0, match.start()) + 1
            places.append(f"{where}:{line} looks like {kind}")
    return places


def refuse_tokens(places: list[str]) -> None:
    """Stops when `find_tokens` found something.

    Raises:
        Refused: with the places, and how to insist.
    """
    if places:
        raise Refused(
            f"nothing was recorded: {'; '.join(places[:5])}.\n"
            "Move it to .env (never recorded) or out of the project; "
            "if it is no secret, insist with --allow."
        )


def without_credentials(url: str) -> str:
    """A remote's URL without user, password or token (`git@host:path` keeps its user, which is no secret)."""
    return re.sub(r"^(\w+://)[^/@]*@", r"\1", url)
