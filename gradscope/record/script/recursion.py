"""Gives a script the same recursion depth as without gradscope: frames below it do not count."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gradscope.errors import leave_no_frame
from gradscope.watch.in_place.standing_in import Replaced

MOST = 10_000
"""Higher limits are not tested: that would take long, and a few frames do not matter then."""


def room() -> int:
    """Number of nested calls that are possible from here."""
    limit = sys.getrecursionlimit()
    return limit - 1 if limit > MOST else _deeper(1)


def _deeper(n: int) -> int:
    try:
        return _deeper(n + 1)
    except RecursionError:
        return n + 1


TRIED = compile("found = room()", "<gradscope: recursion>", "exec")


@contextmanager
def as_deep_as_alone(found: int) -> Iterator[None]:
    """A context with the same recursion depth as without gradscope; `sys` shows the script's limit.

    `found`: the depth that was possible for other code in the same place, TRIED.
    """
    own_get, own_set = sys.getrecursionlimit, sys.setrecursionlimit
    below = own_get() - 1 - found

    def getrecursionlimit() -> int:
        return own_get() - below

    def setrecursionlimit(limit: Any, /) -> None:
        try:
            own_set(limit + below if isinstance(limit, int) and limit > 0 else limit)
        except BaseException as error:
            leave_no_frame(error)
            raise

    replaced = Replaced()
    replaced.put(sys, "getrecursionlimit", getrecursionlimit)
    replaced.put(sys, "setrecursionlimit", setrecursionlimit)
    own_set(own_get() + below)
    try:
        yield
    finally:
        replaced.take_back()
        own_set(own_get() - below)
