"""Source lines and stacks of the user's program, each stored once."""

from __future__ import annotations

import copy
import linecache
import os
import sys
from pathlib import Path
from threading import RLock
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

from gradscope.errors import BY_US
from gradscope.record.notes.c_functions import OURS
from gradscope.record.notes.log import take_all
from gradscope.record.notes.user_functions import written
from gradscope.trace.schema import NONE, Frame, Source, Stack
from gradscope.trace.text import visible
from gradscope.trace.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable

    from gradscope.machine_code.callables import Callables
    from gradscope.record.notes.c_functions.note_buffers import SiteTable

PACKAGE = f"{Path(__file__).absolute().parents[2]}{os.sep}"

RUNS_THE_PROGRAM = f"{PACKAGE}{os.path.join('record', 'run_script.py')}"  # noqa: PTH118
"""The file whose frame runs a whole program: the frames above it are those of the command line."""

LONGEST, LONG_PATH = 80, 4096
"""Largest number of characters of a line's text, and of its path, in an error."""

FILES, LINES = 40, 5000
"""Largest number of files of the program that are stored, and of lines of each."""

INSTALLED = ("site-packages", "dist-packages", "lib/python3", "<frozen")
"""Parts of the paths of files that do not belong to the program."""

CALLERS = 3
"""Number of lines recorded for calls that are often made in helper functions."""

MACHINERY = (PACKAGE, "<gradscope: ", "<frozen runpy>", "<frozen importlib", copy.__file__)
"""Prefixes of files whose frames are never the user's program, including `copy`."""


def is_ours(code: CodeType) -> bool:
    """Whether a frame of this code is machinery and not the user's program."""
    return code.co_filename.startswith(MACHINERY) or code.co_varnames == BY_US


def caller_of(frame: FrameType) -> FrameType | None:
    """The frame that called this one; None if this one runs the whole program."""
    return None if frame.f_code.co_filename == RUNS_THE_PROGRAM else frame.f_back


