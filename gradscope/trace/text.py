"""Text that can be stored and printed, whatever a program calls its files and functions."""

from __future__ import annotations


def clean(text: str) -> str:
    r"""The same text; a lone surrogate, which no encoding can hold, is written out as `\udc80`."""
    try:
        text.encode()  # cheap: ASCII is seen at once
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text
