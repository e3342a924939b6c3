"""The texts in Python code: string literals and comments."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

TEXTS: Final = re.compile(
    r"""\#[^\n]*
    |(?P<prefix>\b[A-Za-z]{1,2})?(?:
        \"{3}(?:[^\\"]|\\.|"(?!""))*+(?:\"{3})?
        |'{3}(?:[^\\']|\\.|'(?!''))*+(?:'{3})?
        |"(?:[^"\\\n]|\\.)*+"?
        |'(?:[^'\\\n]|\\.)*+'?
    )""",
    re.VERBOSE | re.DOTALL,
)
"""A comment or a string; a string may be cut off at the end of a line or of the code."""


def in_texts(
    code: str,
    change: Callable[[str, Callable[[int], bool] | None], str],
    outside: Callable[[str], str] = str,
) -> str:
    """The code with its texts changed, and with the parts between them changed by `outside`.

    `change` also receives which positions of a text are expressions, in an f-string.
    """
    shown: list[str] = []
    done = 0
    for found in TEXTS.finditer(code):
        text = found[0]
        is_format = "f" in (found["prefix"] or "").lower()
        is_skipped = _within_braces(text) if is_format else None
        shown += [outside(code[done : found.start()]), change(text, is_skipped)]
        done = found.end()
    return "".join([*shown, outside(code[done:])])


def _within_braces(text: str) -> Callable[[int], bool]:
    plain = text.replace("{{", "  ").replace("}}", "  ")

    def is_within(position: int) -> bool:
        return plain.count("{", 0, position) > plain.count("}", 0, position)

    return is_within
