"""Shortens repeated file names: after "train.py:7" only "line 9" of the same file."""

from __future__ import annotations

import re
from collections.abc import Iterable

_PLACE = re.compile(r"(?<![\w/\\`.-])([\w./\\-]+\.py):(\d+)\b")


class ShortPaths:
    """Shortens texts that are shown one after the other."""

    def __init__(self) -> None:
        self._named: set[str] = set()

    def __call__(self, text: str) -> str:
        return _PLACE.sub(self._shorter, text)

    def all(self, texts: Iterable[str]) -> tuple[str, ...]:
        return tuple(map(self, texts))

    def _shorter(self, match: re.Match[str]) -> str:
        file, number = match.groups()
        if file in self._named:
            return f"line {number}"
        self._named.add(file)
        return match[0]
