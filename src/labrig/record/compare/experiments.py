"""Which runs are one experiment: those that differ in their seed only. Every mean is over such runs.

What made the numbers of a run is compared: its trial, its settings, the files of its code, its data
with the samples of validation and test, the weights that it started from and those that were tested,
and what its attempts had different.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import product
from typing import Any

from ...machine.text_formats import counted
from ..files.atomic import number
from ..files.schema import Row
from ..read.evaluations import evaluated_on, metric_and_place
from ..read.filters import is_number
from ..read.ranking import split_of
from ..read.settings import ABSENT, as_text, value_of
from ..read.status import COUNT_FIRST
from .code_files import NOT_RECORDED, Code, code_of_rows, code_remarks, short_commit
from .repetitions import DATA_PLACES, RepetitionKeys, Seeds, Texts
from .results import SPEED

CODE = "own code"  # the column of it; no setting has this name
HASH_CHARACTERS = 10
FOLD = "data.fold"
EVALUATED = ("val", "test")  # the splits whose samples must be the same
RESOLVED = {  # titles of what the settings became on the machine
    "samples_per_step": "samples per step",
    "precision": "precision",
    "world_size": "processes",
}
FOLLOWS = "${seed}"  # what a seed is called that has the value of `seed`


@dataclass(frozen=True)
class Experiment:
    """Runs that differ in their seed only.

    Attributes:
        rows: of each seed the newest run, newest first; never empty.
        older: further runs of the same seeds.
        code: equal for experiments of one trial with the same code.
        made_by: what besides the settings made the numbers, in words, by the title of its column.
    """

    rows: list[Row]
    older: list[Row]
    code: Code
    made_by: dict[str, str]

    @property
    def settings(self) -> dict[str, Any]:
        """Those of its newest run."""
        return self.rows[0]["settings"]


@dataclass(frozen=True)
class MadeBy:
    """What made the numbers of a run, besides its seed. Two runs with equal ones are one experiment.

    Attributes:
        alone: the directory of a run that is comparable to none, and so an experiment of its own:
            it has not finished, or its settings were not recorded.
        seeds: settings such as data.seed, see `seeds_of_rows`.
        code: see `code_of_rows`.
        data: their hash, else their place, else None.
        samples: hashes of the samples of EVALUATED that are not the file's own splits; an order that
            is not random.
        started_from: the hash of the weights; None: random ones.
        tested: which weights.
        resolved: what the settings became: samples of a step, precision; number of processes.
        changes: data and settings that attempts had different, a line each.
        apart: the values of further settings that somebody wants a line for.
    """

    alone: str | None
    trial: str
    settings: Texts
    seeds: Seeds
    code: Code
    data: str | None
    samples: tuple[tuple[str, str], ...]
    started_from: str | None
    tested: str
    resolved: tuple[tuple[str, str], ...]
    changes: tuple[str, ...]
    apart: tuple[str, ...]


def group_experiments(
    rows: list[Row],
    over: tuple[str, ...] = (),
    apart: tuple[str, ...] = (),
    same_code: tuple[str, ...] = (),
) -> list[Experiment]:
    """The experiments of these runs, that of the newest run first.

    Args:
        rows: newest first.
        over: settings that runs of an experiment may differ in, too, such as the fold of the data.
            The samples of the splits follow from these, so they may differ then.
        apart: settings whose values are told apart also where they change no number.
        same_code: paths of files of the code that are not compared.
    """
    members: dict[MadeBy, list[Row]] = defaultdict(list)
    of_rows = made_by_of_rows(rows, over, apart, same_code)
    for row, made_by in zip(rows, of_rows, strict=True):
        members[made_by].append(row)
    codes = name_codes(members)
    experiments = []
    for made_by, of_one in members.items():
        newest: dict[tuple, Row] = {}
        for row in of_one:
            newest.setdefault(unit_of(row, over), row)
        directories = {row["run_dir"] for row in newest.values()}
        older = [row for row in of_one if row["run_dir"] not in directories]
        words = {CODE: codes[made_by]} | in_words(made_by, of_one[0])
        experiments.append(Experiment(list(newest.values()), older, made_by.code, words))
    return experiments


def name_codes(members: dict[MadeBy, list[Row]]) -> dict[MadeBy, str]:
    """The code of each experiment by the commit of its newest run.

    Where commits and codes of a trial are not one to one, the codes are numbered: an edit outside of
    the code makes another commit, and files that git does not have make another code.
    """
    commits = {made_by: short_commit(of_one[0]) for made_by, of_one in members.items()}
    pairs: dict[str, dict[tuple[tuple, str], None]] = defaultdict(dict)
    for made_by, commit in commits.items():
        pairs[made_by.trial][made_by.code, commit] = None
    names = {}
    for made_by, commit in commits.items():
        of_trial = pairs[made_by.trial]
        codes = list(dict.fromkeys(code for code, _ in of_trial))
        is_one_to_one = len(of_trial) == len(codes) == len({commit for _, commit in of_trial})
        number = codes.index(made_by.code) + 1
        names[made_by] = commit if is_one_to_one else f"{number}: {commit}"
    return names


def unit_of(row: Row, over: tuple[str, ...] = ()) -> tuple:
    """What tells a run from the others of its experiment: its seed, and the settings in `over`."""
    return (seed_of(row), *(as_text(value_of(row["settings"], key)) for key in over))


def seed_of(row: Row) -> str:
    return as_text(row["settings"].get("seed", row["seed"]))


def made_by_of_rows(
    rows: list[Row], over: tuple[str, ...], apart: tuple[str, ...], same_code: tuple[str, ...]
) -> list[MadeBy]:
    """What made the numbers of each run."""
    keys = RepetitionKeys(over)
    split = [keys.split(row["settings"]) for row in rows]
    texts = [of_row for of_row, _ in split]
    seeds = seeds_of_rows(rows, texts, [of_row for _, of_row in split])
    code = code_of_rows(rows, same_code)
    return [
        MadeBy(
            alone=row["run_dir"] if is_alone(row) else None,
            trial=row["trial"],
            settings=texts[place],
            seeds=seeds[place],
            code=code[row["run_dir"]],
            data=(row["data"] or {}).get("sha256") or place_of_data(row),
            samples=order_of(row) + (() if over else samples_of(row)),
            started_from=(row["init_from"] or {}).get("sha256"),
            tested=tested_weights(row),
            resolved=tuple(
                (title, str(row["resolved"][key]))
                for key, title in RESOLVED.items()
                if key in (row.get("resolved") or {})
            ),
            changes=changes_of(row),
            apart=tuple(as_text(value_of(row["settings"], key)) for key in apart),
        )
        for place, row in enumerate(rows)
    ]


def is_alone(row: Row) -> bool:
    """Whether a run is comparable to none: it has not finished, or lacks its settings."""
    return row["status"] not in COUNT_FIRST or not row["settings"]


def seeds_of_rows(rows: list[Row], texts: list[Texts], seeds: list[Seeds]) -> list[Seeds]:
    """The seeds below other keys than `seed`, as far as they tell runs apart.

    Such as data.seed, which usually follows `seed`. One that has the same value in all runs with
    these settings was set on purpose, and tells none apart. Else it follows `seed`, or has the value
    that it has.
    """
    by_settings: dict[tuple, list[int]] = defaultdict(list)
    for place, row in enumerate(rows):
        by_settings[row["trial"], texts[place]].append(place)
    told_apart: list[Seeds] = [()] * len(rows)
    for places in by_settings.values():
        values = {place: dict(seeds[place]) for place in places}
        for key in sorted({key for of_run in values.values() for key in of_run}):
            if len({of_run.get(key) for of_run in values.values()}) == 1:
                continue
            for place in places:
                value = values[place].get(key, "-")
                shown = FOLLOWS if value == seed_of(rows[place]) else value
                told_apart[place] += ((key, shown),)
    return told_apart


def place_of_data(row: Row) -> str | None:
    """What tells apart data whose hash was not recorded: where they lie; None without that, too."""
    places = [value_of(row["settings"], key) for key in DATA_PLACES]
    texts = [str(place) for place in places if place is not ABSENT]
    return f"at {' '.join(texts)}" if texts else None


def samples_of(row: Row) -> tuple[tuple[str, str], ...]:
    rows_of_splits = (row["data"] or {}).get("rows") or {}
    return tuple((split, rows_of_splits[split]) for split in EVALUATED if split in rows_of_splits)


def order_of(row: Row) -> tuple[tuple[str, str], ...]:
    """How training read the data, which data.order=auto decides from the memory of the job."""
    order = (row["data"] or {}).get("order")
    return (("order", order),) if order else ()


def tested_weights(row: Row) -> str:
    """Which weights made the numbers of the test; of the best ones also what chose them."""
    kind = row["tested_weights"] or "last"
    if kind == "last":
        return kind
    chosen = [value_of(row["settings"], f"checkpoint.{key}") for key in ("monitor", "mode")]
    return " ".join([kind, "by", *map(str, chosen)])


def changes_of(row: Row) -> tuple[str, ...]:
    """What the attempts of a run had different; the files of their code are compared."""
    if not row["code_files"]:
        return tuple(row["changes"])
    return tuple(line for line in row["changes"] if " codes; " not in line)


def in_words(made_by: MadeBy, newest: Row) -> dict[str, str]:
    """What made the numbers besides the settings, as it stands in a table, by title."""
    samples = ", ".join(f"{split} {rows[:HASH_CHARACTERS]}" for split, rows in made_by.samples)
    return {
        **dict(made_by.seeds),
        "data": short_hash(made_by.data) if newest["data"] else made_by.data or NOT_RECORDED,
        "samples": samples or "of the file",
        "started from": short_hash(made_by.started_from, "random weights"),
        "tested weights": made_by.tested,
        **dict.fromkeys(RESOLVED.values(), NOT_RECORDED),
        **dict(made_by.resolved),
        "attempts": "; ".join(made_by.changes) or "alike",
        "status": newest["status"],
        "run": newest["run_id"],
    }


def short_hash(text: str | None, otherwise: str = NOT_RECORDED) -> str:
    return text[:HASH_CHARACTERS] if text else otherwise


# What a reader of means must know.


def remarks_on(experiments: list[Experiment], over: tuple[str, ...] = ()) -> list[str]:
    """A line for each thing about these experiments that their means do not show."""
    several = [experiment for experiment in experiments if len(experiment.rows) > 1]
    remarks = []
    n_older = sum(len(experiment.older) for experiment in experiments)
    if n_older:
        remarks.append(f"left out: {counted(n_older, 'older run')} with the same settings and seed")
    rows = [row for experiment in several for row in experiment.rows]
    without_code = [row for row in rows if short_commit(row) == NOT_RECORDED]
    if without_code:
        remarks.append(
            f"the code of {counted(len(without_code), 'run')} was not recorded: it may differ"
        )
    for experiment in several:
        remarks += equal_runs(experiment)
        if FOLD in over:
            remarks += missing_folds(experiment)
    return remarks


def remarks_on_folds(metrics: list[str], over: tuple[str, ...]) -> list[str]:
    """Which samples a mean over folds is of."""
    if FOLD not in over:
        return []
    held_out = any(split_of(name) == "val" for name in metrics)
    tested = [name for name in metrics if split_of(name) == "test"]
    remarks = ["val/ is of the rows that each fold held out"] if held_out else []
    if tested:
        remarks.append(f"{', '.join(tested)}: the same samples in every fold")
    return remarks


def missing_folds(experiment: Experiment) -> list[str]:
    """A line where not every seed has every fold: then some folds count more often than others."""
    pairs = {(as_text(value_of(row["settings"], FOLD)), seed_of(row)) for row in experiment.rows}
    missing = sorted({*product(*map(set, zip(*pairs, strict=True)))} - pairs)
    named = ", ".join(f"fold {fold} of seed {seed}" for fold, seed in missing)
    line = f"the folds of trial {experiment.rows[0]['trial']} do not count alike in the mean, missing: {named}"
    return [f"{line}. Or leave out a seed: 'seed!={missing[0][1]}'"] if missing else []


def remarks_on_code(experiments: list[Experiment]) -> list[str]:
    """Which files of the code of each trial differ, and since which commit."""
    codes = {}
    rows = []
    for experiment in experiments:
        members = [*experiment.rows, *experiment.older]
        rows += members
        codes |= {row["run_dir"]: experiment.code for row in members}
    return code_remarks(rows, codes)


def equal_runs(experiment: Experiment) -> list[str]:
    """A line for each set of runs whose results are equal to the last digit in spite of their seeds."""
    results: dict[tuple, list[Row]] = defaultdict(list)
    for row in experiment.rows:
        results[result_of(row)].append(row)
    return [
        f"seeds {', '.join(seed_of(row) for row in reversed(equal))} of trial {equal[0]['trial']} "
        "gave equal results to the last digit: does the training follow the seed? "
        f"To see what does not: lab check trial={equal[0]['trial']}"
        for result, equal in results.items()
        if result and len(equal) > 1
    ]


def result_of(row: Row) -> tuple:
    """The metrics of a run that a repetition must have again, without times and speed."""
    metrics = row["metrics"]
    return tuple(
        (name, as_text(metrics[name])) for name in sorted(metrics) if not SPEED.match(name)
    )


def numbers_of(experiment: Experiment, metric: str) -> list[float]:
    """The values of a metric, of the runs that have it as a number, which may be NaN or infinite."""
    values = [number(row["metrics"].get(metric)) for row in experiment.rows]
    return [float(value) for value in values if is_number(value)]


def pairs_of(
    first: Experiment, second: Experiment, metric: str, over: tuple[str, ...]
) -> list[tuple[float, float]]:
    """The values of a metric in both experiments, of each seed that both have on the same samples."""
    is_of_run = not metric_and_place(metric)[1]  # `lab eval` measures whole splits
    values = [
        {
            (unit_of(row, over), is_of_run and evaluated_on(row, metric).part): float(
                row["metrics"][metric]
            )
            for row in experiment.rows
            if is_number(row["metrics"].get(metric))
        }
        for experiment in (first, second)
    ]
    return [(values[0][unit], values[1][unit]) for unit in values[0] if unit in values[1]]
