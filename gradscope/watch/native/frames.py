"""Finds the frames of a thread in the interpreter's memory, by comparison with known frames.

See Note [Where things are] in layout.py. The frames of a thread are changed only by the thread
itself: so it may read them with or without the interpreter lock.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from os import pread
from struct import unpack
from types import FrameType
from typing import NamedTuple, TypeVar

from gradscope.watch.native.layout import NotFound, _Memory

OF_FRAME, OF_THREAD, OF_HOLDER, OF_OBJECT = 16, 64, 4, 8  # number of words that are read
DEEPEST = 5
LONGEST_HEAD = 1 << 10
Words = tuple[int, ...]
Place = TypeVar("Place")


@dataclass(frozen=True, slots=True)
class FrameLayout:
    """Offsets in bytes in a thread's state, in a frame, or in an object their words point to."""

    holder: int  # in a thread's state: the object that holds the current frame
    current: int  # in that object; negative: it is the frame itself
    previous: int  # in a frame: its caller; 0: none
    code: int  # in a frame
    instruction: int  # in a frame: its address
    head: int  # distance of the first instruction from the start of its code
    skipped: int  # code of frames without a function; 0: there are none


class _Frame(NamedTuple):
    """A frame as Python shows it, and its memory."""

    place: int
    code: int
    offset: int  # of its instruction
    words: Words
    behind: dict[int, Words]  # the memory that its words point to


class _Look(NamedTuple):
    """The frames of a thread, innermost first, and the memory that its state points to."""

    frames: list[_Frame]
    held: list[Words]  # each word, and the memory it points to


@cache
def frame_layout() -> FrameLayout:
    """The offsets in this interpreter. Raises NotFound if they are not certain."""
    memory = _Memory()
    try:
        with ThreadPoolExecutor(1) as apart:
            looks = apart.submit(_looks, memory).result()
    finally:
        memory.close()
    frames = [frame for look in looks for frame in look.frames]
    places, words = range(OF_FRAME), [frame.words for frame in frames]
    code = _only("codes", (
        at for at in places if all(w[at] == f.code for f, w in zip(frames, words, strict=True))
    ))  # fmt: skip
    instruction, head = _only("instructions", {
        (at, heads.pop())
        for at in places
        for heads in [{w[at] - f.code - f.offset for f, w in zip(frames, words, strict=True)}]
        if len(heads) == 1 and 0 < max(heads) < LONGEST_HEAD
    })  # fmt: skip
    previous, skipped = _only("callers", (
        (at, code_between) for at in places
        for code_between in [_between(looks, at, code)] if code_between is not None
    ))  # fmt: skip
    holder, current = _only("threads' frames", (
        (at, place) for at in range(OF_THREAD) for place in range(1 + OF_HOLDER)
        if all(look.held[at][place:][:1] == (look.frames[0].place,) for look in looks)
    ))  # fmt: skip
    return FrameLayout(
        8 * holder, 8 * (current - 1), 8 * previous, 8 * code, 8 * instruction, head, skipped
    )


def _looks(memory: _Memory) -> list[_Look]:
    """Frames of functions that call each other directly, and through C functions."""
    looks: list[_Look] = []
    file = memory.file
    state = ctypes.pythonapi.PyGILState_GetThisThreadState
    state.restype, state.argtypes = ctypes.c_uint64, []
    own = sys._getframe()
    of_object = _only("frames", (
        at for at, word in enumerate(memory.words(id(own), OF_OBJECT))
        if at > 1 and word != id(own.f_back) and id(own.f_code) in memory.words(word, OF_FRAME)
    ))  # fmt: skip
    del own  # a cycle that would keep this frame and its callers

    def frame_of(frame: FrameType) -> _Frame:
        place = memory.words(id(frame), OF_OBJECT)[of_object]
        words = memory.words(place, OF_FRAME)
        behind = {word: memory.words(word, OF_FRAME) for word in words}
        return _Frame(place, id(frame.f_code), frame.f_lasti, words, behind)

    def look() -> None:
        frames: list[_Frame] = []
        here: FrameType | None = sys._getframe()
        while here is not None and len(frames) < DEEPEST:
            frames.append(frame_of(here))
            here = here.f_back
        held = []
        for word in memory.words(state(), OF_THREAD):
            try:  # called without a Python function, which would have a frame
                behind = pread(file, 8 * OF_HOLDER, word)
            except (OSError, OverflowError):
                behind = b""
            held.append((word, *unpack(f"<{len(behind) // 8}Q", behind)))
        looks.append(_Look(frames, held))

    def directly() -> None:
        look()

    def by_c(function: Callable[[], None]) -> None:
        sorted([1], key=lambda _: function())  # type: ignore[arg-type,return-value]

    for function in (look, directly):
        function()
        by_c(function)
        by_c(lambda function=function: by_c(function))  # type: ignore[misc]
    return looks


def _between(looks: list[_Look], at: int, code: int) -> int | None:
    """The code of frames between those that Python shows, or 0; None: callers were not found."""
    found = {0}
    for look in looks:
        for frame, caller in zip(look.frames, look.frames[1:], strict=False):
            there = frame.words[at]
            if there != caller.place:
                between = frame.behind[there]
                if not between or between[at] != caller.place:
                    return None
                found.add(between[code])
    return max(found) if len(found) <= 2 else None


def _only(what: str, places: Iterable[Place]) -> Place:
    found = list(places)
    if len(found) != 1:
        raise NotFound(f"{what} are at {len(found)} places")
    return found[0]
