"""The settings of runs as what their numbers follow from: settings that change results, and seeds."""

from __future__ import annotations

import json
import re
from typing import Any

from ..read.settings import NO_RESULT, as_text, flat_settings, is_without_result

NAMES = ("trial", "seed")  # sections that are looked at by themselves, next to NO_RESULT
# Where the data lie and how they were made: their hash counts in place of it.
DATA_PLACES = ("data.path", "data.pack", "data.url", "data.sha256")
# A trial may have been renamed between two runs.
TRIAL_IN_TARGET = re.compile(r"\.trials\.\w+\.")

Texts = tuple[tuple[str, str], ...]  # sections with their settings
Seeds = tuple[tuple[str, str], ...]  # keys such as data.seed with their values


class RepetitionKeys:
    """Splits the settings of runs into seeds and all others that change results.

    Sections that several runs share, as the cache of rows has them, are looked at once.

    Args:
        over: settings that are left out, since a mean is taken over them.
    """

    def __init__(self, over: tuple[str, ...] = ()) -> None:
        self.over = over
        self._parts: dict[tuple[str, int], tuple[str, Seeds]] = {}  # by name and identity
        self._sections: list[Any] = []  # keeps them, so that no other gets the same identity

    def split(self, settings: dict[str, Any]) -> tuple[Texts, Seeds]:
        """The settings without seeds, equal for repetitions; and the seeds but `seed` itself.

        Args:
            settings: of a row.
        """
        texts = []
        seeds: list[tuple[str, str]] = []
        for name in sorted(settings):
            if name in NAMES or name in NO_RESULT:
                continue
            text, of_section = self._part_of(name, settings[name])
            texts.append((name, text))
            seeds += of_section
        return tuple(texts), tuple(seeds)

    def _part_of(self, name: str, section: Any) -> tuple[str, Seeds]:
        if not isinstance(section, dict):
            return self._split_section(name, section)
        place = (name, id(section))
        if place not in self._parts:
            self._parts[place] = self._split_section(name, section)
            self._sections.append(section)
        return self._parts[place]

    def _split_section(self, name: str, section: Any) -> tuple[str, Seeds]:
        leaves = flat_settings({name: section})
        settings = {}
        seeds = {}
        for key in sorted(leaves):
            if key in self.over or key in DATA_PLACES or is_without_result(key):
                continue
            text = TRIAL_IN_TARGET.sub(".trials.", as_text(leaves[key]))
            if is_seed(key):
                seeds[key] = text
            else:
                settings[key] = text
        return json.dumps(settings), tuple(seeds.items())


def without_seeds(settings: dict[str, Any]) -> dict[str, Any]:
    """A copy of nested settings without their seeds."""
    return {
        name: without_seeds(value) if isinstance(value, dict) else value
        for name, value in settings.items()
        if not is_seed(name)
    }


def is_seed(key: str) -> bool:
    """Whether a dotted key is a seed, such as `seed` or `data.seed`."""
    return key.rpartition(".")[2] == "seed"
