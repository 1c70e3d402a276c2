"""What the tests of training do with their project."""

import json
import os
import subprocess

from projects import call, warm_process

SHORT = ("trainer=cpu", "trainer.max_epochs=2", "trainer.threads=1")


def last(folder):
    return json.loads(call(folder, "lab", "runs", "show", "@last", "--json"))


def first(folder):
    """The run with which the project of `home` was made: two epochs of the baseline."""
    return json.loads(call(folder, "lab", "runs", "list", "trial=baseline", "--json"))[0]


def rows(record):
    with open(f"{record['run_dir']}/metrics.jsonl") as file:
        return [json.loads(line) for line in file]


def add_trial(folder, name, **files):
    trial = folder / "src/myproj/trials" / name
    trial.mkdir()
    (trial / "__init__.py").touch()
    for file, text in files.items():
        (trial / file.replace("_", ".")).write_text(text)


def start(folder, *settings, command="train", until="epoch 2/", **variables):
    """A training in the background, in a session of its own, and its lines up to the one that begins with `until`.

    None does not wait for any.
    """
    environment = (
        os.environ | {"PYTHONPATH": str(folder / "src"), "PYTHONUNBUFFERED": "1"} | variables
    )
    words = [command, *settings]
    process = warm_process().start("labrig", words, folder, environment, subprocess.STDOUT)
    if until is None:
        return process, []
    lines = []
    for line in process.stdout:  # ends with the process
        lines.append(line)
        if line.startswith(until):
            return process, lines
    raise AssertionError("".join(lines))
