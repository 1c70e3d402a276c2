"""`lab hooks`: the checks of a commit, as one hook.

Without files it checks all that git tracks here. The variable SKIP, which pre-commit reads too,
leaves checks out once: SKIP=imports git commit
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path

from ..command_parser import CommandParser
from ..config.trial_names import PAGE, gone_trials
from ..machine.git import Git
from ..machine.secrets import find_tokens_in_file, known_secrets
from ..project import Project, this_project

INDEX = "GIT_INDEX_FILE"  # `git commit FILE` gives its hooks an index of its own


def git_of_commit() -> Git:
    """git in this directory, the top of the project, with the files of the commit that is being made."""
    variables = {INDEX: os.environ[INDEX]} if INDEX in os.environ else {}
    return Git(Path(), variables)


# The check `conflicts`: no file, of whatever type, with both sides of a merge or of an update.

BEGIN = b"<<<<<<< "
END = b">>>>>>> "


def check_conflicts(names: list[str]) -> int:
    """Prints where two versions of some lines stand; 1 when there are any, else 0."""
    places = [f"{name}:{line}" for name in names for line in conflicts_in(Path(name).read_bytes())]
    for place in places:
        print(f"{place}: two versions of some lines")
    if places:
        files = " ".join(dict.fromkeys(place.rpartition(":")[0] for place in places))
        print(
            "Open each file. Choose between the lines after <<<<<<< and those before >>>>>>>,\n"
            f"delete the lines of marks, then: git add {files}"
        )
    return 1 if places else 0


def conflicts_in(content: bytes) -> list[int]:
    """The numbers of the lines at which conflicts begin, from 1; none in a binary file."""
    if BEGIN not in content or END not in content or b"\0" in content:
        return []
    lines = content.splitlines()
    last_end = max((n for n, line in enumerate(lines, 1) if line.startswith(END)), default=0)
    return [n for n, line in enumerate(lines, 1) if line.startswith(BEGIN) and n < last_end]


# The check `style`: ruff repairs the files of a commit, and names what is left.

# As `make fix`: the formatter also parts lines that the linter would object to.
REPAIRS = (["check", "--fix-only"], ["format"])
SUFFIXES = (".py", ".pyi", ".ipynb")


def check_style(names: list[str]) -> int:
    """Repairs the Python among `names`; 1 when one was changed, or when something is left to do."""
    names = [name for name in names if name.endswith(SUFFIXES)]
    if not names:
        return 0
    before = {name: Path(name).read_bytes() for name in names}
    for words in REPAIRS:
        run_ruff([*words, "--quiet"], names)
    left = run_ruff(["check", "--quiet", "--output-format=concise"], names)
    sys.stdout.write(left)
    repaired = [name for name in names if Path(name).read_bytes() != before[name]]
    if repaired:
        files = " ".join(repaired)
        print(f"ruff repaired {files}\nNow add and commit again: git add {files}")
    return 1 if repaired or left else 0


def run_ruff(words: list[str], names: list[str]) -> str:
    """What ruff says about files; "" when it has no objection."""
    command = [sys.executable, "-m", "ruff", *words, "--force-exclude", "--", *names]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


# The check `large-files`: data belongs in data/, results in runs/, and not in git.

MAX_KB = 1000
KEPT = "vendor/labrig-"  # the wheel of `lab vendor`


def check_large_files(names: list[str], max_kb: int = MAX_KB) -> int:
    """Prints which of the files `names` have more than `max_kb` kB (1024 bytes); 1 when one has."""
    sizes_kb = {name: -(-os.path.getsize(name) // 1024) for name in names}
    large = [name for name, size_kb in sizes_kb.items() if size_kb > max_kb]
    refused = [name for name in large if not (name.startswith(KEPT) or is_in_lfs(name))]
    for name in refused:
        print(f"{name} ({sizes_kb[name]} KB) exceeds {max_kb} KB.")
    if refused:
        print(
            "Data belongs in data/, results in runs/; git ignores both.\n"
            "To raise the limit: args: [--max-kb=N] in .pre-commit-config.yaml"
        )
    return int(bool(refused))


def is_in_lfs(name: str) -> bool:
    """Whether git keeps only a pointer of a file, by its attributes."""
    done = git_of_commit().run("check-attr", "filter", "--", name)
    return done.stdout.rstrip().endswith(": filter: lfs")


# The check `tokens`: no tokens and private keys, and every trial a package.


def check_tokens(names: list[str]) -> int:
    """Prints what is wrong, and makes a trial a package; 1 when something was wrong, else 0.

    Args:
        names: files to be committed; those that were deleted are skipped.
    """
    paths = [Path(name) for name in names if Path(name).is_file()]
    secrets = known_secrets()
    tokens = [token for path in paths for token in find_tokens_in_file(path, str(path), secrets)]
    for token in tokens:
        print(f"{token}. Move it to .env, which git ignores")
    if tokens:
        print(
            "If it is no secret, name the file in `exclude:` of the hook `lab` "
            "in .pre-commit-config.yaml"
        )
    trials = invisible_trials(this_project().source)
    for trial in trials:
        (trial / "__init__.py").touch()
        print(
            f"import-linter does not see a trial without __init__.py. It is made. "
            f"Now add and commit again: git add {trial}/__init__.py"
        )
    return 1 if tokens or trials else 0


def invisible_trials(package: Path) -> list[Path]:
    """Directories of trials that import-linter does not see, since they have no __init__.py."""
    folders = {path.parent for path in (package / "trials").rglob("*.py")}
    return sorted(folder for folder in folders if not (folder / "__init__.py").exists())


# The check `imports`: trials stand alone, and contracts of your own.

# The name of the package goes in place of PACKAGE. A new trial needs no change here; the check
# `tokens` finds one without __init__.py.
CONTRACTS = """
[tool.importlinter]
root_package = "PACKAGE"

