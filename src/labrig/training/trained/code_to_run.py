"""With which code, weights and data a run is used: its own code, or that of today."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from omegaconf import DictConfig

from ...config.overrides import SettingsParser, parse_overrides
from ...config.recorded import read_recorded, with_changes
from ...config.resolve import load_variables, plain_values, resolve
from ...errors import LabError
from ...hdf5.file.find import read_data_section, section_of_trial
from ...project import Project
from ...record.files.code_section import library_name, same_code
from ...record.files.schema import Code
from ...record.freeze.frozen import freeze_code
from ...record.freeze.git import GitFailed
from ...record.read.run import Run, typed_overrides
from ...record.read.settings import ABSENT
from ...record.reproduce.today import files_that_differ, format_names
from ...record.write.ran import RanCode

MAY_CHANGE = ("trainer.", "data.")
SPLIT = "split="
OTHER_DATA = "data="
PLACE_OF_DATA = ("path", "search", "pack", "stored")  # settings that say where the file lies
SAMPLES_OF_DATA = ("folds", "fold", "fraction", "stratify")  # that choose among the run's own


def code_to_run(run: Run, project: Project, today: bool, verb: str) -> Code | None:
    """The code that this process runs; None when the frozen code of the run must be used instead.

    Args:
        today: use the code of today, also where it differs.
        verb: what the code does, for a line about it: "evaluates".
    """
    difference = difference_of_code(run, project)
    if not difference:
        return run.record["code"]
    if not today:
        print(f"lab: {verb} with the code of {run.id}, since {difference}", file=sys.stderr)
        return None
    print(f"lab: {verb} with the code of today; {difference}", file=sys.stderr)
    return freeze_today(run, project)


def difference_of_code(run: Run, project: Project) -> str | None:
    """How the code of today differs from that of a run; None when it does not.

    A run whose code was not recorded can be evaluated with the code of today only.
    """
    code = run.record["code"]
    commit = code.get("commit")
    if not commit:
        print(f"lab: the code of {run.id} was not recorded; this is that of today", file=sys.stderr)
        return None
    try:
        names = files_that_differ(code, project)
    except GitFailed:
        return f"the commit {commit[:12]} is not in this repository"
    return format_names(names) if names else None


def facts_of_code(run: Run, code: Code, ran: RanCode) -> dict[str, Any]:
    """What a row about the use of a run says of the code that ran.

    Returns:
        As in start.json: `commit`, `library`, `same` (as the run's), `complete`, `not_frozen`.
    """
    same = same_code(code, run.record["code"])
    facts = {"commit": code.get("commit"), "library": library_name(code), "same": same}
    return facts | ran.check_late()


def add_choices(parser: SettingsParser) -> None:
    """Adds --checkpoint and --today to a command that uses a run."""
    parser.add_argument(
        "--checkpoint",
        metavar="NAME",
        help="last, best or previous; default: that of the recorded numbers",
    )
    parser.add_argument(
        "--today", action="store_true", help="with the code of today, not that of the run"
    )


def read_choices(parser: SettingsParser, args: list[str]) -> argparse.Namespace:
    """What was typed: `data` and `split`, None where they were not; `settings` are the others."""
    options = parser.read(args)
    options.split, settings = take_word(SPLIT, options.overrides)
    options.data, options.settings = take_word(OTHER_DATA, settings)
    return options


def take_word(beginning: str, words: list[str]) -> tuple[str | None, list[str]]:
    """The end of the last word with this beginning, such as `split=`, and the words without it."""
    typed = [word.removeprefix(beginning) for word in words if word.startswith(beginning)]
    others = [word for word in words if not word.startswith(beginning)]
    return (typed[-1] if typed else None), others


def config_to_run(
    project: Project, run: Run, data_name: str | None, settings: list[str], advice: str
) -> DictConfig:
    """The configuration of a run with the data and the settings that were typed.

    Args:
        advice: for whoever types a setting that cannot change here.
    """
    load_variables(project)
    recorded = read_recorded(run.dir / "config.yaml")
    if data_name:
        take_data(recorded, project, run, data_name)
    return resolve(with_changes(recorded, settings, MAY_CHANGE, advice))


def take_data(config: DictConfig, project: Project, run: Run, name: str) -> None:
    """Puts another data set into the configuration of a run, as its YAML in the project says today.

    As in a training, what the trial or the command line set of the data wins over that YAML.
    Prints which settings other than the place of the file differ from those of the run.
    """
    section = read_data_section(Project(project.root, project.package), name)
    if "defaults" in section:
        raise LabError(
            f"data={name} builds on other files (`defaults:`), which is not composed here. "
            f"Name the file: data.path={section['path']}"
        )
    before = plain_values(resolve(config).data)
    wins = set_over_data(project, run)
    own = plain_values(config)["data"]
    config.data = section | {key: value for key, value in own.items() if key in wins}
    config.paths.data = list(map(str, project.paths.data))
    after = plain_values(resolve(config).data)
    keys = [key for key in {**before, **after} if key not in PLACE_OF_DATA]
    changes = [
        f"{key} {old} -> {new}"
        for key in keys
        if (old := before.get(key, ABSENT)) != (new := after.get(key, ABSENT))
    ]
    if changes:
        print(
            f"lab: data={name} has other settings than the run: {'; '.join(changes)}",
            file=sys.stderr,
        )


def set_over_data(project: Project, run: Run) -> set[str]:
    """The settings of data that the project, the trial or the command line of a run gave for any data."""
    trial, _, variant = run.trial.partition("/")
    folder = project.source / "trials" / trial
    files = [
        project.source / "conf/config.yaml",
        folder / "config.yaml",
        folder / f"{variant}.yaml",
    ]
    typed = parse_overrides(typed_overrides(run.dir))
    names = [override.key_or_group.split(".") for override in typed]
    keys = {key for file in files for key in section_of_trial(file)}
    keys |= {name[1] for name in names if name[0] == "data" and len(name) > 1}
    return keys.difference(PLACE_OF_DATA, SAMPLES_OF_DATA)


def freeze_today(run: Run, project: Project) -> Code:
    """Freezes the code of today, so that the record of an evaluation can name it."""
    return freeze_code(
        project,
        run.runs,
        run.trial,
        allow=run.record["allow"] or False,
        max_file_mb=run.record["max_file_mb"] or 10,
    )
