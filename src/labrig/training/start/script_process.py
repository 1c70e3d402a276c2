"""A process that becomes a script: `python -m labrig.training.start.script_process`, started by script.py.

The script is `__main__`, works in the directory of the run, and draws from seeded generators. The first
process reports how it ended, and what its own parser made of the words.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import os
import random
import runpy
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from ...command_parser import UNKNOWN
from ...config.resolve import plain_values, resolve
from ...errors import nearest
from ...failure import advice_for, last_place, message_of, place_of
from ...machine.ranks import discover
from ...machine.secrets import hide_secrets, says_secret
from ...machine.stop import STACKS, STOP, stacks_on_request
from ...project import this_project
from ...record.files.manifest import write_listed
from ...record.freeze.loading import OWN, SourceLoader
from ...record.read.attempt_files import PROGRAM, read_attempt
from ...record.read.run import typed_overrides
from ...record.write.ran import RanCode, code_of_process, imported_code, places_in
from ..exact.stopped import Stopped
from .script import (
    attempt_of_process,
    find_script,
    fit_words,
    options_in,
    policy_of,
    typed_texts,
    words_of,
)

MAX_TEXT = 1000  # characters of a recorded value


def main() -> None:
    """Becomes the script; never returns."""
    project = this_project()
    run, attempt, written = attempt_of_process()
    config = resolve(written)
    code = code_of_process(run, read_attempt(run.dir, attempt).start)
    OWN.watch(project.root)
    ran = RanCode(imported_code(project, code), policy_of(config), places_in(config.paths))
    settings = plain_values(config)
    args = settings["args"]
    words = words_of(args, settings["argv"], settings["style"])
    name = f"attempts/{attempt}/{PROGRAM}" if discover().rank == 0 else None
    report = ScriptReport(run.dir, name, words)
    report.write()
    overrides = read_attempt(run.dir, attempt).start.get("overrides") or []
    typed = typed_texts([*typed_overrides(run.dir), *overrides])
    watch_parsers(report, dict(options_in(args)), typed)
    when_imported("click.core", lambda module: watch_click(report, module.Command))
    seed_generators(config.seed)
    script = find_script(config)
    trial = project.source / "trials" / config.trial.partition("/")[0]
    sys.path.insert(0, str(trial))  # as in the directory of a repository that has tools/train.py
    os.chdir(run.dir)
    stacks = STACKS.format(rank=discover().rank)
    with stacks_on_request(run.dir / "attempts" / str(attempt) / stacks):
        run_as_main(script, words, report, ran)


class ScriptReport:
    """What the process of `lab train` reads: the words, what was parsed of them, and the end."""

    def __init__(self, run_dir: Path, name: str | None, words: list[str]) -> None:
        self.run_dir = run_dir
        self.name = name  # None on the other ranks
        self.said: dict[str, Any] = {"argv": [hide_secrets(word) for word in words], "parsed": {}}

    def add_parsed(self, namespace: Any) -> None:
        """Adds what a parser has made of the words."""
        parsed = plain(namespace)
        if isinstance(parsed, dict):
            self.said["parsed"] |= parsed
            self.write()

    def write(self) -> None:
        if self.name:
            write_listed(self.run_dir, self.name, self.said)

    def end(self, ran: RanCode, **how: Any) -> None:
        """Adds how the script ended, and the code that ran."""
        self.said |= how | {"listens": STOP.is_listening(), "code": ran.check_late()}
        self.write()


def plain(value: Any, name: str = "") -> Any:
    """A parsed value as JSON has it; of another object its text, of a secret nothing."""
    if says_secret(name) and value is not None:
        return "(not recorded)"
    if isinstance(value, argparse.Namespace):  # jsonargparse has them inside another
        value = vars(value)
    if isinstance(value, dict):
        return {str(key): plain(item, str(key)) for key, item in value.items()}
    if isinstance(value, set | frozenset):  # whose order the seed decides
        value = sorted(value, key=str)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    # A job runs the code at another place.
    text = str(value).replace(f"{this_project().root}/src/", "src/")
    return hide_secrets(text)[:MAX_TEXT]


def watch_parsers(
    report: ScriptReport, options: Mapping[str, Any], typed: Mapping[str, str]
) -> None:
    """Has every parser of argparse, also one of a class of its own, report what it parsed.

    Right before it reads the words, those of `args` are written as the kind of each option wants.
    """
    parser: Any = argparse.ArgumentParser
    known, leave = parser.parse_known_args, parser.exit
    depth = 0

    def with_fitting_words(
        self: Any, args: Sequence[str] | None = None, *rest: Any, **named: Any
    ) -> Any:
        sys.argv[1:] = fit_words(self, sys.argv[1:], options, typed)
        report.said["argv"] = [hide_secrets(word) for word in sys.argv[1:]]
        words = sys.argv[1:] if args is None else fit_words(self, list(args), options, typed)
        return known(self, words, *rest, **named)

    def reporting(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def parse(*args: Any, **kwargs: Any) -> Any:
            nonlocal depth
            depth += 1
            try:
                parsed = method(*args, **kwargs)
            finally:
                depth -= 1
            if not depth:  # what the outermost call gives is what the script gets
                report.add_parsed(parsed[0] if isinstance(parsed, tuple) else parsed)
            return parsed

        return parse

    def watch(kind: type) -> None:
        for name in {"parse_args", "parse_known_args"} & vars(kind).keys():
            setattr(kind, name, reporting(vars(kind)[name]))

    def exit_with_reason(self: Any, status: int = 0, message: str | None = None) -> Any:
        if message:
            report.said["failed"] = message.strip() + option_that_was_meant(self, message)
        leave(self, status, message)

    parser.parse_known_args, parser.exit = with_fitting_words, exit_with_reason
    watch(parser)
    parser.__init_subclass__ = classmethod(watch)


def option_that_was_meant(parser: argparse.ArgumentParser, message: str) -> str:
    """The end of argparse's message about an option that it does not know; "" where none is near."""
    option = message.partition(UNKNOWN)[2].partition(" ")[0].partition("=")[0].strip()
    return nearest(option, parser._option_string_actions) if option.startswith("--") else ""


