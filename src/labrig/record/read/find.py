"""Finds a run by its id, a part of it, a tag, @last, @last~1, @last:TRIAL or @best."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...command_parser import CommandParser
from ...errors import LabError, nearest
from ...machine.text_formats import and_more, counted, printable
from .evaluations import alike
from .filters import is_number, is_of_trial
from .order import newest_mark, order_of
from .ranking import MODES, monitor_of, rank_by_metric, require_metric, require_mode, settings_of
from .rows import RUN_ID, read_rows, run_directories, without_checks
from .run import Run, run_record
from .status import COUNT_FIRST

# Finds runs by the id that their scheduler gave to their job.

# 1234; of arrays 1234_0, 1234.1 and 1234[0]; without a scheduler 1234-56789
JOB_ID = re.compile(r"(\d+)(?:_\d+|\.\d+|\[\d+\]|-\d+)?")
# Ids of other schedulers have letters: f3Qd9. Such a word is looked for last, as it is a tag more often.
OTHER_JOB_ID = re.compile(r"(?=.*\d)(?=.*[^\d.-])[\w.\[\]-]+")
NUMBER = re.compile(r"[^_.\[]+")


def runs_of_job(directories: list[Path], word: str) -> list[Path]:
    """The directories of the runs whose job, or one of whose chunks, has the id `word`.

    The number of an array means all its runs. Nothing for a word that is no id of a scheduler.
    """
    if not JOB_ID.fullmatch(word):
        return []
    return [directory for directory in directories if has_job(directory, word)]


def runs_of_other_job(directories: list[Path], word: str) -> list[Path]:
    """The same for an id with letters."""
    if not OTHER_JOB_ID.fullmatch(word) or RUN_ID.match(word):
        return []
    return [directory for directory in directories if has_job(directory, word)]


def has_job(run_dir: Path, word: str) -> bool:
    """Whether `word` is an id of the run's job, now or before it was sent again."""
    job = run_record(run_dir).get("job") or {}
    ids = [str(job.get("id", "")), *job.get("chain", []), *job.get("earlier_ids", [])]
    return word in ids or word in map(number_of_array, ids)


def number_of_job(job_id: str) -> str:
    """What an id has in common with those of the same array: 1234 of 1234_0, and f3Qd9 of itself."""
    number = NUMBER.match(job_id)
    return number[0] if number else job_id


def number_of_array(job_id: str) -> str | None:
    """1234 of 1234_0; None for the job of a single run."""
    number = number_of_job(job_id)
    return number if number != job_id else None


BEST = "@best"
LAST = re.compile(r"@last(?:~(\d+))?(?::(.+))?")
RUN_HELP = (
    "an id or its beginning, a tag, a job's id, @last, @last~1 (the one before), @last:TRIAL, @best (by "
    "checkpoint.monitor), @best:METRIC, @best:METRIC:TRIAL or @best:METRIC:TRIAL:min"
)
VERSIONS = "versions"  # a directory next to runs/; see `lab runs tag`
N_LATEST = 20  # runs among which @last is looked for first


