r"""Text from a traced program, made safe to show.

Whatever a program calls its files, functions and modules may hold line breaks, terminal escapes,
and marks that reverse the reading direction of everything around them. `visible` writes those out
(`\n`, `\x1b`, `\u202e`), so that one name stays one stretch of one line, in every format.
"""

from __future__ import annotations

import re
import unicodedata

JOINERS = "\u200c\u200d"  # needed to write Persian, Hindi and many emoji; they reorder nothing
UNSAFE = re.compile(r"[^ -~]")
ESCAPES = {"\n": r"\n", "\r": r"\r", "\t": " ", "\u3000": "\u3000"}


def visible(text: str, limit: int = 200) -> str:
    """The text on one line, with what cannot be seen written out, cut at `limit` characters."""
    if len(text) > limit:
        text = f"{text[: limit - 1]}…"
    return UNSAFE.sub(_visible_character, text)


def _visible_character(match: re.Match[str]) -> str:
    character = match[0]
    if character in ESCAPES:
        return ESCAPES[character]
    if character.isprintable() or character in JOINERS:
        return character
    if unicodedata.category(character) == "Zs":
        return " "
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


HIDDEN_IN_JSON = re.compile(
    "[\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]"
)


def visible_json(text: str) -> str:
    r"""The same JSON document, with characters that reorder or hide text as `\u....` escapes."""
    return HIDDEN_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
