"""Classes and functions that users allow in files loaded with `weights_only=True`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

Global = Any
"""A class or function; or a pair of one and its name in files."""

_allowed: Final[list[Global]] = []


def add_safe_globals(safe_globals: Sequence[Global]) -> None:
    """Allow these in files that are loaded with `weights_only=True`."""
    _allowed.extend(each for each in safe_globals if each not in _allowed)


def get_safe_globals() -> list[Global]:
    return list(_allowed)


def clear_safe_globals() -> None:
    _allowed.clear()


class safe_globals:  # noqa: N801  (PyTorch's name)
    """Allow these inside the block."""

    def __init__(self, safe_globals: Sequence[Global]) -> None:
        self.safe_globals = list(safe_globals)

    def __enter__(self) -> None:
        add_safe_globals(self.safe_globals)

    def __exit__(self, *error: object) -> None:
        for each in self.safe_globals:
            if each in _allowed:
                _allowed.remove(each)


def by_name() -> dict[str, Global]:
    """The allowed objects by their name in files."""
    named: dict[str, Global] = {}
    for each in _allowed:
        if not isinstance(each, tuple):
            named[f"{each.__module__}.{each.__qualname__}"] = each
        elif len(each) != 2:
            raise ValueError(
                "Expected tuple of length 2 (global, str of callable full path), but got tuple of "
                f"length: {len(each)}"
            )
        elif not isinstance(each[1], str):
            raise TypeError(
                "Expected second item in tuple to be str of callable full path, but got: "
                f"{type(each[1])}"
            )
        else:
            named[each[1]] = each[0]
    return named
