"""Text that can be stored and printed, whatever names a program uses."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from os import PathLike

JOINERS = "\u200c\u200d"  # needed for Persian, Hindi and many emoji; they do not reorder text
UNSAFE = re.compile(r"[^ -~]")
ESCAPES = {"\n": r"\n", "\r": r"\r", "\t": " ", "\u3000": "\u3000"}


def clean(text: str) -> str:
    r"""The same text; a lone surrogate, which cannot be encoded, is written as `\udc80`."""
    try:
        text.encode()  # cheap: ASCII is detected at once
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


def all_clean(value: Any) -> Any:
    """`clean` for all texts in a value, however deep its lists are."""
    if isinstance(value, str):
        return clean(value)
    return [all_clean(each) for each in value] if isinstance(value, list | tuple) else value


def quoted(text: object, longest: int = 60) -> str:
    """Untrusted text for a one-line error message: short, quoted, printable."""
    small = isinstance(text, str | int | float | None)
    shown = str(text) if small else f"a {type(text).__name__}"
    return repr(shown if len(shown) <= longest else shown[: longest - 3] + "...")


def quoted_path(path: PathLike[str]) -> str:
    """A path for a one-line error message, not shortened."""
    return quoted(str(path), 1 << 12)


def visible(text: str, limit: int = 200) -> str:
    """The text on one line, with invisible characters escaped, cut at `limit` characters."""
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
