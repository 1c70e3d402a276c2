# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab runs diff`: what two runs have different."""

from pathlib import Path

from ..project import Project, read_yaml
from .attempt_files import NONE, read_attempts
from .environment import changes, versions
from .find import find_run, run_parser
from .git import Git
from .index import row_of
from .run import Run


def diff_command(project: Project, args: list[str]) -> int:
    parser = run_parser(
        "diff", "What two runs have different, and only that. Exit code 1 when they differ."
    )
    parser.add_argument("other", help="a second run")
    options = parser.parse_args(args)
    a, b = (find_run(project.paths["runs"], word) for word in (options.run, options.other))
    print(f"{a.id} ({a.trial}) -> {b.id} ({b.trial})")
    found = {
        "code": code_lines(a, b, project.root),
        "configuration": changes(config_of(a), config_of(b)),
        "environment": changes(environment_of(a), environment_of(b)),
        "data": changes(data_of(a), data_of(b)),
        "metrics": changes(row_of(str(a.dir))["metrics"], row_of(str(b.dir))["metrics"]),
    }
    for section, entries in found.items():
        if entries:
            print("\n".join([section, *(f"  {entry}" for entry in entries)]))
    if not any(found.values()):
        print("no difference")
    return int(any(found.values()))


def config_of(run: Run) -> dict:
    return read_yaml(run.dir / "config.yaml")


def data_of(run: Run) -> dict:
    """The data's fingerprint as the last attempt found it; {} when it has none."""
    return start_of(run).get("data") or {}


def start_of(run: Run) -> dict:
    """start.json of the last attempt."""
    return (read_attempts(run.dir) or [NONE])[-1]["start"]


def environment_of(run: Run) -> dict:
    """What the environment was, with versions by package and the devices of the last attempt."""
    about = {
        key: value
        for key, value in run.record["env"].items()
        if key not in ("n_packages", "executable")
    }
    keys = (
        "host",
        "device",
        "devices",
        "precision",
        "threads",
        "world_size",
        "driver",
        "cudnn",
        "determinism",
    )
    return (
        about | {"package": versions(run.packages)} | {key: start_of(run).get(key) for key in keys}
    )


def code_lines(a: Run, b: Run, root: Path) -> list[str]:
    """The files that differ, as far as the repository has both commits."""
    before, after = (run.record["code"].get("commit") for run in (a, b))
    if before == after:
        return []
    done = Git(root).run("diff", "--stat=100", "--no-ext-diff", f"{before}", f"{after}", "--")
    if done.returncode:
        return [
            f"{before} -> {after} (not both in this repository; see: lab runs code RUN DIRECTORY)"
        ]
    stat = [line.strip() for line in done.stdout.splitlines()]
    return [*stat, f"git diff {before[:12]} {after[:12]}"]
