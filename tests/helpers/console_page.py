"""Runs the commands of a page in one shell, and compares what they print with what the page shows.

A block of type `console` holds commands, each after "$ ", and their output. A block after `<!-- file: NAME -->` is
written to that file. What differs from run to run is compared by its kind (see MASKS). A line `...` stands for any
lines. A comment `# exit code N` behind a command is its exit code; without one it is 0.
"""

import re
import socket
import subprocess
import uuid
from dataclasses import dataclass
from pathlib import Path

HOME = "/home/ada"  # of the person on the page
HOST = "laptop"
ANY_LINES = "..."
MASKS = (
    (r" in \S*/runs/", " in runs/"),
    (r"\b\d{8}-\d{6}-[0-9a-f]{6}\b", "RUN"),
    (r"\bjob \d+(-\d+)?\b", "job N"),  # before the hashes: it may be as long as one
    (r"\b(?=[0-9a-f]*\d)[0-9a-f]{7,64}\b", "HASH"),
    (r"\b\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d+)?(\+00:00)?)?)?", "DATE"),
    (r"\b\d+:\d\d(:\d\d)?\b", "TIME"),
    (r"\b(Python|torch) [\d.]+(\+\w+)?", r"\1 VERSION"),
    (r"\b\d+ packages\b", "N packages"),
    (r"(?<![\w.])-?\d+(\.\d+)?e[+-]?\d+\b", "NUMBER"),
    (r"(?<![\w.])-?\d+\.\d+\b(?!\.)", "NUMBER"),
    (r"\b\d+ ?(s|ms|µs|[kMG]?B|%)(?!\w)", r"NUMBER \1"),
    (r" on (ext4|xfs|btrfs|overlay|tmpfs|nfs4?|lustre)\b", " on DISK"),
    (r"[ \t]+", " "),
)
EXIT_CODE = re.compile(r"# exit code (\d+)$")


@dataclass(frozen=True)
class File:
    """A file that the reader writes."""

    path: str
    text: str
    shown = ()


@dataclass(frozen=True)
class Command:
    """A command with the lines that the page shows below it."""

    text: str
    shown: tuple[str, ...]
    line: int  # of the page, counted from 0

    @property
    def exit_code(self):
        found = EXIT_CODE.search(self.text)
        return int(found[1]) if found else 0


def steps_of(page):
    """The files and commands of a page, in order."""
    steps = []
    name, info, began, lines = None, None, 0, []
    for number, line in enumerate(page.split("\n")):
        if info is None and line.startswith("<!-- file: "):
            name = line.removeprefix("<!-- file: ").removesuffix(" -->")
        elif info is None and line.startswith("```"):
            info, began, lines = line[3:], number + 1, []
        elif line == "```":
            if info == "console":
                steps += commands_of(lines, began)
            elif name:
                steps.append(File(name, "\n".join(lines) + "\n"))
                name = None
            info = None
        elif info is not None:
            lines.append(line)
    return steps


def commands_of(lines, began):
    starts = [n for n, line in enumerate(lines) if line.startswith("$ ")]
    assert starts[:1] == [0], f"line {began + 1}: a block of commands begins with one"
    ends = [*starts[1:], len(lines)]
    return [
        Command(lines[start][2:], tuple(lines[start + 1 : end]), began + start)
        for start, end in zip(starts, ends, strict=True)
    ]


class Shell:
    """A bash that keeps its directory and variables from command to command, as a terminal does."""

    def __init__(self, home, environment):
        self.home = home
        self.process = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=home,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            bufsize=1,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(timeout=60)
        self.process.stdout.close()

    def run(self, command):
        """(exit code, lines); the home directory is shown as that of the page."""
        end = f"end-{uuid.uuid4().hex}"
        self.process.stdin.write(f"{command}\nprintf '\\n{end} %s\\n' $?\n")
        self.process.stdin.flush()
        lines = []
        for line in self.process.stdout:
            if line.startswith(end):
                break
            line = line.rstrip().replace(str(self.home), HOME)
            lines.append(re.sub(rf"\b{re.escape(socket.gethostname())}\b", HOST, line))
        else:
            raise AssertionError(f"the shell ended after: {command}\n" + "\n".join(lines))
        while lines and not lines[-1]:
            lines.pop()
        return int(line.split()[1]), lines

    def do(self, step):
        """Writes a file, or runs a command; returns what it prints. Another exit code fails the test."""
        if isinstance(step, File):
            self.write(step)
            return []
        exit_code, printed = self.run(step.text)
        assert exit_code == step.exit_code, "\n".join([step.text, *printed])
        return printed

    def directory(self):
        return Path(self.run("pwd")[1][0].replace(HOME, str(self.home)))

    def write(self, file):
        path = self.directory() / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text, encoding="utf-8")


def masked(line):
    for pattern, name in MASKS:
        line = re.sub(pattern, name, line)
    return line.strip()


def same(shown, printed):
    """Whether printed lines are those of the page, with `...` for any lines."""
    parts = [".*" if line == ANY_LINES else re.escape(masked(line)) + "\n" for line in shown]
    return bool(
        re.fullmatch("".join(parts), "".join(f"{masked(line)}\n" for line in printed), re.DOTALL)
    )


def with_outputs(page, outputs):
    """The page with other lines below some commands: {Command: lines}."""
    lines = page.split("\n")
    for command in sorted(outputs, key=lambda command: command.line, reverse=True):
        start = command.line + 1
        lines[start : start + len(command.shown)] = outputs[command]
    return "\n".join(lines)
