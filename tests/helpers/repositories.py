"""Git repositories and files, as the tests make them."""

import os
import subprocess

IDENTITY = {
    f"GIT_{role}_{key}": "t@example.org"
    for role in ("AUTHOR", "COMMITTER")
    for key in ("NAME", "EMAIL")
}
NO_SETTINGS_OF_THIS_MACHINE = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ALLOW_PROTOCOL": "file",
}


def git(folder, *arguments, stdin=None, check=True, **variables):
    """The output of git for a user with an identity and without settings."""
    done = subprocess.run(
        ["git", *map(str, arguments)],
        cwd=folder,
        env=os.environ | IDENTITY | NO_SETTINGS_OF_THIS_MACHINE | variables,
        input=stdin,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 or not check, f"git {arguments}: {done.stderr}"
    return done.stdout.rstrip("\n")


def commit(folder, message):
    """Commits everything in `folder`, and begins a repository where there is none."""
    if not (folder / ".git").exists():
        git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", message)


def write(folder, texts):
    """Writes {path below `folder`: text}."""
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
