"""Runs a script as it is: as `__main__` of processes of its own, with the record of a training.

What these processes do is in script_process.py; here is the process of `lab train`, which has the record.

Its words are what the settings `args` and `argv` give, and no more. What kind an option is, such as a
switch or a list, says the script's own parser when it is about to read them: see `fit_words`.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from ... import env
from ...config.overrides import in_quotes
from ...config.program import script_of
from ...config.recorded import read_recorded
from ...config.resolve import load_variables, plain_values
from ...errors import Failed, LabError
from ...failure import debugging
from ...machine.ranks import discover
from ...machine.stop import PREEMPTION_SIGNALS, STOP
from ...project import this_project
from ...record.files.metrics_file import last_metrics, read_metrics
from ...record.freeze.imported import Policy
from ...record.read.attempt_files import program_report
from ...record.read.run import Run
from ...record.write.recording import Recording
from ..exact.stopped import Stopped
from .program_log import stopped

PROCESS = "labrig.training.start.script_process"
POLL_S = 0.2
WRONG_WORDS = 2  # the exit code of argparse and click


def attempt_config(run: Run, attempt: int) -> Path:
    """The configuration of an attempt that was resumed with other settings than the run's."""
    return run.dir / "attempts" / str(attempt) / "config.yaml"


def attempt_of_process() -> tuple[Run, int, DictConfig]:
    """The run and the attempt that this process works on, with the settings as they were written."""
    load_variables(this_project())
    run = Run.open(Path(os.environ[env.RUN_DIR]))
    attempt = int(os.environ[env.ATTEMPT])
    file = attempt_config(run, attempt)
    return run, attempt, read_recorded(file if file.exists() else run.dir / "config.yaml")


def policy_of(config: DictConfig) -> Policy:
    """What to do about files that the freeze left out."""
    return Policy(config.record.code, config.record.unfrozen)


def find_script(config: Any) -> Path | str:
    """The file of a trial's script, or the name of its module."""
    program = script_of(config) or ""
    trial = config["trial"].partition("/")[0]
    if program.startswith("-m "):
        module = program.removeprefix("-m ").strip()
        with suppress(ModuleNotFoundError, ValueError):
            if importlib.util.find_spec(module):
                return module
        raise LabError(
            f"program: {program}: there is no module {module}. Correct its name in config.yaml, or type: "
            f"make add PACKAGE={module.partition('.')[0]}"
        )
    folder = this_project().source / "trials" / trial
    file = folder / program
    if not program.endswith(".py") or not file.is_file():
        names = ", ".join(path.name for path in sorted(folder.glob("*.py"))[:8]) or "none"
        raise LabError(
            f"program: {program!r} is no Python file of trials/{trial}/ (there: {names}). "
            "A module is written program: -m MODULE"
        )
    return file


