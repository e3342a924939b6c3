"""Signal handlers of the program run between operations, as in PyTorch, and never inside one.

# Note [Between operations]
Python runs a handler between any two of its instructions. PyTorch's operations and its engine are
one instruction each; here they are Python, and a handler that came in the middle would see what
they are about: gradients switched off, a tensor half written, a call half told. So a handler that
finds the program inside of one waits until it returns: the frame that called it gets a trace
function, which Python calls before the next instruction there, and which lets the handler run.
Nothing is asked on the way of a call that no signal interrupts. A debugger's own trace function
rests meanwhile. A hook that the operation calls is the program, too.
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
"""Rooms of gradscope where a program waits, for work or for others: no operations."""

Handler = Callable[[int, FrameType | None], Any]


def when_back(frame: FrameType | None, handler: Handler, number: int) -> bool:
    """Call a handler when the operation that this frame is inside of returns; False: of none."""
    caller = called_from(frame)
    if caller is not None:
        _Waiting.add(caller, handler, number)
    return caller is not None


class Between:
    """A handler of the program that waits for the operation it finds under way."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler

    def __call__(self, number: int, frame: FrameType | None) -> Any:
        return None if when_back(frame, self.handler, number) else self.handler(number, frame)


def called_from(frame: FrameType | None) -> FrameType | None:
    """The program's frame that called the operation this one is inside of; None: it is in none."""
    inside = False
    while frame is not None:
        if _is_operation(frame):
            inside = True
        elif not _is_below(frame) and not _is_tracing(frame, frame.f_back):
            return frame if inside else None
        frame = frame.f_back
    return None


def _is_tracing(frame: FrameType, traced: FrameType | None) -> bool:
    """Whether Python runs this because of what it traces: a debugger's or a profiler's function."""
    functions = (traced and traced.f_trace, sys.gettrace(), sys.getprofile())
    return any(_code_of(each) is frame.f_code for each in functions if each is not None)


def _code_of(function: Any) -> Any:
    """The code of a function, of a bound method, or of an object that can be called."""
    if not hasattr(function, "__code__"):
        function = getattr(type(function), "__call__", None)  # noqa: B004  it is read, not tested
    return getattr(function, "__code__", None)


def _is_operation(frame: FrameType) -> bool:
    """Whether this is of gradscope's operations; a dataclass's methods are text of no file."""
    file = frame.f_code.co_filename
    if file == "<string>":
        name = str(frame.f_globals.get("__name__"))
        return name.startswith(("gradscope.", "namedtuple_"))
    return file.startswith(_OPERATIONS) and not file.startswith(_BETWEEN)


def _is_below(frame: FrameType) -> bool:
    """Whether this is of what operations stand on: NumPy, Numba, the standard library, imports."""
    file, caller = frame.f_code.co_filename, frame.f_back
    if file.startswith(_STANDARD):
        return "-packages" not in file.removeprefix(_STANDARD) or _finds(frame.f_code, caller)
    return file.startswith(_BELOW) or _finds(frame.f_code, caller)


def _finds(code: CodeType, caller: FrameType | None) -> bool:
    """Whether an import asks this for a module, rather than running the module's own code.

    A recording's stand-ins for functions bear the name of an import's file, too.
    """
    if caller is None or code.co_name == "<module>":
        return False
    is_import = caller.f_code.co_filename.startswith("<frozen importlib")
    return is_import and not str(caller.f_globals.get("__name__")).startswith("gradscope.")


class _Waiting:
    """Handlers that wait until an operation returns, or calls the program."""

    handlers: ClassVar[list[tuple[Handler, int]]] = []
    before: ClassVar[Any] = None
    """The trace function of a debugger, which has to miss what the operation does meanwhile."""

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
        """What Python asks of each call: whether it is of the program."""
        ours = frame.f_code.co_filename.startswith(_OPERATIONS) or _is_operation(frame)
        if not ours and not _is_below(frame):
            cls.run(frame)

    @classmethod
    def run(cls, frame: FrameType) -> None:
        """Control is with the program."""
        sys.settrace(cls.before)
        try:
            while cls.handlers:  # what interrupts a handler is not traced: it is done here, too
                handler, number = cls.handlers.pop(0)
                handler(number, frame)
                sys.settrace(cls.before)
        finally:  # one has raised: the others find the program where it handles that
            while cls.handlers:
                again = (threading.get_ident(), cls.handlers.pop(0)[1])
                timer = threading.Timer(SOON, signal.pthread_kill, again)
                timer.daemon = True
                timer.start()


class _Returned:
    """The trace function of a frame to which an operation will return."""

    def __init__(self, before: Any) -> None:
        self._before = before.before() if isinstance(before, _Returned) else before

    def before(self) -> Any:
        return self._before

    def __call__(self, frame: FrameType, event: str, arg: object) -> Any:
        """It has returned, or has raised."""
        frame.f_trace, frame.f_trace_opcodes = self._before, False
        _Waiting.run(frame)
        return self._before


def run_between_operations() -> None:
    """From now on, let what is handed to `signal.signal` wait for operations to return."""
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
    """The handler as it is set: those of gradscope itself, and Ctrl-C, know when they may run."""
    ours = str(getattr(handler, "__module__", "")).startswith("gradscope.")
    if not callable(handler) or handler is signal.default_int_handler or ours:
        return handler
    return handler if isinstance(handler, signal.Handlers) else Between(handler)


def _programs(handler: Any) -> Any:
    """The handler as the program knows it."""
    return handler.handler if isinstance(handler, Between) else handler
