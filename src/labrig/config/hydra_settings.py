"""Settings of Hydra itself: what does the same here, and which have no effect."""

from __future__ import annotations

from collections.abc import Iterable

from hydra.core.override_parser.types import Override

from ..errors import LabError
from ..project import say_once

COUNTS = "hydra.searchpath"  # the only one that has an effect here
OWN_PLUGINS = ("basic", "null")  # Hydra's own, which run on this machine
# what does here what a plug-in of Hydra does there
INSTEAD = {
    "hydra/launcher": "Jobs are sent by another command, lists as one job array: lab submit {settings}",
    "hydra/sweeper": "Searches have a command of their own: lab sweep {settings}",
}


def check_hydra_settings(overrides: list[Override]) -> None:
    """Names the typed settings of Hydra that have no effect here."""
    words = {str(override.input_line): override.key_or_group for override in overrides}
    of_hydra = [word for word, key in words.items() if key.startswith(("hydra.", "hydra/"))]
    others = [word for word in words if word not in of_hydra]
    for word in of_hydra:
        group = plugin_group(words[word])
        if group and word not in [f"{group}={name}" for name in OWN_PLUGINS]:
            advice = INSTEAD[group].format(settings=" ".join(others) or "trial=NAME")
            raise LabError(f"{word!r} is for programs with @hydra.main. {advice}")
    name_without_effect(word for word in of_hydra if words[word] != COUNTS)


def plugin_group(key: str) -> str | None:
    """The group of a key that chooses a launcher or sweeper of Hydra, or sets one up."""
    for group in INSTEAD:
        if key.replace(".", "/").startswith(group):
            return group
    return None


def name_without_effect(settings: Iterable[str], place: str = "") -> None:
    """A line about settings of Hydra that change nothing here.

    Args:
        place: of a file, as " in conf/config.yaml".
    """
    listed = ", ".join(settings)
    if listed:
        say_once(
            f"no effect here: {listed}{place}. A run has its directory, runs/TRIAL/ID, and the current "
            f"directory stays. Of Hydra's settings only {COUNTS} counts"
        )
