"""Texts as numbers: bytes, characters or words, or the tokens of a tokenizer of Hugging Face."""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Self
from unicodedata import category

import numpy as np

from ...errors import nearest, require_package
from .errors import DataFileError
from .layout import Layout

# What has no token of its own: 0 fills short samples up, 1 stands for what was not in training
SPECIAL = ["<pad>", "<unknown>"]
LEFT_OUT = "<left out>"  # where a tokenizer has no token, and none for that either
LEARNT = ("characters", "words")  # their vocabulary is made of the training split
N_TOKENS = "n_tokens"


@cache  # it asks for each letter of Unicode
def word_pattern() -> re.Pattern[str]:
    """Of a text in small letters: a word, or another sign.

    Accents and vowel signs behind their letter belong to it; Python's \\w has none of them.
    """
    marks = "".join(filter(is_mark, map(chr, range(sys.maxunicode + 1))))
    return re.compile(rf"\w[\w{marks}]*|[^\w\s]")


def is_mark(letter: str) -> bool:
    return category(letter).startswith("M")


def n_tokens_of(layout: Layout) -> int | None:
    """How many different tokens field x may hold; None when it holds none."""
    x = layout.fields.get("x")
    return int(x.attrs[N_TOKENS]) if x is not None and N_TOKENS in x.attrs else None


