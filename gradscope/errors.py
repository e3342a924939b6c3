"""The errors of gradscope itself, one class each, with a slug for the docs."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from enum import IntEnum
from types import CodeType, FrameType, FunctionType
from typing import Any, ClassVar, Protocol, Self


class ExitCode(IntEnum):
    """How a command of gradscope ends; `gradscope trace` ends with the code of its script."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Self:
        made = int.__new__(cls, code)
        made._value_ = code
        made.meaning = meaning
        return made

    NOTHING_FOUND = 0, "no problems"
    FOUND = 1, "something was found: a problem, a difference between traces, an inconsistent trace"
    MISUSED = 2, "the command line asks for something that does not exist or cannot be done"
    UNREADABLE = 3, "the trace cannot be read"
    STOPPED = 4, "`gradscope trace --stop-on` ended the script"
    BROKEN = 70, "a fault in gradscope; the message names its place. Please report it"
    INTERRUPTED = 130, "interrupted by Ctrl-C"
    PIPE_CLOSED = 141, "the reader of the output has gone, as in `gradscope info t.json | head -1`"


def how_to_install(package: str) -> str:
    """The command that installs an optional package of others, however gradscope was installed."""
    quoted = f"'{package}'" if "[" in package else package  # zsh would look for a file
    return f"pip install {quoted}"


def fault_text(error: BaseException) -> str:
    """The error and the line that raised it, as in "TypeError: … (updates.py:74)"."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    file = last.tb_frame.f_code.co_filename if last is not None else ""
    place = f" ({file.replace(chr(92), '/').rpartition('/')[2]}:{last.tb_lineno})" if last else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())}{place}"


class GradscopeError(Exception):
    """The base of all errors that gradscope raises: catch it to catch them all."""

    # `slug`: its anchor in docs/reference/errors.md. `exit_code`: that of the command line.
    slug: ClassVar[str] = "gradscope"
    exit_code: ClassVar[ExitCode] = ExitCode.MISUSED


class UsageError(GradscopeError):
    """The command line or the call asks for something that does not exist."""

    slug = "usage"


class NotRunnableError(UsageError):
    """A module that `python -m` cannot run either. For a script that does not exist: 2."""

    slug = "not-runnable"
    exit_code = ExitCode.FOUND


class UnreadableTraceError(GradscopeError):
    """A file is not a trace, or is damaged from its first line on."""

    slug = "unreadable-trace"
    exit_code = ExitCode.UNREADABLE


class FutureTraceError(UnreadableTraceError):
    """A trace was written by a newer gradscope, and this one cannot read it."""

    slug = "future-trace"


class DamagedPartError(UnreadableTraceError):
    """A Parquet file of a fleet is damaged, or another program wrote it."""

    slug = "damaged-part"


class ClusterError(GradscopeError):
    """A cluster of Dask or Ray does not answer, or its workers died."""

    slug = "cluster"


class UnknownNameError(GradscopeError):
    """A name or id is not in the trace."""

    slug = "unknown-name"


class MissingProgramError(GradscopeError):
    """This output needs a program or an optional package that is not installed."""

    slug = "missing-program"


class RenderingError(GradscopeError):
    """A picture could not be drawn."""

    slug = "rendering"


class RecordingError(GradscopeError):
    """A recording could not start, or had to stop."""

    slug = "recording"


class NoMemoryError(RecordingError):
    """A limit on memory leaves too little for a recording: the script runs unrecorded."""

    slug = "no-memory"


class HasTable(Protocol):
    """A declared row of a trace."""

    TABLE: ClassVar[str]


class LateBlockError(RecordingError):
    """A program wrote rows into a trace that it had closed."""

    slug = "late-block"

    def __init__(self, closed: str, row: type[HasTable]) -> None:
        super().__init__(
            f"{closed}: rows for {row.TABLE!r} came after its end; write them before close()"
        )


class EmptyTraceError(GradscopeError):
    """The trace can be read, but holds nothing of what was asked for."""

    slug = "empty-trace"


# Note [What a guard holds]
# A guard keeps faults of ours from the program. A signal handler of the program may raise inside a
# guard, too, where the signal waited no longer (record/script/handlers.py): the guard lets that
# through. Python gives a handler the frame that it interrupts, so a traceback with a frame that has
# the frame before it among its variables has gone through a handler. So may another thread
# (record/script/posted.py), with a class of the program's that nothing in our own frame raises.


def is_the_programs(error: BaseException) -> bool:
    """Whether a signal handler or another thread raised this. See Note [What a guard holds]."""
    if type(error) is RecursionError:  # there may be no room to look
        return False
    traceback, before, handlers = error.__traceback__, None, _handlers()
    while traceback is not None:
        frame = traceback.tb_frame
        if before is not None and (frame.f_code in handlers or _was_given(frame, before)):
            return True
        traceback, before = traceback.tb_next, frame
    of_ours = before is not None and str(before.f_globals.get("__name__")).startswith("gradscope.")
    return of_ours and type(error).__module__.partition(".")[0] not in _OURS


_OURS = {"gradscope", "llvmlite", "numba", "numpy", "orjson", "torch"} | sys.stdlib_module_names


def _was_given(frame: FrameType, interrupted: FrameType) -> bool:
    for value in frame.f_locals.values():
        several = value if type(value) is tuple else (value,)
        if any(each is interrupted for each in several):
            return True
    return False


def _handlers() -> set[CodeType]:
    """The code of those that are set: one may have let go of the frame that it was given."""
    set_ = (signal.getsignal(number) for number in signal.valid_signals())
    codes = (getattr(each, "__code__", None) for each in set_)
    return {code for code in codes if isinstance(code, CodeType)}


def leave_no_frame(error: BaseException) -> None:
    """Take the frame that has caught this, to raise it again at once, out of its traceback."""
    if error.__traceback__ is not None:
        error.__traceback__ = error.__traceback__.tb_next


def from_the_line_of(caller: FrameType) -> Callable[..., Any]:
    """What calls a function by a frame like this one: warnings name the line that calls it."""
    code, scope = caller.f_code, caller.f_globals
    place = id(code), caller.f_lasti, id(scope)
    known = _callers.get(place)
    if known is None or known[0] is not code or known[1].__globals__ is not scope:
        there = calls.__code__.replace(
            co_filename=code.co_filename, co_firstlineno=caller.f_lineno - 1, co_name=code.co_name,
            co_qualname=code.co_qualname,
        )  # fmt: skip
        known = code, FunctionType(there, scope)
        if len(_callers) < MOST_CALLERS:
            _callers[place] = known
    return known[1]


_callers: dict[tuple[int, int, int], tuple[CodeType, FunctionType]] = {}
"""By code, instruction and globals: the code, which is kept so that its id() stays its own."""

MOST_CALLERS = 64


def calls(gradscopes: Any, *given: Any, **more: Any) -> Any:
    return gradscopes(*given, **more)


BY_US = calls.__code__.co_varnames
"""By which one knows such code, which stands on a line of the program and is none of its."""
