"""The program's signal handlers run between operations, as in PyTorch, and never inside one.

# Note [Between operations]
Python runs a handler between any two of its instructions. PyTorch's operations and engine are one
instruction each. Here they are Python, and a handler in their middle would see intermediate states:
gradients switched off, a tensor half written, a call half reported. So a handler that interrupts an
operation is postponed until it returns: the frame that called the operation gets a trace function,
which Python calls before the next instruction there, and which runs the handler. Calls without a
signal cost nothing more. A debugger's own trace function is paused meanwhile. A hook called by an
operation counts as the program.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from functools import wraps
from types import CodeType, FrameType
from typing import Any, ClassVar

import numpy as np

import gradscope
from gradscope.runtime.core.state.frames import WRITTEN

SOON = 0.001
"""Seconds until a signal is sent again."""

_PACKAGE = os.path.join(gradscope.__path__[0], "")  # noqa: PTH118  pathlib takes long to import
_PLACES = os.path.dirname(np.__path__[0])  # noqa: PTH120
_STANDARD = os.path.join(os.path.dirname(os.__file__), "")  # noqa: PTH118, PTH120
_OPERATIONS = (_PACKAGE, WRITTEN)
_BELOW = (
    "<frozen ",
    "<__array_function__",
    *(os.path.join(_PLACES, name, "") for name in ("numpy", "numba", "llvmlite", "ml_dtypes")),  # noqa: PTH118
)
_BETWEEN = tuple(
    os.path.join(_PACKAGE, *room.split("/"))  # noqa: PTH118
    for room in (
        "runtime/utils/data",
        "runtime/multiprocessing",
        "record/run_script",
        "record/script",
        "commands",
    )
)
"""Parts of gradscope in which a program only waits. They do not count as operations."""

Handler = Callable[[int, FrameType | None], Any]


def when_back(frame: FrameType | None, handler: Handler, number: int) -> bool:
    """Call a handler when the operation around this frame returns. False if there is none."""
    caller = called_from(frame)
    if caller is not None:
        _Waiting.add(caller, handler, number)
    return caller is not None


class Between:
    """A handler of the program that is postponed while an operation runs."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler

    def __call__(self, number: int, frame: FrameType | None) -> Any:
        return None if when_back(frame, self.handler, number) else self.handler(number, frame)


def called_from(frame: FrameType | None) -> FrameType | None:
    """The program's frame that called the operation around this frame; None if there is none."""
    inside = False
    while frame is not None:
        if _is_operation(frame):
            inside = True
        elif not _is_below(frame) and not _is_tracing(frame, frame.f_back):
            return frame if inside else None
        frame = frame.f_back
    return None


def _is_tracing(frame: FrameType, traced: FrameType | None) -> bool:
    """Whether this frame belongs to a trace function of a debugger or profiler."""
    functions = (traced and traced.f_trace, sys.gettrace(), sys.getprofile())
    return any(_code_of(each) is frame.f_code for each in functions if each is not None)


def _code_of(function: Any) -> Any:
    """The code of a function, a bound method, or a callable object."""
    if not hasattr(function, "__code__"):
        function = getattr(type(function), "__call__", None)  # noqa: B004  it is read, not tested
    return getattr(function, "__code__", None)


def _is_operation(frame: FrameType) -> bool:
    """Whether this frame is one of gradscope's operations. Methods of dataclasses have no file."""
    file = frame.f_code.co_filename
    if file == "<string>":
        name = str(frame.f_globals.get("__name__"))
        return name.startswith(("gradscope.", "namedtuple_"))
    return file.startswith(_OPERATIONS) and not file.startswith(_BETWEEN)


def _is_below(frame: FrameType) -> bool:
    """Whether this frame belongs to NumPy, Numba, the standard library, or an import."""
    file, caller = frame.f_code.co_filename, frame.f_back
    if file.startswith(_STANDARD):
        return "-packages" not in file.removeprefix(_STANDARD) or _finds(frame.f_code, caller)
    return file.startswith(_BELOW) or _finds(frame.f_code, caller)


