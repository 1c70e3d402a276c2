"""Repositories for the tests of the record."""

import os
import pickle
import subprocess
from pathlib import Path

NOBODY = 65534


def git(folder, *arguments, stdin=None, check=True, **variables):
    """What git prints, as the user would call it: with an identity, without this machine's settings."""
    who = {
        f"GIT_{role}_{key}": "t@x.org"
        for role in ("AUTHOR", "COMMITTER")
        for key in ("NAME", "EMAIL")
    }
    own = {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ALLOW_PROTOCOL": "file",
    }
    done = subprocess.run(
        ["git", *map(str, arguments)],
        cwd=folder,
        env=os.environ | who | own | variables,
        input=stdin,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 or not check, f"git {arguments}: {done.stderr}"
    return done.stdout.rstrip("\n")


def repository(folder, **files):
    """A repository with one commit of some files and of `files` (name with __ for a dot: text)."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    write(folder, {"a.txt": "one\n", "src/b.py": "print(1)\n", ".gitignore": "ignored/\n*.log\n"})
    write(folder, {name.replace("__", "."): text for name, text in files.items()})
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def tree(folder, commit):
    """{path: content} of a commit; "120000 target" for links, "160000 commit" for submodules."""
    found = {}
    for line in git(folder, "ls-tree", "-r", "-z", commit).split("\0"):
        if line:
            about, path = line.split("\t", 1)
            mode, _, blob = about.split()
            special = mode in ("120000", "160000")
            content = blob if mode == "160000" else git(folder, "cat-file", "blob", blob)
            found[path] = f"{mode} {content}" if special else content
    return found


def state(folder):
    """Everything of a user's that a snapshot must leave alone."""
    git_dir = Path(git(folder, "rev-parse", "--absolute-git-dir"))
    common = (folder / git(folder, "rev-parse", "--git-common-dir")).resolve()
    index = git_dir / "index"
    files = {
        str(path.relative_to(folder)): (
            path.lstat().st_mtime_ns,
            path.lstat().st_size,
            path.lstat().st_ino,
        )
        for path in folder.rglob("*")
        if ".git" not in path.relative_to(folder).parts and not path.is_dir()
    }
    return {
        "index": (index.read_bytes(), index.stat().st_mtime_ns, index.stat().st_ino)
        if index.exists()
        else None,
        "head": (git_dir / "HEAD").read_text(),
        "refs": [r for r in git(folder, "for-each-ref").splitlines() if "refs/runs/" not in r],
        "logs": {str(p): p.read_text() for p in common.glob("logs/**/*") if p.is_file()},
        "config": (common / "config").read_text(),
        "administration": sorted(p.name for p in git_dir.iterdir()),
        "files": files,
    }


def unprivileged(folder, function):
    """Calls `function` as a user whom permissions bind, who owns `folder`; returns or raises what it does."""
    if os.geteuid():
        return function()
    for path in (folder, *folder.rglob("*")):
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setegid(NOBODY)
            os.seteuid(NOBODY)
            answer = (True, function())
        except BaseException as error:
            answer = (False, error)
        os.write(writer, pickle.dumps(answer))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        good, value = pickle.load(pipe)
    os.waitpid(child, 0)
    if good:
        return value
    raise value


def freeze(folder, **options):
    """A snapshot that is shown to leave the user's state alone, and to be what it says."""
    from myproj.lab.record.snapshot import snapshot

    before = state(folder)
    found = snapshot(folder, **options)
    assert state(folder) == before
    assert git(folder, "rev-parse", found["ref"]) == found["commit"]
    assert git(folder, "rev-parse", f"{found['commit']}^{{tree}}") == found["tree"]
    return found