class Sites:
    """Source positions as stack ids.

    `known` maps the address of an instruction (that of its code object plus its offset: bytecode is
    inside its code object) to the stack of the user's line. Addresses in gradscope's own code are
    never known, so that their callers are looked up each time.
    """

    def __init__(self, writer: Writer, *, whole: bool, machinery: tuple[str, ...] = ()) -> None:
        self.known: dict[int, int] = {}
        self.whole = whole
        self._writer = writer
        self._machinery = (*MACHINERY, *machinery)
        self._folder = working_directory()  # the program may change it, or remove it
        self.known_machinery: dict[int, bool] = {}
        """By id() of code, because hashing code is slow."""
        self.engines: set[int] = set()  # those of the engine
        self._several: dict[tuple[int, ...], int] = {}
        self._ours: set[int] = set()  # addresses in gradscope's own code
        self._told: Callable[[int, int], None] = _nobody
        self._codes: list[CodeType] = []  # held: their ids are keys
        self.keeps_text = True
        """Whether the text of lines is stored in the trace."""
        self._lock = RLock()
        self._frames: dict[tuple[str, int, str], int] = {}
        self._stacks: dict[tuple[int, int], int] = {}
        self._new_frames: list[tuple[int, int, int, int, int]] = []
        self._new_stacks: list[tuple[int, int, int]] = []

    def is_ours(self, code: CodeType) -> bool:
        """Whether a frame of this code is machinery and not the user's program."""
        return code.co_filename.startswith(self._machinery)

    def here(self, depth: int = 1) -> int:
        """The stack of the innermost user frame, `depth` frames above the caller."""
        return self.of(sys._getframe(depth + 1))

    def of(self, frame: FrameType | None) -> int:
        """The stack of this frame, or of the nearest caller in the user's program."""
        known = self.known
        while frame is not None:
            code = frame.f_code
            address = id(code) + frame.f_lasti
            stack = known.get(address)
            if stack is not None:
                return stack
            if address not in self._ours:
                self._codes.append(code)
                if not self.is_ours(code):
                    stack = self._stack(frame)
                    if not self.whole:
                        self.known[address] = stack
                        self._told(address, stack)
                    return stack
                if code.co_filename == RUNS_THE_PROGRAM:
                    self.known[address] = NONE
                    self._told(address, NONE)
                    return NONE
                self._ours.add(address)
                self._told(address, OURS)
            frame = frame.f_back
        return NONE

    def is_machinery(self, code: CodeType) -> bool:
        """`is_ours`, cached."""
        key = id(code)
        found = self.known_machinery.get(key)
        if found is None:
            self._codes.append(code)
            found = self.known_machinery[key] = self.is_ours(code)
            if found and not code.co_filename.startswith(PACKAGE):
                self.engines.add(key)
        return found

    def of_backward(self, frame: FrameType | None, *, accumulates: bool) -> int:
        """The line that called a backward; for one that returns gradients, with its callers."""
        return self.of(frame) if accumulates or self.whole else self.of_several(frame, CALLERS)

    def of_several(self, frame: FrameType | None, most: int) -> int:
        """The stack of this many user frames, from this one outwards."""
        frames: list[FrameType] = []
        key: list[int] = []
        known = self.known_machinery
        while frame is not None and len(frames) < most:
            code = frame.f_code
            is_machinery = known.get(id(code))
            if is_machinery is None:
                is_machinery = self.is_machinery(code)
            if not is_machinery:
                frames.append(frame)
                key.append(id(code) + frame.f_lasti)
                if code.co_name == "<module>" and frame.f_globals.get("__name__") == "__main__":
                    break  # the callers of the script are not part of it
            frame = caller_of(frame)
        addresses = tuple(key)
        found = self._several.get(addresses)
        if found is None:
            found = NONE
            for each in reversed(frames):
                found = self._link(self._frame(each), found)
            self._several[addresses] = found
        return found

    def tell(self, add: Callable[[int, int], None]) -> None:
        """Pass all known addresses, with their line or OURS, to a function; now and in future."""
        for address, value in self._all_known().items():
            add(address, value)
        self._told = add

    def _all_known(self) -> dict[int, int]:
        return {**self.known, **dict.fromkeys(self._ours, OURS)}

    def compile(self, functions: Callables) -> SiteTable:
        """`of` as a C function, which calls this one for unknown addresses."""
        from gradscope.record.notes.c_functions.note_buffers import SiteTable

        table = SiteTable(functions, self._all_known(), self.of)
        self._told = table.add
        return table

    def finish(self) -> None:
        """Release the functions that use this."""
        self._told = _nobody

    def _stack(self, frame: FrameType) -> int:
        if not self.whole:
            return self._link(self._frame(frame), NONE)
        frames: list[FrameType] = []
        at: FrameType | None = frame
        while at is not None:
            if not self.is_ours(at.f_code):
                frames.append(at)
            at = caller_of(at)
        stack = NONE
        for each in reversed(frames):
            stack = self._link(self._frame(each), stack)
        return stack

    def _link(self, frame: int, parent: int) -> int:
        with self._lock:  # likewise below: numbers are indices
            found = self._stacks.get((frame, parent))
            if found is None:
                found = len(self._stacks)
                self._new_stacks.append((found, frame, parent))
                self._stacks[frame, parent] = found
            return found

    def _frame(self, frame: FrameType) -> int:
        code = frame.f_code
        line = frame.f_lineno or 0
        return self.position(code.co_filename, line, code.co_qualname, frame.f_globals)

    def position(self, file: str, line: int, function: str, scope: dict[str, Any] | None) -> int:
        """The frame row of a line in a file."""
        key = (file, line, function)
        with self._lock:
            found = self._frames.get(key)
            if found is None:
                found = len(self._frames)
                text = linecache.getline(file, line, scope).strip() if self.keeps_text else ""
                name, path = map(self._writer.intern, (function, shown(file, self._folder)))
                row = (found, path, line, name, self._writer.intern_code(text))
                self._new_frames.append(row)
                self._frames[key] = found
            return found

    def of_line(self, file: str, line: int, function: str, parent: int = NONE) -> int:
        """The stack of a line of a file, called from there."""
        return self._link(self.position(file, line, function, None), parent)

    def note_files(self) -> None:
        """Pass the text of the program's own files that were executed to the writer."""
        seen = dict.fromkeys(file for file, _, _ in list(self._frames))
        own = [file for file in seen if not is_installed(file)][:FILES]
        texts = {file: linecache.getlines(file) for file in own}
        kept = {file: "".join(each) for file, each in texts.items() if 0 < len(each) <= LINES}
        if kept:
            names = [self._writer.intern(shown(file, self._folder)) for file in kept]
            text = [*map(self._writer.intern_code, kept.values())]
            self._writer.block(Source, {"id": range(len(kept)), "file": names, "text": text})

    def in_words(self, stack: int) -> str:
        """The innermost line of a stack, with its text: `train.py:4 (y.add_(1))`."""
        frame, _ = list(self._stacks)[stack]
        file, line, _ = list(self._frames)[frame]
        text = linecache.getline(file, line).strip()
        short = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
        place = f"{shown(file, self._folder)}:{line}"
        return visible(f"{place} ({short})" if short else place, LONG_PATH)

    def of_function(self, function: Any) -> int:
        """The definition of a function, for hooks."""
        found = written(function)
        if found is None or self.is_ours(found.__code__):
            return NONE
        code, scope = found.__code__, found.__globals__
        frame = self.position(code.co_filename, code.co_firstlineno, code.co_qualname, scope)
        return self._link(frame, NONE)

    def flush(self) -> None:
        """Pass new frames and stacks to the writer."""
        frames = take_all(self._new_frames)
        stacks = take_all(self._new_stacks)
        if frames:
            names = ("id", "file", "line", "function", "text")
            self._writer.block(Frame, dict(zip(names, zip(*frames, strict=True), strict=True)))
        if stacks:
            links = ("id", "frame", "parent")
            self._writer.block(Stack, dict(zip(links, zip(*stacks, strict=True), strict=True)))


def is_installed(file: str) -> bool:
    """Whether a file does not belong to the program, according to its path."""
    return any(part in file for part in INSTALLED)


def _nobody(address: int, line: int) -> None:
    """Does nothing."""


def shown(file: str, folder: str) -> str:
    """A path as shown to the user: relative to the initial folder, or the cell `In[3]`."""
    if (cell := _cell(file)) is not None:
        return cell
    if not folder or not Path(file).is_absolute():
        return file
    try:
        relative = os.path.relpath(file, folder)
    except ValueError:  # another drive
        return file
    return relative if len(relative) < len(file) and not relative.startswith("..") else file


def _cell(file: str) -> str | None:
    """The notebook cell for a file name of IPython; None for any other file."""
    if "ipykernel_" not in file and not file.startswith("<ipython-input-"):
        return None
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    number = getattr(getattr(shell, "compile", None), "_filename_map", {}).get(file)
    return None if number is None else f"In[{number}]"


def working_directory() -> str:
    """The working directory; "" if it has been removed."""
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return ""
