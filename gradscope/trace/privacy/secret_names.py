"""Which names mark a secret, and how random its value must be."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final


def words_of(text: str) -> frozenset[str]:
    return frozenset(text.split())


class Marking(IntEnum):
    """How far a name marks its value as a secret."""

    NONE = 0
    IF_RANDOM = 1  # the value must be long and look random
    IF_MIXED = 2  # the value must have letters and digits
    ALWAYS = 3


ALWAYS: Final = words_of(
    "password passwords passwd passphrase passphrases pwd secret secrets credential credentials "
    "apikey apikeys authorization bearer"
)
"""Words that mark a name as that of a secret, at any position in the name."""
KEYS: Final = words_of(
    "api access secret private auth encryption signing ssh session client account storage wandb "
    "openai anthropic aws azure gcp comet neptune"
)
TOKENS: Final = words_of(
    "access auth api bearer refresh session hf hub huggingface github gitlab wandb bot slack jwt "
    "login user"
)
PASSES: Final = words_of("db database user smtp mail email ftp ssh admin root login my http proxy")
"""Words before `key`, `token` and `pass` that mark a secret."""
OF_TEXTS: Final = words_of(
    "pad padding eos bos sep cls mask unk special image audio video text word sub start end next "
    "previous prev first last stop new class patch prefix suffix num max min total mean per input "
    "output target added additional extra begin other"
)
"""Words before `token` that mark a part of a text."""

WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
NUMBER: Final = re.compile(
    r"[-+]?[\d.,_]+(?:e[-+]?\d+)?(?:[A-Za-z%]{1,4})?(?:/\w+)?", re.IGNORECASE
)
TYPE: Final = re.compile(r"(?:torch\.|np\.)?(?:u?int|b?float|complex|cuda|cpu|gpu|fp|bf|utf)-?\d.*")


def words(name: str) -> list[str]:
    """The words of `apiKey`, `API_KEY` and `--api-key`."""
    return [word.lower() for word in WORDS.findall(name)]


def mark_of(name: str, *, quoted: bool = True) -> Marking:
    """How far a name marks its value, which is a literal (`quoted`) or a word of a text."""
    found = words(name)
    if not found:
        return Marking.NONE
    *before, last = found
    if ALWAYS & {*found}:
        is_last = last in ALWAYS or last in {"key", "keys", "token", "tokens"}
        return Marking.ALWAYS if quoted or is_last else Marking.IF_MIXED
    if last in {"key", "keys"}:
        return Marking.ALWAYS if KEYS & {*before} else Marking.IF_RANDOM
    if last in {"token", "tokens"}:
        return _of_token(before, last, quoted=quoted)
    if last == "pass":
        known = not before or bool(PASSES & {*before})
        return Marking.IF_RANDOM if not known else Marking.ALWAYS if quoted else Marking.IF_MIXED
    return Marking.IF_MIXED if last == "auth" else Marking.NONE


def _of_token(before: list[str], last: str, *, quoted: bool) -> Marking:
    if TOKENS & {*before}:
        return Marking.ALWAYS
    if OF_TEXTS & {*before}:
        return Marking.IF_RANDOM
    return Marking.ALWAYS if quoted and not before and last == "token" else Marking.IF_MIXED


def is_mixed(value: str) -> bool:
    """Whether a word has letters and digits, and is no number with a unit and no type."""
    has_both = re.fullmatch(r"(?=.*[A-Za-z])(?=.*\d)\S+", value)
    is_known = NUMBER.fullmatch(value) or TYPE.fullmatch(value)
    return bool(has_both) and len(value) > 3 and not is_known


def is_random(value: str) -> bool:
    """Whether a value looks like a generated key: long, with several digits, without dots."""
    if len(value) < 16 or re.fullmatch(r"[\w+/=~-]+", value) is None or not is_mixed(value):
        return False
    digits = len(re.findall(r"\d", value))
    is_both = value.lower() != value != value.upper()
    return digits > 3 or (digits > 1 and is_both and "_" not in value)


def fits(mark: Marking, value: str) -> bool:
    """Whether a value is as random as the mark of its name requires."""
    if mark is Marking.ALWAYS:
        return True
    return {Marking.IF_MIXED: is_mixed, Marking.IF_RANDOM: is_random}.get(mark, lambda _: False)(
        value
    )