def find_run(roots: Sequence[Path], word: str) -> Run:
    """The run that `word` means.

    Args:
        roots: directories that hold runs, from `run_roots`.
        word: a directory, @last, @last~1 (the run before it), @last:TRIAL, @best (see `Best`), an id
            or its beginning, a tag, or the id of a job.

    Raises:
        LabError: none or several; the message names the nearest.
    """
    refuse_empty(word)
    if "/" in word and not word.startswith("@") and Path(word).is_dir():
        return Run.open(Path(word).resolve())
    paths = [Path(directory) for directory in run_directories(*roots)]
    directories = {path.name: path for path in paths}
    if not directories:
        raise LabError(
            f"there are no runs in {roots[0]} yet. Make one with: lab train trial=baseline"
        )
    if last := LAST.fullmatch(word):
        n_back, trial = int(last[1] or 0), last[2]
        if n_back == 0 and not trial:
            return Run.open(newest_directory(roots, directories))
        return Run.open(earlier_directory(roots, n_back, trial))
    best = parse_best(word)
    if best:
        return Run.open(best_directory(roots, best))
    run_ids = matching_ids(roots, list(directories.values()), word)
    if not run_ids:
        tags = {tag for row in read_rows(roots) for tag in row["tags"]}
        advice = nearest(word, [*directories, *sorted(tags), "@last", BEST])
        raise LabError(f"no run {word!r}{advice}. Runs: lab runs list")
    if len(run_ids) > 1:
        ids = and_more(sorted(run_ids), 5)
        raise LabError(f"{word!r} means {len(run_ids)} runs: {ids}. Give more of the id.")
    copies = [path for path in paths if path.name == run_ids[0]]
    if len(copies) > 1:
        raise LabError(
            f"{run_ids[0]} lies in {len(copies)} directories, so one is a copy:\n"
            + "".join(f"  {path}\n" for path in copies)
            + "Move the copy elsewhere, or type the directory in place of the id."
        )
    return Run.open(directories[run_ids[0]])


def refuse_empty(word: str) -> None:
    """Makes sure that a word may name a run."""
    if not word.strip():
        raise LabError("'' names no run. Is a variable of the shell not set? Runs: lab runs list")


def newest_directory(roots: Sequence[Path], directories: dict[str, Path]) -> Path:
    """The directory of the newest run; `directories` holds all by their names."""
    # The newest run has one of the latest ids, unless a clock was set back.
    run_ids = sorted(filter(RUN_ID.fullmatch, directories))
    latest = run_ids[-N_LATEST:] + sorted(directories.keys() - set(run_ids))
    newest = max((directories[name] for name in latest), key=order_in_record)
    marks = [newest_mark(root) for root in roots if any(run_directories(root))]
    known_marks = [mark for mark in marks if mark is not None]
    if len(known_marks) == len(marks) and order_in_record(newest) >= max(known_marks):
        return newest
    return Path(read_rows(roots)[0]["run_dir"])


def earlier_directory(roots: Sequence[Path], n_back: int, trial: str | None = None) -> Path:
    """The directory of the run that came `n_back` runs before the newest, of a trial or of all."""
    all_rows = read_rows(roots)
    rows = [row for row in all_rows if is_of_trial(row, trial or "*")]
    if trial and not rows:
        advice = nearest(trial, {row["trial"] for row in all_rows})
        raise LabError(f"trial {trial!r} has no run{advice}. Runs: lab runs list")
    if n_back >= len(rows):
        raise LabError(
            f"@last~{n_back} needs {n_back + 1} runs, but there are {len(rows)}. Runs: lab runs list"
        )
    return Path(rows[n_back]["run_dir"])


def order_in_record(run_dir: Path) -> int:
    """The place of a run in the order of all."""
    return order_of(run_record(run_dir) or {"run_id": run_dir.name})


@dataclass(frozen=True)
class Best:
    """What `@best[:METRIC[:TRIAL][:max|:min]]` asks for.

    Args:
        metric: "": checkpoint.monitor of the newest run.
        mode: which values are better; None: as `known_mode` says.
        trial: a name, or a pattern such as "*"; "": of any trial.
    """

    metric: str
    mode: str | None
    trial: str

    def typed(self, metric: str, mode: str) -> str:
        """How one types it."""
        trial = f":{self.trial}" if self.trial else ""
        return f"{BEST}:{metric}{trial}:{mode}"


def parse_best(word: str) -> Best | None:
    """What a word asks for; None for one that does not begin with @best."""
    begin, *parts = word.split(":")
    if begin != BEST:
        return None
    mode = parts.pop() if len(parts) > 1 and parts[-1] in MODES else None
    if len(parts) > 2:
        raise LabError(
            f"got {word!r}; expected {BEST}:METRIC, {BEST}:METRIC:TRIAL or {BEST}:METRIC:TRIAL:min"
        )
    metric, trial = [*parts, "", ""][:2]
    return Best(metric, mode, trial)


