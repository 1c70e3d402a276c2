"""Values in a text that look like secrets: by how they begin, by their form, or by the name before them.

Each freeze searches the changed files, so this is quick and seldom wrong.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

KINDS = Path(__file__).with_name("tokens.txt")
CHARACTERS = {
    "hex": "[0-9a-fA-F]",
    "upper": "[A-Z0-9]",
    "alnum": "[A-Za-z0-9]",
    "word": "[A-Za-z0-9_-]",
    "base64": "[A-Za-z0-9_+/=.-]",
}


@dataclass(frozen=True)
class Token:
    """What looks like a secret, and where in the content."""

    kind: str
    start: int
    end: int


def tokens_in(content: bytes, is_code: bool = False) -> list[Token]:
    """What looks like a secret, in the order in which it comes.

    Args:
        is_code: a short value after a name counts in quotes only; else it is an expression.
    """
    found = [*known_beginnings(content), *known_forms(content)]
    found += named_values(content, is_code)
    found.sort(key=lambda token: (token.start, -token.end))
    places: list[Token] = []
    for token in found:
        if not places or token.start >= places[-1].end:
            places.append(token)
    return places


# Tokens that say what they are, by their beginning.


@cache
def beginnings() -> tuple[re.Pattern[bytes], tuple[tuple[bytes, str], ...]]:
    """A pattern for every kind of token, and the kind by how it begins."""
    # By the first character, and by what follows: a quick pattern, and quickly made.
    ends: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    kinds = []
    for line in KINDS.read_text(encoding="ascii").splitlines():
        if not line or line.startswith("#"):
            continue
        kind, begins, characters, fewest = (part.strip() for part in line.split("|"))
        for begin in begins.split():
            ends[begin[0]][f"{CHARACTERS[characters]}{{{fewest},}}"].append(re.escape(begin[1:]))
            kinds.append((begin.encode(), kind))
    each = []
    for first, by_rest in ends.items():
        choices = [f"(?:{'|'.join(begins)}){rest}" for rest, begins in by_rest.items()]
        each.append(f"{re.escape(first)}(?:{'|'.join(choices)})")
    pattern = re.compile(f"(?<![A-Za-z0-9])(?:{'|'.join(each)})".encode())
    longest_first = sorted(kinds, key=lambda pair: len(pair[0]), reverse=True)
    return pattern, tuple(longest_first)


def known_beginnings(content: bytes) -> Iterator[Token]:
    """Tokens of the kinds in tokens.txt; one character again and again stands for a token."""
    pattern, kinds = beginnings()
    for match in pattern.finditer(content):
        begin, kind = next(pair for pair in kinds if match[0].startswith(pair[0]))
        if len(set(match[0][len(begin) :])) > 1:
            yield Token(kind, match.start(), match.end())


# Tokens that have a form: what must be in the content, and the form.

VALUE = rb"[A-Za-z0-9_+/=.~-]"
UNSHOWN = rb"(?![$<{*%]|x{3})"  # begins a placeholder
FORMS = (
    ("a private key", rb"PRIVATE KEY", rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"),
    ("a private key", rb"PuTTY-User-Key", rb"PuTTY-User-Key-File-\d"),
    ("a password in a URL", rb"://", rb"://[^\s/:@\"'{}<>$]*:(?!password@)[^\s/:@\"'{}<>$]{6,}@"),
    ("a JSON web token", rb"eyJ", rb"eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}"),
    ("an authorization", rb"earer ", rb"[Bb]earer (?=%b{0,99}\d)%b{20,}" % (VALUE, VALUE)),
    ("an authorization", rb"asic ", rb"Basic (?=[A-Za-z+/]{0,99}\d)[A-Za-z0-9+/]{16,}=*"),
    ("an Azure key", rb"Key=", rb"(?:Account|SharedAccess)Key=[A-Za-z0-9+/]{40,}=*"),
    ("an Azure signature", rb"sig=", rb"[?&]sig=[A-Za-z0-9%+/]{40,}=*"),
    ("an Azure secret", rb"Q~", rb"(?<![\w~.])[\w~.]{3}\dQ~[\w~.-]{31,34}"),
    ("a Telegram token", rb":AA", rb"\b\d{8,10}:AA[\w-]{32,}"),
    ("a Discord token", rb".", rb"\b[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,}"),
    ("an Airtable token", rb"pat", rb"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    ("a Teams webhook", rb"webhook.office", rb"webhook\.office\.com/webhookb2/[\w@/-]{60,}"),
    ("a Terraform token", rb".atlasv1.", rb"\b\w{14}\.atlasv1\.[\w=-]{60,}"),
    ("a MaxMind key", rb"_mmk", rb"\b\w{6}_\w{29}_mmk"),
    ("a password", rb"machine", rb"machine\s+\S+\s+login\s+\S+\s+password\s+%b\S+" % UNSHOWN),
    ("a password", rb"sshpass", rb"sshpass\s+-p\s*[\"']?%b[^\s\"']{4,}" % UNSHOWN),
    (
        "a password",
        rb"curl",
        rb"curl\b[^\n]*\s(?:-u|--user)[ =][\"']?[\w.@-]+:%b[^\s\"']{4,}" % UNSHOWN,
    ),
    ("a password", rb"mysql", rb"mysql(?:dump)?\b[^\n]*\s-p%b[^\s\"'-][^\s\"']{4,}" % UNSHOWN),
    ("a password", rb"assword=", rb"(?i);\s*password=%b[^;\s\"']{6,}" % UNSHOWN),
    ("a password", rb"wd=", rb"(?i);\s*pwd=%b[^;\s\"']{6,}" % UNSHOWN),
)


def known_forms(content: bytes) -> Iterator[Token]:
    for kind, needed, form in FORMS:
        if needed in content:  # much quicker than the form
            for match in re.finditer(form, content):
                yield Token(kind, match.start(), match.end())


# Values after a name that says what they are: in quotes, or to the end of a setting.

# Parts of a name; the second ones are those of many harmless values, too.
SECRET_NAME = re.compile(
    rb"passw(?:or)?d|passphrase|passcode|secret|credential"
    rb"|(?:api|access|auth|account|private|encryption|signing|license)[_-]?key"
    rb"|(?:api|auth|access|bearer|refresh|session|client|bot|hub|hf|git)[_-]?token"
    rb"|login\(\s*(?:key|token)|environ\b.{0,20}[\"']\w*(?:key|token|jwt|pass|pwd|pw)"
)
UNSURE_NAME = re.compile(rb"token|(?<!public)(?<!public_)key|auth|login|pwd|pass|cred")
# How a name ends that is of something about the secret.
ABOUT = rb"(?![\w-]*(?:name|file|path|type|_id|url|env|sha|md5|hash|digest|limit|usage|tokens))"
LONGEST_LEFT = 160  # bytes of the line before a value
QUOTED = re.compile(rb"[\"']([^\"'\s\\]{8,300})\\?[\"']")
UNQUOTED = re.compile(rb"[:=][ \t]*([^\s\"'#;,()\[\]{}<>\\]{8,300})(?=[\s\"';\\]|$)")
# What lies between name and value: ": str =", "] =", "(", ", ", "= os.getenv(...) or ".
BETWEEN = re.compile(
    ABOUT + rb"[\w-]*[\"'\\]*[\])]?\s*(?::\s*[\w.\[\] |]+?)?\s*(?:=>|:=|==|=|:|,|\()\s*"
    rb"(?:[^=;]{0,80}\bor\s+|\w+\()?[bruf]{0,2}\\?"
)
BETWEEN_UNQUOTED = re.compile(ABOUT + rb"[\w-]*[\"']?\s*")
PLACEHOLDER = re.compile(
    rb"[$<%{*@/~.]|.*(?:\{\w*\}|\.\.\.|\*\*|x{3})"
    rb"|(?i:your|my[_-]?|change|example|dummy|none|null|true|false|todo|test[_-]?)"
)
WORDS = re.compile(rb"[A-Za-z]+\d?(?:[_.:/-]+[A-Za-z]+\d?)*")  # client_secret, sha256-file
# As an identifier, with one number in each of its words: hipPointerAttributeP2pTokens, int8_cpu.
NAMES = re.compile(rb"[A-Za-z]*\d{0,4}[A-Za-z]*(?:[_./-]+[A-Za-z]*\d{0,4}[A-Za-z]*)*")
LETTER = re.compile(rb"[A-Za-z]")
DIGIT = re.compile(rb"\d")
KEY = re.compile(rb"[A-Za-z0-9+/_.~-]+=*")
FEWEST_BITS = 3.0  # a character of a value, below which it is a word or a number
SHORTEST = 8  # bytes
SHORTEST_UNSURE = 16  # after a doubtful name
SHORTEST_IN_CODE = 32  # without quotes, where most values are expressions


def named_values(content: bytes, is_code: bool) -> Iterator[Token]:
    """Values after a name such as password, api_key or WANDB_KEY; a binary file has no names."""
    if b"\0" in content:
        return
    for match in QUOTED.finditer(content):
        if is_named_secret(content, match, BETWEEN):
            yield Token("a password or key", match.start(1), match.end(1))
    shortest = SHORTEST_IN_CODE if is_code else SHORTEST
    for match in UNQUOTED.finditer(content):
        is_value = len(match[1]) >= shortest and looks_random(match[1])
        if is_value and is_named_secret(content, match, BETWEEN_UNQUOTED):
            yield Token("a password or key", match.start(1), match.end(1))


def is_named_secret(content: bytes, match: re.Match[bytes], between: re.Pattern[bytes]) -> bool:
    """Whether the name before a value says that it is a secret, and the value could be one."""
    start = match.start()
    line_start = max(content.rfind(b"\n", 0, start) + 1, start - LONGEST_LEFT)
    left = content[line_start:start].lower()
    value = match[1]
    for names, could_be in ((SECRET_NAME, could_be_password), (UNSURE_NAME, could_be_key)):
        for name in names.finditer(left):
            if between.fullmatch(left, name.end()):
                return could_be(value) and not PLACEHOLDER.match(value)
    return False


def could_be_password(value: bytes) -> bool:
    """Whether a value after a name that leaves no doubt is no plain name itself."""
    return not WORDS.fullmatch(value)


def could_be_key(value: bytes) -> bool:
    """Whether a value after a doubtful name was drawn by chance."""
    is_long = len(value) >= SHORTEST_UNSURE and KEY.fullmatch(value) is not None
    return is_long and looks_random(value) and not NAMES.fullmatch(value)


def looks_random(value: bytes) -> bool:
    """Whether letters and digits follow each other as in no word and no number."""
    has_both = LETTER.search(value) and DIGIT.search(value)
    is_long = len(value) >= SHORTEST_IN_CODE
    fewest_bits = min(FEWEST_BITS, math.log2(len(value)) - 0.6)  # of a short one fewer
    return bool(has_both or is_long) and bits_of_character(value) >= fewest_bits


def bits_of_character(value: bytes) -> float:
    """The entropy of the characters of a value."""
    counts = Counter(value).values()
    return -sum(n / len(value) * math.log2(n / len(value)) for n in counts)