[[tool.importlinter.contracts]]
name = "trials do not import each other"
type = "independence"
modules = ["PACKAGE.trials.*"]

[[tool.importlinter.contracts]]
name = "the package does not import a trial"
type = "protected"
protected_modules = ["PACKAGE.trials"]
allowed_importers = []
"""
OWN_CONTRACTS = (".importlinter", "pyproject.toml")  # where lint-imports looks by itself


def check_imports(names: list[str]) -> int:
    """Checks the whole package when one of the files `names` is Python; 1 on a broken contract."""
    if not any(name.endswith(".py") for name in names):
        return 0
    text = CONTRACTS.replace("PACKAGE", this_project().package)
    with tempfile.TemporaryDirectory(prefix="lab-imports-") as folder:
        contracts = Path(folder, "imports.toml")
        contracts.write_text(text, encoding="utf-8")
        broken = is_broken(str(contracts))
    if has_own_contracts():
        broken |= is_broken(None)
    return int(broken)


def is_broken(config: str | None) -> bool:
    """Runs lint-imports on a file of contracts, or on the project's own (None).

    Prints what it says when a contract is broken.
    """
    from importlinter.cli import lint_imports  # slow, and not every commit has Python in it

    with contextlib.redirect_stdout(io.StringIO()) as report:
        broken = bool(lint_imports(config_filename=config, no_logo=True, no_cache=True))
    if broken:
        print(report.getvalue().strip())
    return broken


def has_own_contracts() -> bool:
    """Whether the project has contracts next to these."""
    name, table = OWN_CONTRACTS
    if Path(name).is_file():
        return True
    if not Path(table).is_file():
        return False
    return "importlinter" in tomllib.loads(Path(table).read_text("utf-8")).get("tool", {})


# The check `deleted-trials`: says which trials a commit deletes without a line in TRIALS.md.

STAGED = ("diff", "--cached")  # the changes in this commit
TRIAL = re.compile(r"(?:^|/)trials/([a-z]\w*)/config\.yaml$")


def tell_of_deleted_trials(names: list[str]) -> int:
    """Prints what to type for each trial that the commit deletes and TRIALS.md does not name.

    Args:
        names: files to be committed; git itself is asked for those that are deleted.
    """
    gone = gone_trials(this_project().root / PAGE)
    moved = moved_trials()
    for name in deleted_trials():
        if name in gone or moved.get(name) == name:  # the package was renamed
            continue
        print(
            f"trial {name} is deleted, and {PAGE} does not say why. The commit continues.\n"
            f'To keep what was learnt: lab trials drop {name} --why "..."'
        )
        if name in moved:
            print(f"If it was renamed: lab trials rename {name} {moved[name]}")
    return 0


def deleted_trials() -> list[str]:
    """The trials whose config.yaml the commit deletes, or gives another place."""
    names = git_of_commit()(*STAGED, "--no-renames", "--name-only", "--diff-filter=D").splitlines()
    return sorted({match[1] for match in map(TRIAL.search, names) if match})


def moved_trials() -> dict[str, str]:
    """The name of the directory that config.yaml went to, by the trial that it left."""
    moved = {}
    for line in git_of_commit()(*STAGED, "-M", "--name-status", "--diff-filter=R").splitlines():
        _, old, new = line.split("\t")
        before = TRIAL.search(old)
        after = TRIAL.search(new)
        if before and after:
            moved[before[1]] = after[1]
    return moved


# All of them.

# In this order; the first one alone when it fails, since no other tool can read such a file.
CHECKS: dict[str, Callable[[list[str]], int]] = {
    "conflicts": check_conflicts,
    "style": check_style,
    "large-files": check_large_files,
    "tokens": check_tokens,
    "imports": check_imports,
    "deleted-trials": tell_of_deleted_trials,
}


def hooks_command(project: Project, args: list[str]) -> int:
    """Runs the checks; 1 when one of them refuses a file, else 0."""
    parser = CommandParser(
        prog="lab hooks", description="The checks of a commit; without FILE, of all files."
    )
    parser.add_argument("--skip", action="append", default=[], choices=CHECKS, metavar="CHECK")
    parser.add_argument("--max-kb", type=int, default=MAX_KB, metavar="N")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args(args)
    checks = CHECKS | {"large-files": partial(check_large_files, max_kb=options.max_kb)}
    skipped = {*options.skip, *os.environ.get("SKIP", "").split(",")}
    files = options.files or tracked_files()
    refused = []
    for name, check in checks.items():
        if name in skipped or "conflicts" in refused:
            continue
        if check(files):
            refused.append(name)
            print(f"^ refused by the check {name}\n")
    return int(bool(refused))


def tracked_files() -> list[str]:
    """The files below this directory that git tracks, without links and submodules."""
    names = git_of_commit().paths("ls-files", "-z")
    return [name for name in names if Path(name).is_file() and not Path(name).is_symlink()]
