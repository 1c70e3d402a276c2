"""The `lab` commands that the pages of a project name, in blocks and in the text."""

import re
import shlex
from dataclasses import dataclass
from itertools import pairwise

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"`(lab [^`]+)`")
SHELLS = ("", "bash", "sh", "console")
# What a page writes in place of the reader's own words
LEFT_OUT = {"…", "...", "key=value"}


@dataclass(frozen=True)
class Typed:
    """A command as a page names it."""

    page: str
    text: str
    words: tuple[str, ...]  # after `lab`; a command behind `--` is left out

    @property
    def options(self):
        return [word.partition("=")[0] for word in self.words if re.match(r"--?[a-zA-Z]", word)]

    @property
    def settings(self):
        words = [word for last, word in pairwise(("", *self.words)) if last != "--sweep"]
        return [word for word in words if re.match(r"[+~]*[a-z_]+[\w./@]*=", word)]


def commands_of(name, text):
    """The commands of a page, each once."""
    lines = []
    for language, block in FENCE.findall(text):
        if language in SHELLS:
            lines += [line.removeprefix("$ ") for line in block.splitlines()]
    lines = [line.removeprefix("LAB_DEBUG=1 ") for line in lines]
    lines += SPAN.findall(FENCE.sub("", text).replace("\\|", "|"))
    found = {line.strip(): None for line in lines if line.startswith("lab ")}
    return [Typed(name, line, words_of(line)) for line in found]


def words_of(line):
    """The words after `lab`, up to what the shell or `--` separates.

    In a block without a comment sign the description is behind two spaces.
    """
    line = re.split(r" [|;] | && |   +|  (?=[a-z])", line.partition(" #")[0])[0]
    words = [word for word in shlex.split(line)[1:] if word not in LEFT_OUT]
    return tuple(words[: words.index("--")] if "--" in words else words)
