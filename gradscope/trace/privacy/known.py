"""Secrets that are known from the arguments of a program, and are masked wherever they are."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, quote_plus, unquote

from gradscope.trace.privacy.code_texts import in_texts
from gradscope.trace.privacy.secrets import MASK, masked_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SHORTEST: Final = 6
"""Shorter values are not looked for: they are in many words."""
WORD: Final = re.compile(r"[a-z][a-z_.]*|[A-Z][a-z]+|[\d.]+")
"""A secret that may also be a name or a number of the program, or of the trace."""


def secrets_of(arguments: Iterable[str]) -> frozenset[str]:
    """The values that are masked in arguments, and long enough to be looked for."""
    found: list[str] = []

    def hide(value: str) -> str:
        found.extend((value, unquote(value), *value.split(",")))
        return MASK

    masked_arguments(arguments, hide)
    return frozenset(each for each in found if len(each) >= SHORTEST)


class KnownSecrets:
    """Masks given secrets. An ordinary word or number is masked only between other words."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self.secrets: Final = frozenset(secrets)
        words = {each for each in self.secrets if WORD.fullmatch(each)}
        others = {form for each in self.secrets - words for form in _forms(each)}
        numbers = {each for each in words if each[0].isdigit()}
        plain = {each for each in others if not each.isidentifier()}
        self._words = _any_of(words, r'(?<![\w.])(?<!":)(?<!\d,)', r"(?!\w|\.\d)")
        self._others = _any_of(others)
        self._literals = _any_of(plain | numbers, r"(?<![\w.])", r"(?![\w.])")

    def masked(self, text: str) -> str:
        """A message or another text without the secrets."""
        if not self.secrets:
            return text
        text = self._others.sub(MASK, text)
        return self._words.sub(MASK, text) if " " in text else text

    def masked_code(self, code: str) -> str:
        """A source text without the secrets; names in it are left."""
        if not self.secrets:
            return code
        return in_texts(code, self._in_a_text, lambda part: self._literals.sub(f'"{MASK}"', part))

    def _in_a_text(self, text: str, is_skipped: Callable[[int], bool] | None) -> str:
        def hidden(found: re.Match[str]) -> str:
            is_name = found[0].isidentifier() and is_skipped and is_skipped(found.start())
            return found[0] if is_name else MASK

        return self._words.sub(hidden, self._others.sub(hidden, text))


def _forms(secret: str) -> set[str]:
    """How a secret is written in messages, literals, JSON and URLs."""
    return {
        secret, repr(secret)[1:-1], json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1], quote(secret, safe=""),
        quote(secret, safe="!~*'()"), quote_plus(secret),
    }  # fmt: skip


def _any_of(secrets: Iterable[str], before: str = "", after: str = "") -> re.Pattern[str]:
    """A pattern of these secrets, the longest first; it never matches if there are none."""
    longest_first = sorted(secrets, key=lambda each: (-len(each), each))
    found = "|".join(map(re.escape, longest_first)) or "(?!)"
    return re.compile(f"{before}(?:{found}){after}")
