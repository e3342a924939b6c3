"""Hides gradscope's frames from stacks that a script prints or logs, and from its debugger."""

from __future__ import annotations

import bdb
import traceback
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from itertools import filterfalse, takewhile
from types import CodeType, FrameType
from typing import Any

from gradscope.errors import BY_US
from gradscope.watch.in_place.standing_in import Replaced

Frames = list[tuple[FrameType, int]]
WATCHING = ("gradscope.record.", "gradscope.watch.")


@contextmanager
def ending_above(below: Collection[Callable[..., Any]]) -> Iterator[None]:
    """A context in which traversals of a stack end above these functions, which run the script.

    They skip frames of the watcher between the script and PyTorch.
    """
    codes: set[CodeType] = {function.__code__ for function in below}
    walk, stack = traceback.walk_stack, bdb.Bdb.get_stack

    def walk_stack(f: FrameType | None) -> Iterator[tuple[FrameType, int]]:
        # None is counted from the frame that requests the first one: none of ours is in between.
        above = takewhile(lambda each: each[0].f_code not in codes, walk(f))
        return filterfalse(_is_watching, above)

    def get_stack(self: bdb.Bdb, f: FrameType | None, t: Any) -> tuple[Frames, int]:
        found, index = stack(self, f, t)
        ours = [i for i, (frame, _) in enumerate(found) if frame.f_code in codes]
        first = ours[-1] + 1 if ours else 0
        return found[first:], max(index - first, 0)

    replaced = Replaced()
    replaced.put(traceback, "walk_stack", walk_stack)
    replaced.put(bdb.Bdb, "get_stack", get_stack)
    try:
        yield
    finally:
        replaced.take_back()


def _is_watching(each: tuple[FrameType, int]) -> bool:
    frame, _ = each
    module = str(frame.f_globals.get("__name__"))
    return module.startswith(WATCHING) or frame.f_code.co_varnames == BY_US
