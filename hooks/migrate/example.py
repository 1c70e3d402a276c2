"""A worked example: writes the new names of settings and options into a project's own files.

Run it after `copier update` and `make setup`, by hand: .venv/bin/python example.py PROJECT
It changes names only, in conf/ and trials/, and prints each line. Look at it with git diff.
"""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.resources import files
from pathlib import Path

import yaml  # the environment of the project has it, and labrig

RENAMED = files("labrig") / "conf/renamed.yaml"


def main(argv: list[str]) -> int:
    pyproject = Path(*argv, "pyproject.toml")
    if len(argv) != 1 or not pyproject.exists():
        print(__doc__, file=sys.stderr)
        return 2
    names = yaml.safe_load(RENAMED.read_text(encoding="utf-8"))
    settings = tomllib.loads(pyproject.read_text(encoding="utf-8"))["tool"]["labrig"]
    package = Path(argv[0], "src", settings["package"])
    for path in sorted([*package.glob("conf/**/*.yaml"), *package.glob("trials/**/*.yaml")]):
        old = path.read_text(encoding="utf-8")
        new = with_new_options(with_new_settings(old, names["settings"]), names["options"])
        for n, (before, after) in enumerate(zip(old.splitlines(), new.splitlines(), strict=True)):
            if before != after:
                print(f"{path}:{n + 1}: {before.strip()}  ->  {after.strip()}")
        path.write_text(new, encoding="utf-8")
    return 0


def with_new_settings(text: str, names: dict[str, str | None]) -> str:
    """The text of a file with the new last word of each old setting; the rest stays byte by byte.

    A setting that moves to another section is the user's to move: the warning of `lab check` names it.
    """
    keys = dict(_keys(yaml.compose(text), ""))
    changes = []
    for old, new in names.items():
        if old in keys and new and old.rpartition(".")[0] == new.rpartition(".")[0]:
            changes.append((keys[old], old.rpartition(".")[2], new.rpartition(".")[2]))
    for position, word, new_word in sorted(changes, reverse=True):
        text = text[:position] + new_word + text[position + len(word) :]
    return text


def _keys(node: yaml.Node | None, prefix: str):
    """Each dotted key of a file, and where in the text it begins."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield f"{prefix}{key.value}", key.start_mark.index
            yield from _keys(value, f"{prefix}{key.value}.")


def with_new_options(text: str, names: dict[str, str]) -> str:
    """The text of a file with the new options in its defaults list, as in `- site: lanta`."""
    for old, new in names.items():
        group, _, option = old.rpartition("/")
        line = rf"^(\s*- +(?:override +)?/?{re.escape(group)}: +){re.escape(option)}(?=\s|$)"
        text = re.sub(line, rf"\g<1>{new.rpartition('/')[2]}", text, flags=re.MULTILINE)
    return text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
