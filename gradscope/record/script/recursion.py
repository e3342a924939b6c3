"""A script may call as deep as it can alone: what runs below it does not count."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gradscope.errors import leave_no_frame
from gradscope.watch.in_place.standing_in import Replaced

MOST = 10_000
"""A higher limit is not tried out: that would take long, and a few calls are nothing to it."""


def room() -> int:
    """How many calls one inside another are possible from here."""
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
    """Inside, a script has as much room for calls as alone; functions of `sys` show it that limit.

    `found`: the room that `exec` of other code had in the same place, which is TRIED.
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
