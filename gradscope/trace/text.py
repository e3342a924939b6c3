"""Text that can be stored and printed, whatever a program calls its files and functions."""

from __future__ import annotations


def clean(text: str) -> str:
    r"""The same text; a lone surrogate, which no encoding can hold, is written out as `\udc80`."""
    try:
        text.encode()  # cheap: ASCII is seen at once
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


def quoted(text: object) -> str:
    """Hostile text for an error's one line: short, quoted, nothing unprintable."""
    shown = text if isinstance(text, str) else repr(text)
    return repr(shown if len(shown) <= 60 else shown[:57] + "...")
