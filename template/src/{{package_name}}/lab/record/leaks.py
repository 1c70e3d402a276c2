# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""What must not get into a record: files whose name says secret, texts that look like a token."""

import re
from fnmatch import fnmatch

from ..errors import Refused

SECRET_NAMES = (
    ".env", ".env.*", "*.pem", "*.key", "*.p12", "id_rsa*", "id_ed25519*", "id_ecdsa*",
    ".netrc", "*credentials*", ".huggingface_token",
)  # fmt: skip
EXAMPLE_NAMES = (".env.example", ".env.template", ".env.sample", "*.pub", "*credentials*.py")

# what it is, a literal that every one contains (to scan large files quickly), the whole shape
TOKENS = (
    ("private key", b"PRIVATE KEY-----", rb"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----"),
    ("GitHub token", b"gh", rb"\bgh[pousr]_[A-Za-z0-9]{36}"),
    ("GitHub token", b"github_pat_", rb"\bgithub_pat_[A-Za-z0-9_]{50}"),
    ("GitLab token", b"glpat-", rb"\bglpat-[A-Za-z0-9_-]{20}"),
    ("Hugging Face token", b"hf_", rb"\bhf_[A-Za-z0-9]{30}"),
    ("API key", b"sk-", rb"\bsk-(?:[a-z]+-)*[A-Za-z0-9_-]{32}"),
    ("AWS key", b"AKIA", rb"\bAKIA[0-9A-Z]{16}\b"),
    ("AWS secret", b"SECRET_ACCESS_KEY", rb"SECRET_ACCESS_KEY\W{1,5}[A-Za-z0-9/+]{40}"),
    ("Google key", b"AIza", rb"\bAIza[0-9A-Za-z_-]{35}"),
    ("Slack token", b"xox", rb"\bxox[abprs]-[A-Za-z0-9-]{20}"),
    ("W&B key", b"WANDB_API_KEY", rb"WANDB_API_KEY\W{1,5}[0-9a-f]{40}"),
    ("W&B key", b"wandb_v1_", rb"\bwandb_v1_[A-Za-z0-9_]{40}"),
    ("PyPI token", b"pypi-", rb"\bpypi-[A-Za-z0-9_-]{50}"),
    ("password in a URL", b"://", rb"\bhttps?://[^\s/:@\"'{}<>$]+:[^\s/:@\"'{}<>$]{6,}@"),
)
PATTERNS = [(kind, literal, re.compile(shape)) for kind, literal, shape in TOKENS]


def secret_name(path: str) -> bool:
    """Whether the file's name says that it holds a secret."""
    name = path.rsplit("/", 1)[-1]
    return any(fnmatch(name, p) for p in SECRET_NAMES) and not any(fnmatch(name, p) for p in EXAMPLE_NAMES)


def scan(content: bytes, where: str) -> list[str]:
    """`"where:line looks like a <kind>"` for every token found in `content`; the token itself is never
    repeated."""
    found = []
    for kind, literal, pattern in PATTERNS:
        if literal in content:
            for match in pattern.finditer(content):
                line = content.count(b"\n", 0, match.start()) + 1
                found.append(f"{where}:{line} looks like a {kind}")
    return found


def refuse(found: list[str]) -> None:
    """Stops when `scan` found something.

    Raises:
        Refused: with where it is, and how to insist.
    """
    if found:
        places = "; ".join(found[:5])
        advice = (
            "Move it to .env (never recorded) or out of the project; if it is no secret, insist with --allow."
        )
        raise Refused(f"nothing was recorded: {places}.\n{advice}")


def without_credentials(url: str) -> str:
    """A remote's URL without user, password or token (`git@host:path` keeps its user, which is no secret)."""
    return re.sub(r"^(\w+://)[^/@]*@", r"\1", url)
