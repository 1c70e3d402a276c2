"""CPU seconds of `copier copy` and `copier update` (a release that changes ten files), beyond importing copier.

    python benchmarks/update.py [ROUNDS]

Both include the programs of git that copier starts. Rounds are interleaved; medians are printed with the limits.
"""

import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from rendered import ROOT

LAB = "template/src/{{package_name}}/lab"
IDENTITY = ["-c", "user.name=B", "-c", "user.email=b@example.org"]
COPIER = [sys.executable, "-m", "copier"]
LIMITS_S = {"copier copy": 1.0, "copier update": 6.0}


def main() -> None:
    n_rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as name:
        template = two_releases(Path(name, "template"))
        rounds = [measure(template, Path(name, f"round{n}")) for n in range(n_rounds)]
    print("CPU seconds      median  limit")
    for command, limit_s in LIMITS_S.items():
        median_s = statistics.median(seconds[command] for seconds in rounds)
        print(f"{command:<15} {median_s:7.2f} {limit_s:6.1f}")


def two_releases(folder: Path) -> Path:
    """The committed template with the tags 99.0.0 and 99.1.0, which differ in ten files of lab/."""
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    tag(folder, "99.0.0")
    for path in sorted((folder / LAB / "machine").glob("*.py"))[:10]:
        path.write_text(path.read_text() + "# newer\n")
    tag(folder, "99.1.0")
    return folder


def tag(folder: Path, name: str) -> None:
    commit(folder, name)
    subprocess.run(["git", "tag", name], cwd=folder, check=True)


def commit(folder: Path, message: str) -> None:
    for words in (["add", "-A"], [*IDENTITY, "commit", "-q", "--allow-empty", "-m", message]):
        subprocess.run(["git", *words], cwd=folder, check=True)


def measure(template: Path, folder: Path) -> dict[str, float]:
    """Seconds of each command in a new folder, without those of importing copier."""
    project = folder / "myproj"
    copy = ["copy", "--defaults", "--quiet", "--vcs-ref", "99.0.0", str(template), str(project)]
    import_s = cpu_seconds([*COPIER, "--version"], ROOT)
    copy_s = cpu_seconds([*COPIER, *copy], ROOT)
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    commit(project, "start")
    update_s = cpu_seconds([*COPIER, "update", "--defaults", "--quiet"], project)
    shutil.rmtree(folder)
    return {"copier copy": copy_s - import_s, "copier update": update_s - import_s}


def cpu_seconds(command: list[str], folder: Path) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


if __name__ == "__main__":
    main()
