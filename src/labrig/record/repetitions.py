"""Which runs of a trial are repetitions: they differ in their seeds only."""

from __future__ import annotations

import json
import re
from typing import Any

from .settings import NO_RESULT, as_text, flat_settings, is_without_result

NAMES = ("trial", "seed")  # sections that repetitions may differ in, next to NO_RESULT
# A trial may have been renamed between two runs.
TRIAL_IN_TARGET = re.compile(r"\.trials\.\w+\.")


class RepetitionKeys:
    """Gives each run's settings a key, which is equal for repetitions.

    Sections that several runs share, as the cache of rows has them, are looked at once.
    """

    def __init__(self) -> None:
        self._texts: dict[tuple[str, int], str] = {}  # by the name and identity of a section
        self._sections: list[Any] = []  # keeps them, so that no other gets the same identity

    def key_of(self, settings: dict[str, Any]) -> tuple[tuple[str, str], ...]:
        """The sections whose values change results, as texts without seeds.

        Args:
            settings: of a row.
        """
        return tuple(
            (name, self._text_of(name, settings[name]))
            for name in sorted(settings)
            if name not in NAMES and name not in NO_RESULT
        )

    def _text_of(self, name: str, section: Any) -> str:
        if not isinstance(section, dict):
            return section_text(name, section)
        place = (name, id(section))
        if place not in self._texts:
            self._texts[place] = section_text(name, section)
            self._sections.append(section)
        return self._texts[place]


def section_text(name: str, section: Any) -> str:
    """The settings of a section that change results, without seeds."""
    leaves = flat_settings({name: section})
    settings = {
        key: TRIAL_IN_TARGET.sub(".trials.", as_text(leaves[key]))
        for key in sorted(leaves)
        if key.rpartition(".")[2] != "seed" and not is_without_result(key)
    }
    return json.dumps(settings)
