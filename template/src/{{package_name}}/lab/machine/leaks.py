# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""What must not get into git or into a record: secrets, large files, trials that import-linter cannot see.

The hook `files` of .pre-commit-config.yaml runs this file with the names of what is committed. Standard library only.
"""

from __future__ import annotations

import re
import sys
from fnmatch import fnmatch
from pathlib import Path

LARGEST_MB = 1.0
SECRET_NAMES = (
    ".env", ".env.*", "*.pem", "*.key", "*.p12", "id_rsa*", "id_ed25519*", "id_ecdsa*",
    ".netrc", "*credentials*", ".huggingface_token",
)  # fmt: skip
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


def secret_name(path: str) -> bool:
    """Whether the file's name says that it holds a secret."""
    name = path.rsplit("/", 1)[-1]
    return any(fnmatch(name, p) for p in SECRET_NAMES) and not any(fnmatch(name, p) for p in EXAMPLE_NAMES)


def scan(content: bytes, where: str) -> list[str]:
    """`"where:line looks like <kind>"` for every token in `content`; the token itself is not repeated."""
    newline = b"\n"
    return [
        f"{where}:{content.count(newline, 0, match.start()) + 1} looks like {kind}"
        for kind, pattern in SECRETS.items()
        for match in re.finditer(pattern, content)
    ]


def refuse(found: list[str]) -> None:
    """Stops when `scan` found something.

    Raises:
        Refused: with where it is, and how to insist.
    """
    from ..errors import Refused  # here, since the hook runs this file outside its package

    if found:
        advice = "Move it to .env (never recorded) or out of the project; if it is no secret, insist with --allow."
        raise Refused(f"nothing was recorded: {'; '.join(found[:5])}.\n{advice}")


def without_credentials(url: str) -> str:
    """A remote's URL without user, password or token (`git@host:path` keeps its user, which is no secret)."""
    return re.sub(r"^(\w+://)[^/@]*@", r"\1", url)


def problems(path: Path) -> list[str]:
    """Why `path` should not be committed, and what to do instead."""
    size_MB = path.stat().st_size / 1e6
    if size_MB > LARGEST_MB:
        return [
            f"{path}: {size_MB:.1f} MB; at most {LARGEST_MB:g} MB are committed. "
            "Data belongs in data/, results in runs/: git ignores both"
        ]
    found = scan(path.read_bytes(), str(path))
    return [f"{hit}. Take it out (settings of the environment belong in .env, which git ignores)" for hit in found]


def invisible_trials(source: Path) -> list[Path]:
    """Trials below `source`/trials that import-linter does not see, since they have no __init__.py."""
    folders = {path.parent for path in (source / "trials").rglob("*.py")}
    return sorted(folder for folder in folders if not (folder / "__init__.py").exists())


def main(names: list[str]) -> int:
    found = [line for name in names if Path(name).is_file() for line in problems(Path(name))]
    found += [
        f"{trial}: import-linter cannot see this trial. Type: touch {trial}/__init__.py"
        for trial in invisible_trials(Path(__file__).resolve().parents[2])
    ]
    if found:
        print(*found, "If it is meant, name the file in `exclude:` of this hook in .pre-commit-config.yaml.", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