def watch_click(report: ScriptReport, command: Any) -> None:
    """Has every command of click report what it parsed."""
    make = command.make_context

    def reporting(*args: Any, **named: Any) -> Any:
        context = make(*args, **named)
        report.add_parsed(context.params)
        return context

    command.make_context = reporting


def when_imported(name: str, act: Callable[[Any], None]) -> None:
    """Acts on a module, now or in the moment in which it is imported: a script need not wait for it."""
    if name in sys.modules:
        act(sys.modules[name])
    else:
        sys.meta_path.insert(0, WhenImported(name, act))


@dataclass
class WhenImported(MetaPathFinder):
    """Acts on a module once it is executed."""

    name: str
    act: Callable[[Any], None]

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec and spec.loader:
            execute = spec.loader.exec_module

            def execute_and_act(module: Any) -> None:
                execute(module)
                self.act(module)

            spec.loader.exec_module = execute_and_act  # type: ignore[method-assign]
        return spec


def seed_generators(seed: int) -> None:
    """Seeds the generators that a program may use without saying so: of Python, NumPy and torch."""
    import numpy as np

    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002, libraries draw from it
    when_imported("torch", lambda module: module.manual_seed(seed))


def run_as_main(script: Path | str, words: list[str], report: ScriptReport, ran: RanCode) -> None:
    """Executes the script in the module `__main__`, and ends this process as it ends."""
    sys.argv = [str(script), *words]
    try:
        if isinstance(script, str):
            runpy.run_module(script, run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, str(script.parent))
            loader: Any = SourceLoader("__main__", str(script), OWN)
            module = sys.modules["__main__"] = ModuleType("__main__")
            module.__file__, module.__loader__ = str(script), loader
            exec(loader.get_code("__main__"), vars(module))
    except Stopped as stop:
        how = {"requeue": stop.requeue, "signum": stop.signum, "has_saved": stop.has_saved}
        report.end(ran, stopped={"step": stop.step} | how)
        sys.exit(stop.exit_code)
    except KeyboardInterrupt:
        report.end(ran, interrupted=True)
        sys.exit(130)
    except SystemExit as leave:
        if leave.code not in (None, 0):
            code = leave.code
            text = f"it ended with exit code {code}" if isinstance(code, int) else str(code)
            report.said.setdefault("failed", text)
        report.end(ran)
        raise
    except BaseException as error:
        trace = error.__traceback__
        error.__traceback__ = (trace and trace.tb_next) or trace  # without this function
        text = "".join(traceback.format_exception(error))
        place, advice = place_of(error) or last_place(error), advice_for(error)
        how = [str(line) for line in (message_of(error), place, advice) if line]
        report.end(ran, failed="\n".join(how), traceback=hide_secrets(text))
        print(text, file=sys.stderr, flush=True)
        sys.exit(1)
    report.end(ran)
    sys.exit(0)


if __name__ == "__main__":
    main()
