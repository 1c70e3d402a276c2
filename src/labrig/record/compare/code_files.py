"""The code that made the numbers of runs: the files that each imported or read, as they are.

Files are compared by the hash of their content. What a difference means is for people to say: a
table names the file and the commit, and `--same-code` leaves a file out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ...config.trial_names import current_names, gone_trials
from ...env import FROZEN_LIBRARY
from ...errors import LabError
from ...machine.text_formats import and_more, counted
from ...project import this_project
from ..files.schema import Row
from ..read.order import order_of

COMMIT_CHARACTERS = 10
NOT_RECORDED = "not recorded"
FILES_NOT_NOTED = ""  # the path that stands for all files of a commit
MAX_FILES = 5  # that a line names

Code = tuple[tuple[str, str], ...]  # paths, from the repository, with the hashes of their content


def short_commit(row: Row) -> str:
    """The commit of the code that a run used, cut; in words that there is none."""
    commit = row["code_commit"] or row["commit"]
    return commit[:COMMIT_CHARACTERS] if commit else NOT_RECORDED


def code_of_rows(rows: list[Row], same_code: Iterable[str] = ()) -> dict[str, Code]:
    """The code of each run, by run directory: equal where all its files are.

    Of a run whose record does not say which files it used, the commit counts. Runs whose code was
    not recorded are equal to each other.

    Args:
        same_code: paths of files that are not compared.
    """
    names = current_names(gone_trials(), this_project().source / "trials")
    left_out = set(same_code)
    shared: dict[int, Code] = {}  # by identity of the files, which many runs share
    codes = {}
    for row in rows:
        listed = row["code_files"]
        if not listed:
            codes[row["run_dir"]] = ((FILES_NOT_NOTED, row["code_commit"] or row["commit"] or ""),)
            continue
        if id(listed) not in shared:
            files = files_by_path(listed, names)
            kept = sorted(path for path in files if path not in left_out)
            shared[id(listed)] = tuple((path, files[path]) for path in kept)
        codes[row["run_dir"]] = shared[id(listed)]
    return codes


def files_by_path(listed: dict[str, str], names: dict[str, str]) -> dict[str, str]:
    """The hashes of files without those of the frozen library, which only a job imports from there.

    Args:
        names: the names of today of renamed trials, whose directories are called so.
    """
    own = {path: listed[path] for path in listed if not path.startswith(f"{FROZEN_LIBRARY}/")}
    if not names:
        return own
    trial = re.compile(rf"((?:.*/)?src/{re.escape(this_project().package)}/trials/)(\w+)(/.*)")
    files = {}
    for path, hashes in own.items():
        found = trial.fullmatch(path)
        today = found.expand(rf"\1{names.get(found[2], found[2])}\3") if found else path
        files[path if today in own else today] = hashes
    return files


def find_same_code(rows: list[Row], typed: Sequence[str]) -> tuple[str, ...]:
    """The paths of `--same-code`: each the one file whose path ends so."""
    paths = sorted({path for code in code_of_rows(rows).values() for path, _ in code if path})
    found = []
    for name in typed:
        ending = f"/{name.removeprefix('./')}"
        fitting = [path for path in paths if f"/{path}".endswith(ending)]
        if not fitting:
            used = and_more(paths, MAX_FILES) or "no file that the record names"
            raise LabError(
                f"--same-code {name}: none of these runs used such a file.\nThey used {used}"
            )
        if len(fitting) > 1 and name not in fitting:
            raise LabError(
                f"--same-code {name}: several files end so. Type one of them: {', '.join(fitting)}"
            )
        found.append(name if name in fitting else fitting[0])
    return tuple(found)


def files_that_differ(rows: list[Row], codes: dict[str, Code]) -> dict[str, str]:
    """The files that are not alike in all runs of one trial, each with the commit of its last change.

    Args:
        codes: see `code_of_rows`.
    """
    in_order = sorted(rows, key=order_of)
    files = [dict(codes[row["run_dir"]]) for row in in_order]
    noted = [place for place, of_run in enumerate(files) if FILES_NOT_NOTED not in of_run]
    since = {}
    for path in sorted({path for place in noted for path in files[place]}):
        contents = [files[place].get(path) for place in noted]
        changes = [n for n in range(1, len(contents)) if contents[n] != contents[n - 1]]
        if changes:
            since[path] = short_commit(in_order[noted[changes[-1]]])
    return since


def code_remarks(rows: list[Row], codes: dict[str, Code]) -> list[str]:
    """A line for each trial whose runs had several codes: which files differ, and since when."""
    remarks = []
    for trial in dict.fromkeys(row["trial"] for row in rows):
        of_trial = [row for row in rows if row["trial"] == trial]
        if len({codes[row["run_dir"]] for row in of_trial}) == 1:
            continue
        since = files_that_differ(of_trial, codes)
        if since:
            parts = [f"{path} since {commit}" for path, commit in since.items()]
            remarks.append(f"the code of trial {trial} differs: {and_more(parts, MAX_FILES)}")
        of_commit = [row for row in of_trial if dict(codes[row["run_dir"]]).get(FILES_NOT_NOTED)]
        if of_commit:
            n_runs = counted(len(of_commit), "run")
            remarks.append(
                f"which files {n_runs} of trial {trial} used was not recorded: the commit is compared"
            )
    return remarks
