"""CPU seconds of `copier copy` and `copier update` (a release that changes ten files), beyond importing copier.

    python benchmarks/update.py [ROUNDS]

Both include the programs of git that copier starts. The template is this repository as committed, as a user has it.
All of it lies in memory where there is some: an update checks the template out five times, so on a disk the
file system's own time comes in, from nothing to 2 s.
Rounds are interleaved; medians and the slowest round are printed with the limits of the design.
"""

import shutil
import sys
import tempfile
from operator import sub
from pathlib import Path

from cpu_seconds import cpu_s, median_difference
from project_copy import ROOT

# isort: split
from rendering import release
from repositories import commit, git

COPIER = [sys.executable, "-m", "copier"]
LIMITS_S = {"copier copy": 0.4, "copier update": 1.5}
CHANGED = (  # files that an update merges or replaces; a comment at their end changes nothing
    ".gitattributes",
    ".gitignore",
    ".gitlab/lab.yml",
    ".github/workflows/check.yml",
    ".github/workflows/update.yml",
    ".pre-commit-config.yaml",
    "Makefile",
    "jobs/{{ scheduler }}.sh.jinja",
    "src/{{package_name}}/train.py",
    "tools/bootstrap.py",
)


def main() -> None:
    n_rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        template = two_releases(Path(name, "template"))
        rounds = [measure(template, Path(name, f"round{n}")) for n in range(n_rounds)]
    seconds = {command: [each[command] for each in rounds] for command in rounds[0]}
    print("CPU seconds      median  slowest  limit")
    for command, limit_s in LIMITS_S.items():
        median_s = median_difference(seconds[command], seconds["import copier"])
        slowest_s = max(map(sub, seconds[command], seconds["import copier"]))
        print(f"{command:<15} {median_s:7.2f} {slowest_s:8.2f} {limit_s:6.1f}")


def two_releases(folder: Path) -> Path:
    """The committed template with the tags 99.0.0 and 99.1.0, which differ in the files of CHANGED."""
    git(ROOT, "clone", "--quiet", ROOT, folder)
    git(folder, "tag", "99.0.0")
    for name in CHANGED:
        path = folder / "template" / name
        path.write_text(path.read_text(encoding="utf-8") + "# newer\n", encoding="utf-8")
    release(folder, "99.1.0")
    return folder


def measure(template: Path, folder: Path) -> dict[str, float]:
    """Seconds of each command in a new folder."""
    project = folder / "myproj"
    copy = ["copy", "--defaults", "--quiet", "--vcs-ref", "99.0.0", template, project]
    update = ["update", "--defaults", "--quiet"]
    clones = {"TMPDIR": str(folder.parent)}  # where copier checks the template out
    seconds = {}
    seconds["import copier"], _ = cpu_s([*COPIER, "--version"], ROOT)
    seconds["copier copy"], _ = cpu_s([*COPIER, *copy], ROOT, **clones)
    commit(project, "Start")
    seconds["copier update"], _ = cpu_s([*COPIER, *update], project, **clones)
    changed = git(project, "diff", "--name-only").splitlines()
    assert len(changed) == len(CHANGED) + 2, changed  # and the pin, and the answers
    shutil.rmtree(folder)
    return seconds


if __name__ == "__main__":
    main()
