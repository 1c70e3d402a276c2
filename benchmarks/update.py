"""CPU seconds of `copier copy` and `copier update` (a release that changes ten files), beyond importing copier.

    python benchmarks/update.py [ROUNDS]

Both include the programs of git that copier starts. The template is this repository as committed, as a user has it.
Rounds are interleaved; medians are printed with the limits of the design.
"""

import shutil
import sys
import tempfile
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
    with tempfile.TemporaryDirectory() as name:
        template = two_releases(Path(name, "template"))
        rounds = [measure(template, Path(name, f"round{n}")) for n in range(n_rounds)]
    seconds = {command: [each[command] for each in rounds] for command in rounds[0]}
    print("CPU seconds      median  limit")
    for command, limit_s in LIMITS_S.items():
        over_s = median_difference(seconds[command], seconds["import copier"])
        print(f"{command:<15} {over_s:7.2f} {limit_s:6.1f}")


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
    seconds = {}
    seconds["import copier"], _ = cpu_s([*COPIER, "--version"], ROOT)
    seconds["copier copy"], _ = cpu_s([*COPIER, *copy], ROOT)
    commit(project, "Start")
    seconds["copier update"], _ = cpu_s([*COPIER, "update", "--defaults", "--quiet"], project)
    changed = git(project, "diff", "--name-only").splitlines()
    assert len(changed) == len(CHANGED) + 2, changed  # and the pin, and the answers
    shutil.rmtree(folder)
    return seconds


if __name__ == "__main__":
    main()
