"""Text that can be stored and printed, whatever a program calls its files and functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from os import PathLike


def clean(text: str) -> str:
    r"""The same text; a lone surrogate, which no encoding can hold, is written out as `\udc80`."""
    try:
        text.encode()  # cheap: ASCII is seen at once
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


def quoted(text: object, longest: int = 60) -> str:
    """Hostile text for an error's one line: short, quoted, nothing unprintable."""
    small = isinstance(text, str | int | float | None)
    shown = str(text) if small else f"a {type(text).__name__}"
    return repr(shown if len(shown) <= longest else shown[: longest - 3] + "...")


def quoted_path(path: PathLike[str]) -> str:
    """A path for an error's one line, whole."""
    return quoted(str(path), 1 << 12)