def best_directory(roots: Sequence[Path], best: Best) -> Path:
    """The directory of the finished run whose last value of a metric is the best; says which."""
    rows = without_checks(read_rows(roots))
    finished = [row for row in rows if row["status"] in COUNT_FIRST]
    of_trial = [row for row in finished if is_of_trial(row, best.trial or "*")]
    metric = best.metric or monitor_of(of_trial)
    require_metric(finished, metric)
    trials = {row["trial"] for row in finished}
    if best.mode and best.mode in trials and not best.trial:
        raise LabError(
            f"{best.mode!r} is the name of a trial too. Write '{BEST}:{metric}:*:{best.mode}' for the "
            f"best of all trials, or put the name of the trial in place of the *"
        )
    mode = best.mode or require_mode(metric, settings_of(of_trial), best.typed(metric, "max"))
    measured = [row for row in of_trial if is_number(row["metrics"].get(metric))]
    compared = alike(measured, metric)
    ranked = rank_by_metric(compared.rows, metric, mode)
    if not ranked:
        advice = "" if not best.trial else f" of trial {best.trial!r}{nearest(best.trial, trials)}"
        raise LabError(f"no finished run has a number as {metric!r}{advice}. Runs: lab runs list")
    first = ranked[0]
    if compared.remark:
        print(f"lab: left aside: {compared.remark}; all: lab runs list", file=sys.stderr)
    print(
        f"lab: best last value of {metric} in {counted(len(ranked), 'finished run')}: "
        f"{first['metrics'][metric]:.6g}, {first['run_id']} ({printable(first['trial'])})",
        file=sys.stderr,
    )
    return Path(first["run_dir"])


def find_runs(roots: Sequence[Path], word: str) -> list[Run]:
    """The run that `word` means; all runs of a job array for its number."""
    directories = [Path(directory) for directory in run_directories(*roots)]
    of_job = runs_of_job(directories, word) or runs_of_other_job(directories, word)
    return [Run.open(directory) for directory in of_job] or [find_run(roots, word)]


def matching_ids(roots: Sequence[Path], directories: list[Path], word: str) -> list[str]:
    """The names of the directories that `word` is, or that its job has, or that it begins.

    If there is none, the run of the version `word`, else those of the runs with that tag, or whose
    directory was renamed from it.
    """
    run_ids = [directory.name for directory in directories]
    if word in run_ids:
        return [word]
    if of_job := runs_of_job(directories, word):
        return [directory.name for directory in of_job]
    matches = [run_id for run_id in run_ids if run_id.startswith(word)]
    if matches:
        return matches
    version = run_of_version(roots, word, run_ids)
    if version:
        return [version]
    rows = read_rows(roots)
    tagged = [row["run_id"] for row in rows if word in row["tags"] or word == row["renamed_from"]]
    return tagged or [directory.name for directory in runs_of_other_job(directories, word)]


def run_of_version(roots: Sequence[Path], name: str, run_ids: Iterable[str]) -> str | None:
    """The one of `run_ids` that a name means now; None when it is no named version of such a run.

    Args:
        roots: directories that hold runs; that of the project lies next to its versions.
    """
    for root in roots:
        try:
            text = (root.parent / VERSIONS / f"{name}.txt").read_text(encoding="utf-8")
        except (OSError, ValueError):
            continue
        words = text.rstrip().rpartition("\n")[2].split()
        if len(words) > 1 and words[1] in run_ids:
            return words[1]
    return None


def run_parser(command: str, description: str) -> argparse.ArgumentParser:
    """The parser of a command whose first word names a run; `find_run` takes it."""
    parser = CommandParser(prog=f"lab runs {command}", description=description)
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    return parser
