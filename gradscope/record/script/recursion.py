"""A script may call as deep as it can alone: what runs below it does not count."""

from __future__ import annotations

import sys
from types import CodeType
from typing import Any

from gradscope.errors import leave_no_frame
from gradscope.watch.in_place.standing_in import Replaced

MOST = 10_000
"""A limit above this is not tried out: it would take long, and a few calls are nothing to it."""


def room(n: int = 1) -> int:
    """How many calls one inside another are possible from here."""
    try:
        return room(n + 1)
    except RecursionError:
        return n


_tried = compile("found = room()", "<gradscope: recursion>", "exec")


def execute(code: CodeType, namespace: dict[str, Any]) -> None:
    """Run the code of a script with as much room for calls as it has alone.

    Functions of `sys` show it the limit that it has alone.
    """
    limit, own_get, own_set = sys.getrecursionlimit(), sys.getrecursionlimit, sys.setrecursionlimit
    below = 0
    if limit <= MOST:
        scope: dict[str, Any] = {"room": room}
        exec(_tried, scope)  # noqa: S102  as the script is run below
        below = limit - 1 - scope["found"]

    def getrecursionlimit() -> int:
        return own_get() - below

    def setrecursionlimit(limit: int, /) -> None:
        try:
            own_set(limit + below if isinstance(limit, int) and limit > 0 else limit)
        except BaseException as error:
            leave_no_frame(error)
            raise

    replaced = Replaced()
    replaced.put(sys, "getrecursionlimit", getrecursionlimit)
    replaced.put(sys, "setrecursionlimit", setrecursionlimit)
    own_set(limit + below)
    try:
        exec(code, namespace)  # noqa: S102  running the script is what this is for
    finally:
        replaced.take_back()
        own_set(own_get() - below)
