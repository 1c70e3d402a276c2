"""Questions: each has a default, and takes every answer that an earlier release took."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import yaml
from jinja2 import FunctionLoader, TemplateError
from jinja2.sandbox import SandboxedEnvironment

from .repository import ReleaseError, Repository

NEEDS_TRUST = ("_tasks", "_migrations", "_jinja_extensions", "_external_data")
FILTERS = "jinja2_ansible_filters.AnsibleCoreFiltersExtension"
LONGEST = 220  # characters of an answer that is tried
OTHER_ANSWERS = ("Another answer", "another_answer", "other", "2")


@dataclass(frozen=True)
class Questions:
    """copier.yml at a tag, or at HEAD."""

    repository: Repository
    ref: str

    @cached_property
    def settings(self) -> dict[str, Any]:
        """All of copier.yml.

        Raises:
            ReleaseError: it is missing, or not plain YAML.
        """
        try:
            settings = yaml.safe_load(self.repository.text(self.ref, "copier.yml") or "")
        except yaml.YAMLError as error:
            reason = " ".join(str(error).split())
            raise ReleaseError(f"copier.yml of {self.ref} is not plain YAML: {reason}") from None
        if not isinstance(settings, dict):
            raise ReleaseError(f"copier.yml of {self.ref} is missing or has no questions")
        return settings

    @cached_property
    def asked(self) -> dict[str, dict[str, Any]]:
        """The questions in their long form."""
        return {
            name: question if isinstance(question, dict) else {"default": question}
            for name, question in self.settings.items()
            if not name.startswith("_")
        }

    def choices(self, name: str) -> list[Any]:
        """The values that a question takes, also those that are withdrawn."""
        return [choice["value"] if is_long(choice) else choice for choice in self._choices(name)]

    def offered(self, name: str) -> list[Any]:
        """The choices of a new project."""
        return [choice for choice in self._choices(name) if not is_long(choice)]

    def _choices(self, name: str) -> list[Any]:
        choices = self.asked[name].get("choices") or []
        return list(choices.values()) if isinstance(choices, dict) else list(choices)

    @cached_property
    def _jinja(self) -> SandboxedEnvironment:
        loader = FunctionLoader(lambda path: self.repository.text(self.ref, path))
        return SandboxedEnvironment(loader=loader, extensions=[FILTERS])

    @cached_property
    def _validators(self) -> dict[str, Any]:
        return {
            name: self._jinja.from_string(question["validator"])
            for name, question in self.asked.items()
            if "validator" in question
        }

    def refusal(self, name: str, answer: str) -> str:
        """Why the question refuses `answer`; empty when it takes it."""
        if self.choices(name):
            return "" if answer in self.choices(name) else "it is no choice"
        if name not in self._validators:
            return ""
        try:
            context = {name: answer, "_folder_name": "x", "_copier_answers": {}}
            return self._validators[name].render(context).strip()
        except TemplateError as error:
            raise ReleaseError(f"the validator of {name} fails: {error}") from None

    def other_answers(self) -> dict[str, Any]:
        """Answers that are not the defaults, as far as the questions take them."""
        answers: dict[str, Any] = {}
        for name, question in self.asked.items():
            if choices := self.offered(name):
                answers[name] = choices[-1]
            elif question.get("type", "str") == "str" and "when" not in question:
                taken = (word for word in OTHER_ANSWERS if not self.refusal(name, word))
                answers[name] = next(taken, None)
        return {name: answer for name, answer in answers.items() if answer is not None}


def is_long(choice: Any) -> bool:
    """Whether a choice is written with its value and a validator, as a withdrawn one is."""
    return isinstance(choice, dict) and "value" in choice


def check_form(new: Questions) -> list[str]:
    """What copier could not ask, or would not render, without trust or a person."""
    problems = [
        f"copier.yml has {key}: every user would need --trust.\n  Move it into `make setup`"
        for key in NEEDS_TRUST
        if key in new.settings
    ]
    return problems + [
        f"the question {name} has no default, so no project can be updated without an answer"
        for name, question in new.asked.items()
        if "default" not in question
    ]


def check_answers(new: Questions, old: Questions, entry: str, moved: set[str]) -> list[str]:
    """What a project of `old` has answered and `new` would drop silently.

    Args:
        entry: of the changelog; a question that it names in backticks may go.
        moved: the options, as site/lanta, that have a new name in the library's renamed.yaml.
    """
    problems = []
    for name in old.asked:
        if name not in new.asked:
            if f"`{name}`" not in entry:
                problems.append(
                    f"the question {name} of {old.ref} is gone, and with it the answers of projects.\n"
                    f"  Keep it, or name `{name}` in the changelog entry and say what becomes of it"
                )
            continue
        problems += [
            f"the choice {choice} of {name} is gone: projects of {old.ref} fall back to the\n"
            "  default silently. Withdraw it (copier.yml says how), or name its successor in\n"
            f"  src/labrig/conf/renamed.yaml: below options, {name}/{choice}: {name}/OTHER"
            for choice in old.choices(name)
            if choice not in new.choices(name) and f"{name}/{choice}" not in moved
        ]
        problems += _check_validator(name, new, old)
    return problems


def _check_validator(name: str, new: Questions, old: Questions) -> list[str]:
    if old.choices(name) or "validator" not in new.asked[name]:
        return []
    for answer in _probes(new, old):
        if not old.refusal(name, answer) and (reason := new.refusal(name, answer)):
            shown = answer if len(answer) < 30 else f"{answer[:10]}... ({len(answer)} characters)"
            return [
                f"{name} no longer takes {shown!r}, which {old.ref} took ({reason}).\n"
                "  Projects have such answers, and updates would stop or drop them;\n"
                "  take it still, and steer only the default"
            ]
    return []


def _probes(new: Questions, old: Questions) -> Iterator[str]:
    """Answers that show a stricter validator: words of the changed lines, all lengths, odd characters."""
    for character in string.printable + "éß数\u00a0\ufeff":
        yield f"ab{character}cd"
        yield f"{character}abcd"
        yield f"abcd{character}"
    for length in range(LONGEST):
        yield "a" * length
    difference = new.repository.git(
        "diff", "--unified=0", old.ref, new.ref, "--", "copier.yml", "*.jinja"
    )
    added = "\n".join(line[1:] for line in difference.splitlines() if line.startswith("+"))
    yield from sorted(set(re.findall(r"[A-Za-z_][\w.-]*", added)))
