"""Repositories, projects and runs for the tests of the record."""

import io
import os
import pickle
import re
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path

from labrig.cli import list_commands
from labrig.project import Project
from labrig.record.files.metrics_file import MetricsLog
from labrig.record.freeze.snapshot import snapshot
from labrig.record.write.begin import begin_attempt
from labrig.record.write.create import RunRequest, create_run
from projects import work_on
from repositories import git, write

PACKAGE = "myproj"
PYPROJECT = f'[tool.labrig]\npackage = "{PACKAGE}"\n'
NOBODY = 65534


def repository(folder, **files):
    """A repository with one commit of some files and of `files` (name with __ for a dot: text)."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    write(folder, {"a.txt": "one\n", "src/b.py": "print(1)\n", ".gitignore": "ignored/\n*.log\n"})
    write(folder, {name.replace("__", "."): text for name, text in files.items()})
    commit(folder, "first")
    return folder


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
    before = state(folder)
    found = snapshot(folder, **options)
    assert state(folder) == before
    assert git(folder, "rev-parse", found["ref"]) == found["commit"]
    assert git(folder, "rev-parse", f"{found['commit']}^{{tree}}") == found["tree"]
    return found


def make_project(folder):
    """A project without training: a repository with two trials and one commit; runs go to folder/runs."""
    names = ("__init__.py", "trials/baseline/model.py", "trials/wide/model.py")
    write(folder, {f"src/{PACKAGE}/{name}": f"# {name}\n" for name in names})
    settings = f"src/{PACKAGE}/conf/config.yaml"
    write(folder, {".gitignore": "/runs\n/data\n", "pyproject.toml": PYPROJECT, settings: "{}\n"})
    git(folder, "init", "-q", "-b", "main")
    commit(folder, "first")
    project = Project(folder, PACKAGE)
    return work_on(project)


def commit(folder, message):
    """Everything in `folder` as a commit."""
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", message)


def request(**changes):
    """What a small run is made of."""
    usual = {
        "trial": "baseline",
        "config_yaml": "seed: 0\n",
        "overrides": [],
        "argv": ["lab"],
        "seed": 0,
    }
    return RunRequest(**usual | changes)


def create(project, **changes):
    """A run as lab train makes it."""
    usual = {
        "config_yaml": "seed: 0\nmodel:\n  width: 32\n",
        "overrides": ["model.width=32"],
        "argv": ["lab", "train", "trial=baseline", "model.width=32"],
    }
    return create_run(project, project.root / "runs", request(**usual | changes))


def train(project, status="finished", metrics=None, exception=None, **changes):
    """A run from start to end, with a checkpoint."""
    run = create(project, **changes)
    attempt = begin_attempt(run, project, accelerator="cpu", world_size=1)
    attempt.note(code=attempt.facts["code"] | {"used": files_of_trial(project, run)})
    log = MetricsLog(run.dir, attempt.n)
    for step in (10, 20):
        log.append(step, 0, metrics or {"val/loss": 5 / step})
    log.close()
    (run.checkpoints / "last.ckpt").write_bytes(b"weights of " + run.id.encode())
    attempt.end(status, exception=exception)
    return run


def files_of_trial(project, run):
    """Git's hash of each Python file that a training of this run would import."""
    commit = run.record["code"].get("commit")
    if not commit:
        return {}
    package = f"{run.record['code'].get('prefix', '')}src/{project.package}"
    trials = f"{package}/trials/"
    own = f"{trials}{run.trial.partition('/')[0]}/"
    lines = git(project.root, "ls-tree", "-r", "--full-tree", commit, package).splitlines()
    files = {path: facts.split()[2] for facts, path in (line.split("\t") for line in lines)}
    return {
        path: of_file
        for path, of_file in files.items()
        if path.endswith(".py") and (path.startswith(own) or not path.startswith(trials))
    }


def delete_records(project, *args):
    """`lab runs prune --records`, confirmed by the number that it shows."""
    with redirect_stdout(io.StringIO()) as shown:
        call(project, "runs prune", "--records", *args)
    (n,) = re.findall(r"^(\d+) of \d+ runs? would be deleted", shown.getvalue(), re.MULTILINE)
    return call(project, "runs prune", "--records", "--confirm", n, *args)


def call(project, words, *args):
    """Runs a command in this process, as cli.py does, and returns its exit code."""
    (command,) = [command for command in list_commands() if command.words == words]
    function = getattr(import_module(command.module, "labrig"), command.function)
    return function(project, [str(arg) for arg in args]) or 0