@dataclass(frozen=True)
class Tokenizer:
    """Makes numbers in 0..n_tokens-1 of a text, and a text of numbers.

    Args:
        name: bytes, characters, words; else that of a tokenizer, as it was typed.
        vocabulary: the texts of the numbers, of characters and words.
        content: of a tokenizer of Hugging Face its whole JSON.
    """

    name: str
    vocabulary: Sequence[str] = ()
    content: str | None = None

    @classmethod
    def named(cls, name: str) -> Self:
        """bytes, characters, words; a file of `tokenizers`, or a model of the local cache of `transformers`.

        Raises:
            DataFileError: there is none of this name.
        """
        if name in ("bytes", *LEARNT):
            return cls(name)
        require_package("tokenizers", "--tokenizer", "tokenizers")
        try:
            if Path(name).is_file():
                from tokenizers import Tokenizer as Loaded

                own: Any = Loaded.from_file(name)
            else:
                require_package("transformers", "--tokenizer NAME", "transformers")
                from transformers import AutoTokenizer

                own = AutoTokenizer.from_pretrained(name, local_files_only=True).backend_tokenizer
        except Exception as error:  # whatever the library raises for a file or name
            if Path(name).is_file():
                raise DataFileError(f"{name} is no file of a tokenizer: {error}") from error
            raise DataFileError(
                f"--tokenizer {name} is neither bytes, characters or words, nor a file, nor in the local "
                f"cache{nearest(name, ('bytes', *LEARNT))}. To fetch one where there is a network: "
                f"hf download {name}"
            ) from error
        return cls(name, content=own.to_str())

    @classmethod
    def of(cls, attrs: Mapping[str, Any]) -> Self | None:
        """That of a field, by its attributes; None of a field without one."""
        if "tokenizer" not in attrs:
            return None
        name, text = attrs["tokenizer"], str(attrs.get("vocabulary", ""))
        if name in LEARNT:
            return cls(name, json.loads(text))
        return cls(name, content=text or None)

    @property
    def attrs(self) -> dict[str, Any]:
        """The attributes of a field that say all of it."""
        text = json.dumps(self.vocabulary, ensure_ascii=False) if self.vocabulary else self.content
        kept = {"vocabulary": text} if text else {}
        return {"tokenizer": self.name, N_TOKENS: self.n_tokens} | kept

    @cached_property
    def n_tokens(self) -> int:
        if self._loaded:
            return max(self._loaded.get_vocab().values()) + 1
        return len(self.vocabulary) or 256

    @cached_property
    def _loaded(self) -> Any:
        """The tokenizer of Hugging Face, without padding and without a largest length."""
        return None if self.content is None else self._load(self.content)

    def _load(self, content: str) -> Any:
        require_package("tokenizers", f"the tokenizer {self.name}", "tokenizers")
        from tokenizers import Tokenizer as Loaded

        loaded = Loaded.from_str(content)
        loaded.no_padding()
        loaded.no_truncation()
        return loaded

    @cached_property
    def _marking(self) -> Any:
        """It gives the token n_tokens where a BPE has none and says nothing; None of others."""
        parts = json.loads(self.content or "{}")
        model = parts.get("model", {})
        if model.get("type") != "BPE" or model["unk_token"]:
            return None
        from tokenizers.pre_tokenizers import ByteLevel

        if model["vocab"].keys() >= {*ByteLevel.alphabet()}:  # each byte has a token
            return None
        model |= {"unk_token": LEFT_OUT, "vocab": model["vocab"] | {LEFT_OUT: self.n_tokens}}
        return self._load(json.dumps(parts))

    def learn(self, texts: Iterable[str], n_tokens: int | None = None) -> Self:
        """The same with a vocabulary of these texts: words by their number, characters in their order.

        Args:
            n_tokens: keep so many at most, the most frequent ones; those of SPECIAL are among them.
        """
        if n_tokens is not None and n_tokens <= len(SPECIAL):
            raise DataFileError(
                f"--n-tokens {n_tokens}: {' and '.join(SPECIAL)} are two of them. Write a number above 2."
            )
        counts = Counter[str]()
        for text in texts:
            counts.update(self.split(text))
        names = sorted(counts, key=lambda part: (-counts[part], part))
        names = names[: n_tokens - len(SPECIAL) if n_tokens else None]
        if self.name == "characters":
            names.sort()
        return replace(self, vocabulary=[*SPECIAL, *names])

    def split(self, text: str) -> Sequence[str]:
        """The words or characters of a text."""
        return text if self.name == "characters" else word_pattern().findall(text.lower())

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {text: number for number, text in enumerate(self.vocabulary)}

    def encode(self, text: str) -> np.ndarray:
        """The tokens of a text, int64 (n,), as a model takes them."""
        return self.encode_all([text])[0].astype(np.int64)

    def encode_all(self, texts: Sequence[str]) -> list[np.ndarray]:
        """The tokens of each text, (n,), in the smallest type that holds all."""
        dtype = np.min_scalar_type(self.n_tokens - 1)
        if self._loaded:
            try:  # without the places in the text, which nobody asks for
                encoded = self._loaded.encode_batch_fast(list(texts))
            except (
                Exception
            ) as error:  # whatever the library raises for a word that it does not know
                raise DataFileError(
                    f"the tokenizer {self.name}: {error}. Give it a token for what it does not know."
                ) from error
            found = [np.array(each.ids, np.int64) for each in encoded]
            largest = max((each.max(initial=0) for each in found), default=0)
            if largest >= self.n_tokens:
                raise DataFileError(
                    f"the tokenizer {self.name} gives the token {largest}, and has {self.n_tokens}. Add that one with "
                    "add_special_tokens, and save it again."
                )
            return [each.astype(dtype) for each in found]
        if self.name == "bytes":
            return [np.frombuffer(text.encode(), np.uint8) for text in texts]
        get, unknown = self._numbers.get, SPECIAL.index("<unknown>")
        return [
            np.array([get(part, unknown) for part in self.split(text)], dtype) for text in texts
        ]

    def n_lossy(self, texts: Sequence[str]) -> int:
        """How many of the texts have letters for which the tokenizer has no token, and gives none."""
        encoded = self._marking.encode_batch_fast(list(texts)) if self._marking else []
        return sum(self.n_tokens in each.ids for each in encoded)

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of tokens; of words with a blank between them."""
        numbers = [int(token) for token in tokens]
        if self._loaded:
            return self._loaded.decode(numbers, skip_special_tokens=False)
        if self.name == "bytes":
            return bytes(numbers).decode(errors="replace")
        between = "" if self.name == "characters" else " "
        return between.join(self.vocabulary[number] for number in numbers)
