"""Names of classes and groups that are spellings of one name: joined, kept apart, or refused."""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..file.errors import DataFileError

MAX_SHOWN = 20
ONE_FOR_ALL = {"Cf": "", "Pd": "-"}  # in Unicode's categories of what is not seen, and of dashes


def common_form(name: str) -> str:
    """The same text for all spellings of a name: letters, blanks, dashes, Unicode and forms of a number."""
    letters = unicodedata.normalize("NFKC", name).casefold()
    text = "".join(ONE_FOR_ALL.get(unicodedata.category(letter), letter) for letter in letters)
    text = " ".join(text.split())
    if "_" in text or not any(letter.isdigit() for letter in text):
        return text
    try:
        number = float(text)
    except ValueError:
        return text
    is_whole = number.is_integer() and abs(number) < 2**53
    return f"{int(number)}" if is_whole else (text if number != number else repr(number))


@dataclass(frozen=True)
class Spellings:
    """What to do about names that differ in their spelling only."""

    join: bool = False
    as_written: bool = False

    def choose(
        self, what: str, names: Mapping[str, int], known: Iterable[str] = ()
    ) -> dict[str, str]:
        """The name that takes the place of each other spelling of it: a known one, else the most frequent.

        Args:
            what: they name, such as classes.
            names: as they are written, and how often.
            known: names that are there already.
        """
        if self.as_written:
            return {}
        known_names = set(known)
        spellings: dict[str, list[str]] = {}
        for name in [*names, *known_names.difference(names)]:
            spellings.setdefault(common_form(name), []).append(name)
        alike = [sorted(of_one) for of_one in spellings.values() if len(of_one) > 1]
        if alike and not self.join:
            listed = "; ".join(" and ".join(map(show, of_one)) for of_one in alike[:MAX_SHOWN])
            more = f"; and {len(alike) - MAX_SHOWN} more" if len(alike) > MAX_SHOWN else ""
            raise DataFileError(
                f"{what} that differ in their spelling only: {listed}{more}. If each of these is one: "
                "--join-names. If they are different: --names-as-written"
            )
        counts = Counter(names)
        chosen = {}
        for of_one in alike:
            name = max(of_one, key=lambda name: (name in known_names, counts[name]))
            chosen |= {other: name for other in of_one if other != name}
        return chosen


def show(name: str) -> str:
    """A name in which each letter can be told from others that look the same."""
    return ascii(name) if not name.isascii() or name != name.strip() else repr(name)