def check_script(config: Any) -> None:
    """Makes sure that there is a script, that Python can read it, and that its words are clear."""
    script = find_script(config)
    if config["profile"]:
        raise LabError(f"profile has no effect on a script. Type: python -m cProfile {script}")
    words_of(plain_values(config)["args"], config["argv"], config["style"])
    n_processes_of(config)
    if isinstance(script, Path):
        try:
            compile(script.read_bytes(), script, "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            raise LabError(f"{script} cannot be read by Python: {error}") from error


def n_processes_of(config: DictConfig) -> int:
    """How many processes `trainer.devices` asks for; `auto` is one."""
    devices = str(config.trainer.devices).replace("auto", "1")
    if devices.isdecimal() and int(devices) > 0:
        return int(devices)
    raise LabError(
        f"trainer.devices is {devices}; a program takes the number of its processes: trainer.devices=2"
    )


def begin(recording: Recording, world_size: int) -> None:
    """Begins the record of an attempt of a program."""
    recording.check_code()  # the code that runs is the code that was frozen
    recording.begin(
        world_size=world_size,
        accelerator="gpu" if os.environ.get("CUDA_VISIBLE_DEVICES") else "cpu",
        data={"not_recorded": "a program reads its data itself"},
    )


def run_script(config: DictConfig, run: Run, recording: Recording) -> None:
    """One attempt of a script. A resumed one is started again: it finds its files in `log.checkpoints`."""
    check_script(config)
    ranks = discover()
    n_processes = n_processes_of(config)
    if ranks.world_size > 1 and n_processes not in (1, ranks.local_size):
        raise LabError(
            f"trainer.devices={n_processes}, but {ranks.source} has started {ranks.local_size} processes here. "
            "Leave out trainer.devices"
        )
    begin(recording, max(n_processes, ranks.world_size))
    command = [sys.executable]
    if ranks.world_size == 1 and n_processes > 1:
        command += [
            *("-m", "torch.distributed.run", "--standalone"),
            f"--nproc-per-node={n_processes}",
        ]
    STOP.listen(*PREEMPTION_SIGNALS)
    process = subprocess.Popen([*command, "-m", PROCESS], env=variables(config, run, recording.n))
    code = wait_for(process)
    said = program_report(run.dir, recording.n)
    recording.metrics = last_metrics(run.dir)
    recording.measured["peak_memory_bytes"] = (
        resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    )
    add_code(recording, said)
    if ranks.rank:
        sys.exit(code)
    step = max((row["step"] for row in read_metrics(run.dir)), default=0)
    raise_end(code, said, run, step)
    recording.measured["global_step"] = step


def variables(config: DictConfig, run: Run, attempt: int) -> dict[str, str]:
    """The environment of the script's processes."""
    added = {env.RUN_DIR: str(run.dir), env.ATTEMPT: str(attempt), env.SEED: str(config.seed)}
    ranks = discover()
    if ranks.world_size > 1 and ranks.source != "torchrun":
        # What torch.distributed, accelerate and Hugging Face's Trainer read. The port after ours is theirs.
        added |= {
            "RANK": str(ranks.rank),
            "WORLD_SIZE": str(ranks.world_size),
            "LOCAL_RANK": str(ranks.local_rank),
            "LOCAL_WORLD_SIZE": str(ranks.local_size),
            "MASTER_ADDR": ranks.main_address,
            "MASTER_PORT": str(ranks.main_port + 1),
        }
    if config.trainer.accelerator == "cpu":
        added["CUDA_VISIBLE_DEVICES"] = ""
    # The order of a set of texts
    return {"PYTHONHASHSEED": str(config.seed % 2**32), **os.environ, **added}


def wait_for(process: subprocess.Popen[bytes]) -> int:
    """The exit code of a process, to which a request to stop is passed on as TERM."""
    told = False
    while True:
        try:
            return process.wait(POLL_S)
        except subprocess.TimeoutExpired:
            if STOP.signum and not told:
                told = True
                process.terminate()
        except KeyboardInterrupt:
            if STOP.signum == signal.SIGINT:  # pressed twice
                process.kill()
            STOP.signum = signal.SIGINT
            told = True
            if not os.isatty(0):  # a terminal tells all its processes itself
                process.send_signal(signal.SIGINT)


def add_code(recording: Recording, said: dict[str, Any]) -> None:
    """Adds the files that the script has imported and read to those of this process."""
    ran = recording.ran
    code = said.get("code")
    if not code:
        ran.imported = None  # nobody knows what ran
    elif ran.imported:
        ran.not_frozen += code["not_frozen"]
        ran.imported.used |= code["used"]


def raise_end(code: int, said: dict[str, Any], run: Run, step: int) -> None:
    """Raises what a script's end means, which its report says; nothing where it is finished."""
    if how := said.get("stopped"):
        raise Stopped(**how)
    if STOP.signum == signal.SIGINT or said.get("interrupted"):
        STOP.signum = 0
        raise KeyboardInterrupt
    if STOP.signum and not (code == 0 and said.get("listens")):
        raise stopped(run.dir, run.checkpoints, step)
    if code == 0:
        return
    reason = said.get("failed") or f"it ended with exit code {code}"
    if code == WRONG_WORDS and run.config.get("args"):
        reason += (
            f". Its options: lab train trial={run.trial} -- --help\n"
            "Words behind -- reach it as they are typed"
        )
    if code < 0:
        name = signal.Signals(-code).name
        reason = f"it was killed by {name}" + (
            ". Often the memory was full: lab docs memory" if name == "SIGKILL" else ""
        )
    error = Failed(f"{script_of(run.config)} failed: {reason}")
    if said.get("traceback") and not debugging():
        error.add_note(said["traceback"])
    raise error


PLAIN = re.compile(r"[\w./@:+-]+", re.ASCII)  # a value of key=value that Hydra reads without quotes


def options_in(args: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The options of the section `args`: name, as `lr` or `trainer.max_epochs`, and value; null is not passed."""
    for key, value in args.items():
        if isinstance(value, dict):
            yield from options_in(value, f"{prefix}{key}.")
        elif value is not None:
            yield f"{prefix}{key}", value


def words_of(args: Mapping[str, Any], argv: Sequence[Any], style: str) -> list[str]:
    """The words after the name of the script.

    Args:
        style: `--key=value`, or `key=value` for a script of Hydra.
    """
    words = [str(word) for word in argv]
    given = {word.partition("=")[0] for word in words}
    is_hydra = style == "key=value"
    for name, value in options_in(args):
        key = name if is_hydra else flag_of(name)
        if key in given:
            raise LabError(
                f"{key} is given twice: by args.{name} and by argv. Type args.{name}=VALUE, "
                f"or take it out of the trial with args.{name}=null"
            )
        words += [f"{name}={for_hydra(value)}"] if is_hydra else words_for(name, value)
    return words


def flag_of(name: str) -> str:
    return f"-{name}" if len(name) == 1 else f"--{name}"


def words_for(name: str, value: Any) -> list[str]:
    """How an option is written where nothing is known of its kind: a list as several words."""
    if isinstance(value, list):
        return [flag_of(name), *map(str, value)]
    return [f"-{name}", str(value)] if len(name) == 1 else [f"--{name}={value}"]


def for_hydra(value: Any) -> str:
    """A value in the grammar of Hydra."""
    if isinstance(value, list):
        return f"[{','.join(map(for_hydra, value))}]"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if PLAIN.fullmatch(text) else in_quotes(text)


def typed_texts(overrides: Sequence[str]) -> dict[str, str]:
    """What was typed for each option, as `1.50`, of which Hydra makes the number 1.5."""
    pairs = (word.lstrip("+").partition("=") for word in overrides)
    return {key.removeprefix("args."): text for key, _, text in pairs if key.startswith("args.")}


def fit_words(
    parser: argparse.ArgumentParser,
    words: list[str],
    options: Mapping[str, Any],
    typed: Mapping[str, str],
) -> list[str]:
    """`words` with each of `options` that the parser knows written as its kind wants.

    Ends the program with the parser's message where a switch cannot have the value, or where a text
    that was `typed` would become another one.
    """
    for name, value in options.items():
        # argparse says nowhere else which option a word means
        action = parser._option_string_actions.get(flag_of(name))
        written = words_for(name, value)
        places = [n for n in range(len(words)) if words[n : n + len(written)] == written]
        if action and places:
            _refuse_other_text(parser, action, name, value, typed.get(name))
            fitting = fit_words_of(parser, action, name, value)
            words = [*words[: places[0]], *fitting, *words[places[0] + len(written) :]]
    return words


def _refuse_other_text(
    parser: argparse.ArgumentParser,
    action: argparse.Action,
    name: str,
    value: Any,
    typed: str | None,
) -> None:
    is_text = action.type in (None, str) and action.nargs != 0
    if typed is None or not is_text or not isinstance(value, bool | int | float):
        return
    if typed != str(value):
        parser.error(
            f"args.{name}={typed} is read as {value}, and {flag_of(name)} takes a text. "
            f"Type: 'args.{name}=\"{typed}\"'"
        )


def fit_words_of(
    parser: argparse.ArgumentParser, action: argparse.Action, name: str, value: Any
) -> list[str]:
    """How an option is written for its action."""
    flag = flag_of(name)
    if isinstance(action, argparse.BooleanOptionalAction) and isinstance(value, bool):
        off = next(name for name in action.option_strings if name.startswith("--no-"))
        return [flag if value else off]
    if action.nargs == 0 and isinstance(value, bool):  # by its presence
        if not value and action.default is not None and action.default == action.const:
            parser.error(f"args.{name}: false, but {flag} is on without being given")
        return [flag] if value else []
    if action.type is bool and isinstance(value, bool):  # of which bool("False") makes True
        return words_for(name, value or "")
    if isinstance(value, list) and action.nargs is None:  # --add a --add b
        return [word for item in value for word in words_for(name, item)]
    return words_for(name, value)
