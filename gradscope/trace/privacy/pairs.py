"""Finds unquoted secrets in prose: `token=abc1`, `password: abc`, `Authorization: Bearer abc`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gradscope.trace.privacy.secret_names import (
    NUMBER,
    Marking,
    fits,
    is_mixed,
    mark_of,
    words_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

NAMED: Final = re.compile(
    r"(?<![\w-])-*+(?P<name>[A-Za-z_][\w-]*+)(?P<quote>\\?[\"']?)[ \t]*+"
    r"(?P<sign>[:=]{1,2}>?)[ \t]*"
)
VALUE: Final = re.compile(r"(?:[^\s\"'`\\,;&]|\\\\|[,;&](?!\s*[\w.-]+\\?[\"']?\s*[:=]))+")
SCHEME: Final = re.compile(r"(?i)(?:bearer|basic|token|digest|negotiate|apikey)[ \t]+(?=[^\s\"'])")
PREFIX: Final = re.compile(r"[rbfuRBFU]{1,2}[\"']")
"""The start of a literal, whose value is found elsewhere."""
AFTER: Final = ".,;:!?)]}>"
"""Characters after a value which are not a part of it."""
NO_VALUE: Final = re.compile(
    r"[{<\[(*…]|%[sdr(]|\$\{?[A-Z_]+\}?$|\.\.|[A-Za-z_][\w.]*[(\[]|"
    r"(?:self|args|opts?|options|cfg|config|os|settings)\."
)
"""The start of a placeholder, of a call, or of a variable."""
PLAIN: Final = words_of(
    "str int bytes bool float none null true false any optional tensor string text object the a an "
    "your our their its this that is was are must and or of for in on to from by with without "
    "required missing invalid wrong incorrect not no empty unknown given expected unset bearer "
    "basic yes ok failed denied accepted rejected expired"
)
"""Words that are written after `password:` and are no password."""


def without_pairs(
    text: str, hide: Callable[[str], str], is_skipped: Callable[[int], bool] | None = None
) -> str:
    """The text with the values of secret names hidden; `is_skipped`: positions to leave."""
    shown: list[str] = []
    done = 0
    for named in NAMED.finditer(text):
        if named.start() < done or (is_skipped is not None and is_skipped(named.start())):
            continue
        mark = mark_of(named["name"], quoted=False)
        if mark is Marking.NONE:
            continue
        start = named.end()
        scheme = SCHEME.match(text, start)
        value = _value(text, scheme.end() if scheme else start)
        if scheme is not None and (mark is Marking.ALWAYS or is_mixed(value)):
            start = scheme.end()
        elif scheme is not None or not _is_secret(named, mark, value):
            continue
        quote = named["quote"].lstrip("\\")  # {"password": 123456} stays JSON
        shown += [text[done:start], quote, hide(value), quote] if value else []
        done = start + len(value) if value else done
    return "".join([*shown, text[done:]]) if shown else text


def _value(text: str, start: int) -> str:
    found = VALUE.match(text, start)
    is_prefix = found is not None and PREFIX.match(text, start) is not None
    return "" if found is None or is_prefix else found[0].rstrip(AFTER)


def _is_secret(named: re.Match[str], mark: Marking, value: str) -> bool:
    if not value or value.lower() in PLAIN or NO_VALUE.match(value):
        return False
    name, sign = named["name"].lower(), named["sign"]
    above = named.string[max(named.start() - 9, 0) : named.start()].rstrip()[-1:]
    is_call = above in {"(", ","}  # f(token=x)
    is_tight = sign == "=" and named[0].endswith(sign) and not is_call  # token=abc, as in a command
    if name == "token" and is_tight and len(value) > 5 and not NUMBER.fullmatch(value):
        return True
    if name == "pass" and not is_tight:
        return False
    if value.isdecimal() and name.rstrip("s").endswith("token"):
        return False  # a count, or an index
    return fits(mark, value)
