"""Run after a change in a setting: it writes conf/lab.yaml, the options of groups and docs/settings.md.

A setting is said once, in the sections.py of the folder that reads it: name, type, default, unit, meaning.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, get_args

import yaml
from labrig.config.schema import OPTIONS, LabSettings, all_settings
from labrig.config.setting import KnownSetting, load, name_of, settings_of

ROOT = Path(__file__).resolve().parents[1]

CONF = ROOT / "src/labrig/conf"
PAGE = ROOT / "docs/settings.md"
LAB_HEAD = """\
# Every setting of the library, with its meaning, unit and default: lab config --all. conf/config.yaml, a trial and the command line win over it.
# Written by hooks/settings_files.py from the classes beside the code that reads them.
defaults: # a group that a later version of the template adds is listed here, so that it reaches your project
  - notify: none # who gets a message when a run ends, fails, or its GPUs do nothing: apprise | command | [apprise, command]
  - _self_
"""  # noqa: E501
PAGE_HEAD = """\
# Every setting

Written by `hooks/settings_files.py` from the classes beside the code that reads the settings.
`lab config --all` prints them as YAML. Your own keys, and the arguments of classes: [settings](configuration.md).
The third column is empty where a value is one of the words that the meaning explains, or else true or false.
Any other value is refused before anything slow is imported.
"""
COLUMNS = "setting | default | value | meaning\n-|-|-|-"


def main() -> int:
    """Writes the files; 1 when one has changed, else 0."""
    changed = []
    for path, text in texts().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed.append(str(path.relative_to(ROOT)))
    print(f"written, commit them: {', '.join(changed)}" if changed else "up to date")
    return int(bool(changed))


def texts() -> dict[Path, str]:
    """What each file holds."""
    files = {CONF / "lab.yaml": LAB_HEAD + "".join(f"\n{each}" for each in yaml_of(LabSettings))}
    for option, place in OPTIONS.items():
        kind = load(place)
        files[CONF / f"{option}.yaml"] = comment_lines(kind) + "".join(yaml_of(kind))
    return files | {PAGE: page()}


def comment_lines(kind: type) -> str:
    """The docstring of an option, as the first lines of its file."""
    lines = (kind.__doc__ or "").strip().splitlines()
    return "".join(f"# {line.strip()}\n" for line in lines)


# ---------------------------------------------------------------- YAML


def yaml_of(kind: type, depth: int = 0) -> Iterator[str]:
    """The lines of each setting of a section, with those inside it."""
    for setting in direct_settings(kind):
        yield "".join(f"{'  ' * depth}{line}\n" for line in lines_of(setting))


def direct_settings(kind: type) -> list[KnownSetting]:
    return [settings_of(kind)[name_of(each)] for each in fields(kind)]


def lines_of(setting: KnownSetting) -> list[str]:
    if setting.is_section:
        inner = "".join(yaml_of(setting.type, depth=1))
        return [with_comment(f"{setting.name}:", setting.comment), *inner.splitlines()]
    if isinstance(setting.default, dict) and setting.default:
        inner = [f"  {key}: {in_yaml(value)}" for key, value in setting.default.items()]
        return [with_comment(f"{setting.name}:", setting.comment), *inner]
    lines = [with_comment(f"{setting.name}: {in_yaml(setting.default)}", setting.comment)]
    if entry := entry_of(setting):
        inner = "".join(yaml_of(entry)).splitlines()
        lines += [f"  # {'- ' if n == 0 else '  '}{line}" for n, line in enumerate(inner)]
    return lines


def with_comment(line: str, comment: str) -> str:
    return f"{line} # {comment}" if comment else line


def in_yaml(value: Any) -> str:
    """A value on one line; a text that begins like a number in quotes."""
    if isinstance(value, str) and value[:1].isdigit():
        return f'"{value}"'
    text = yaml.safe_dump(value, default_flow_style=True, width=float("inf"), allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...")


def entry_of(setting: KnownSetting) -> type | None:
    """The dataclass of the entries of a list of sections."""
    inner: Any = get_args(setting.type)
    return inner[0] if inner and is_dataclass(inner[0]) else None


# ---------------------------------------------------------------- the page


def page() -> str:
    """A table of the settings outside of sections, one of each section, and one of each group's options."""
    top = [setting for setting in direct_settings(LabSettings) if not setting.is_section]
    parts = [PAGE_HEAD, table("Outside of sections", top)]
    for section in direct_settings(LabSettings):
        if section.is_section:
            inside = settings_of(section.type, f"{section.name}.").values()
            parts.append(table(section.name, inside, section.comment))
    for group in dict.fromkeys(option.partition("/")[0] for option in OPTIONS):
        inside = [each for name, each in all_settings().items() if name.startswith(f"{group}.")]
        parts.append(table(group, inside, "Each comes with an option of this group."))
    return "".join(parts)


def table(heading: str, settings: Iterable[KnownSetting], meaning: str = "") -> str:
    """A section of the page. `lab docs NAME` in its meaning leads to that page."""
    rows = [row for setting in settings if not setting.is_section for row in rows_of(setting)]
    meaning = re.sub(r"lab docs ([a-z-]+)", r"[lab docs \1](\1.md)", meaning)
    begin = f"\n## {heading}\n\n{meaning}\n".rstrip("\n")
    return f"{begin}\n\n{COLUMNS}\n{''.join(rows)}"


def rows_of(setting: KnownSetting) -> Iterator[str]:
    """The row of a setting, and those of the sections that it lists."""
    yield row_of(setting)
    if entry := entry_of(setting):
        yield from map(row_of, settings_of(entry, f"{setting.name}[].").values())


def row_of(setting: KnownSetting) -> str:
    cells = [
        f"`{setting.name}`",
        f"`{in_yaml(setting.default)}`",
        values_of(setting),
        setting.comment,
    ]
    return " | ".join(cell.replace("|", "\\|") for cell in cells) + "\n"


def values_of(setting: KnownSetting) -> str:
    """What a value must be, without its unit and words, which the meaning has."""
    expected = replace(setting, unit="").expected
    said = {"true or false", *re.findall(r"[\w-]+", setting.comment)}
    if expected in said or said.issuperset(expected.split(" or ")):
        return ""
    return re.sub(r"\ba ", "", expected)


if __name__ == "__main__":
    sys.exit(main())