def _finds(code: CodeType, caller: FrameType | None) -> bool:
    """Whether an import searches for a module here, rather than running the module's own code.

    Functions that a recording puts in place of others also have the name of an import's file.
    """
    if caller is None or code.co_name == "<module>":
        return False
    is_import = caller.f_code.co_filename.startswith("<frozen importlib")
    return is_import and not str(caller.f_globals.get("__name__")).startswith("gradscope.")


class _Waiting:
    """Postponed handlers, until an operation returns or calls the program."""

    handlers: ClassVar[list[tuple[Handler, int]]] = []
    before: ClassVar[Any] = None
    """A debugger's trace function, which is paused until the operation returns."""

    @classmethod
    def add(cls, caller: FrameType, handler: Handler, number: int) -> None:
        if (handler, number) in cls.handlers:
            return
        cls.handlers.append((handler, number))
        trace = sys.gettrace()
        if trace != cls.called:
            cls.before = trace
        caller.f_trace_opcodes = True
        caller.f_trace = _Returned(caller.f_trace)
        sys.settrace(cls.called)

    @classmethod
    def called(cls, frame: FrameType, event: str, arg: object) -> None:  # noqa: ARG003  Python's
        """Trace function for calls: detects calls of the program."""
        ours = frame.f_code.co_filename.startswith(_OPERATIONS) or _is_operation(frame)
        if not ours and not _is_below(frame):
            cls.run(frame)

    @classmethod
    def run(cls, frame: FrameType) -> None:
        """Run the postponed handlers: the program has control."""
        sys.settrace(cls.before)
        try:
            while cls.handlers:  # signals during a handler are not traced, but handled here
                handler, number = cls.handlers.pop(0)
                handler(number, frame)
                sys.settrace(cls.before)
        finally:  # a handler raised: run the others where the program handles that
            while cls.handlers:
                again = (threading.get_ident(), cls.handlers.pop(0)[1])
                timer = threading.Timer(SOON, signal.pthread_kill, again)
                timer.daemon = True
                timer.start()


class _Returned:
    """The trace function of the frame that called the operation."""

    def __init__(self, before: Any) -> None:
        self._before = before.before() if isinstance(before, _Returned) else before

    def before(self) -> Any:
        return self._before

    def __call__(self, frame: FrameType, event: str, arg: object) -> Any:
        """The operation has returned or raised."""
        frame.f_trace, frame.f_trace_opcodes = self._before, False
        _Waiting.run(frame)
        return self._before


def run_between_operations() -> None:
    """From now on, postpone handlers given to `signal.signal` until operations return."""
    module: Any = signal
    if hasattr(module.signal, "__wrapped__"):
        return
    signal_, getsignal_ = module.signal, module.getsignal

    @wraps(signal_)
    def set_handler(signalnum: int, handler: Any) -> Any:
        return _programs(signal_(signalnum, _waiting(handler)))

    @wraps(getsignal_)
    def get_handler(signalnum: int) -> Any:
        return _programs(getsignal_(signalnum))

    module.signal, module.getsignal = set_handler, get_handler
    if threading.current_thread() is threading.main_thread():
        for number in signal.valid_signals():
            handler = getsignal_(number)
            if _waiting(handler) is not handler:
                signal_(number, _waiting(handler))


def _waiting(handler: Any) -> Any:
    """The handler to install. gradscope's own and Ctrl-C are not wrapped."""
    ours = str(getattr(handler, "__module__", "")).startswith("gradscope.")
    if not callable(handler) or handler is signal.default_int_handler or ours:
        return handler
    return handler if isinstance(handler, signal.Handlers) else Between(handler)


def _programs(handler: Any) -> Any:
    """The handler that the program set."""
    return handler.handler if isinstance(handler, Between) else handler
