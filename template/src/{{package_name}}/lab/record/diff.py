# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab runs diff A B`: code, configuration, environment, data and metrics, in this order; only what differs."""

import argparse
from pathlib import Path

from ..project import Project, read_yaml
from .attempt import read_attempts
from .find import find
from .git import Git
from .rows import row
from .run import Run

ABSENT = "(absent)"


def diff_command(project: Project, args: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="lab runs diff", description=__doc__, epilog="Exit code 1 when they differ.")
    parser.add_argument("a", help="an id or its beginning, a tag, @last, @best:val/loss")
    parser.add_argument("b")
    options = parser.parse_args(args)
    a, b = (find(project.paths["runs"], word) for word in (options.a, options.b))
    print(f"{a.id} ({a.trial}) -> {b.id} ({b.trial})")
    found = {
        "code": code_lines(a, b, project.root),
        "configuration": lines(config(a), config(b)),
        "environment": lines(environment_of(a), environment_of(b)),
        "data": lines(data(a), data(b)),
        "metrics": lines(row(str(a.dir))["metrics"], row(str(b.dir))["metrics"]),
    }
    for section, entries in found.items():
        if entries:
            print("\n".join([section, *(f"  {entry}" for entry in entries)]))
    if not any(found.values()):
        print("no difference")
    return int(any(found.values()))


def lines(a: dict, b: dict) -> list[str]:
    """`key: a -> b` for every leaf that differs."""
    left, right = flat(a), flat(b)
    keys = [key for key in {**left, **right} if left.get(key, ABSENT) != right.get(key, ABSENT)]
    return [f"{key}: {left.get(key, ABSENT)} -> {right.get(key, ABSENT)}" for key in keys]


def flat(tree: dict, prefix: str = "") -> dict:
    """A nested dict as `{"a.b": leaf}`."""
    found: dict = {}
    for key, value in tree.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) and value else {f"{prefix}{key}": value}
    return found


def config(run: Run) -> dict:
    return read_yaml(run.dir / "config.yaml")


def data(run: Run) -> dict:
    """The data's fingerprint as the last attempt found it; {} when it has none."""
    attempts = read_attempts(run.dir)
    return (attempts[-1]["start"].get("data") if attempts else None) or {}


def environment_of(run: Run) -> dict:
    """What the environment was, with versions by package and the devices of the last attempt."""
    attempts = read_attempts(run.dir)
    start = attempts[-1]["start"] if attempts else {}
    packages = (run.dir / "env.txt").read_text(encoding="utf-8").splitlines()
    versions = dict(line.split("==", 1) for line in packages if "==" in line)
    about = {key: value for key, value in run.record["env"].items() if key not in ("n_packages", "executable")}
    keys = ("device", "devices", "precision", "threads", "world_size", "driver", "cudnn", "determinism")
    return about | {"host": start.get("host"), "package": versions} | {key: start.get(key) for key in keys}


def code_lines(a: Run, b: Run, root: Path) -> list[str]:
    """The files that differ, as far as the repository has both commits."""
    before, after = (run.record["code"].get("commit") for run in (a, b))
    if before == after:
        return []
    done = Git(root).run("diff", "--stat=100", "--no-ext-diff", f"{before}", f"{after}", "--")
    if done.returncode:
        return [f"{before} -> {after} (not both in this repository; see: lab runs code RUN DIRECTORY)"]
    stat = [line.strip() for line in done.stdout.splitlines()]
    return [*stat, f"git diff {before[:12]} {after[:12]}"]
