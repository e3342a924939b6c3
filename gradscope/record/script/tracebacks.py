"""Tracebacks of the script without the frames of gradscope that ran it."""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, TracebackType
from typing import ClassVar

import numpy as np

from gradscope.record.notes.sites import PACKAGE, is_ours
from gradscope.watch.in_place.standing_in import Replaced, stand_in

PACKAGES = Path(np.__file__).parents[1]
FOUNDATIONS = (
    "<frozen ",
    "<__array_function__",
    *(os.path.join(PACKAGES, name, "") for name in ("numpy", "numba", "llvmlite", "ml_dtypes")),  # noqa: PTH118
)
STANDARD = os.path.join(sysconfig.get_path("stdlib"), "")  # noqa: PTH118


class _Explaining:
    """Adds information to an exception."""

    ways: ClassVar[tuple[Callable[[BaseException], None], ...]] = ()


@contextmanager
def explained_by(explain: Callable[[BaseException], None]) -> Iterator[None]:
    """A context in which this function may add to an exception before it is shown."""
    before = _Explaining.ways
    _Explaining.ways = (*before, explain)
    try:
        yield
    finally:
        _Explaining.ways = before


def show(error: BaseException) -> None:
    """Show an uncaught exception as Python does, with the excepthook of the script."""
    make_the_scripts(error)
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except Exception as another:  # noqa: BLE001  the script's hook may raise anything
        make_the_scripts(another)
        sys.stderr.write("Error in sys.excepthook:\n")
        sys.__excepthook__(type(another), another, another.__traceback__)
        sys.stderr.write("\nOriginal exception was:\n")
        sys.__excepthook__(type(error), error, error.__traceback__)


def described(error: BaseException) -> str:
    """The exception as text, even if its `__str__` raises."""
    try:
        return "".join(traceback.format_exception_only(error)).strip()
    except Exception:  # noqa: BLE001  reading any attribute of it may raise
        return f"{type(error).__qualname__}: <no words>"


def raised_at(error: BaseException) -> str:
    """The line in gradscope that raised it, for reports of a fault. "": raised elsewhere.

    Exceptions that pass through `watch` are from PyTorch and are no faults of gradscope.
    """
    frames = traceback.extract_tb(error.__traceback__)
    file = frames[-1].filename if frames else ""
    if not file.startswith(PACKAGE) or file.startswith(os.path.join(PACKAGE, "watch", "")):  # noqa: PTH118
        return ""
    return f"{frames[-1].filename.removeprefix(PACKAGE)}:{frames[-1].lineno}"


def make_the_scripts(error: BaseException) -> None:
    """Remove gradscope's frames from an exception, its causes and contexts."""
    for explain in _Explaining.ways:
        explain(error)
    pending, seen = [error], {id(error)}
    while pending:
        each = pending.pop()
        each.__traceback__ = _scripts_part(each.__traceback__)
        while each.__context__ is not None and _is_internal(each.__context__):
            each.__context__ = each.__context__.__context__
        grouped = each.exceptions if isinstance(each, BaseExceptionGroup) else ()
        for other in (each.__cause__, each.__context__, *grouped):
            if other is not None and id(other) not in seen:
                seen.add(id(other))
                pending.append(other)


def _is_internal(error: BaseException) -> bool:
    """Whether it was raised and caught without leaving gradscope."""
    return error.__traceback__ is not None and _scripts_part(error.__traceback__) is None


def _scripts_part(whole: TracebackType | None) -> TracebackType | None:
    kept = []
    below = False
    while whole is not None:
        code = whole.tb_frame.f_code
        below = is_ours(code) or (below and is_below(code))
        if not below:
            kept.append(whole)
        whole = whole.tb_next
    part: TracebackType | None = None
    for each in reversed(kept):
        each.tb_next = part
        part = each
    return part


def is_below(code: CodeType) -> bool:
    """Whether this belongs to a dependency of gradscope: NumPy, Numba, the standard library."""
    file = code.co_filename
    standard = file.startswith(STANDARD) and "-packages" not in file.removeprefix(STANDARD)
    return standard or file.startswith(FOUNDATIONS)


@contextmanager
def thread_tracebacks() -> Iterator[None]:
    """A context in which exceptions that end a thread are also shown without our frames."""
    before = threading.excepthook

    def shown(args: threading.ExceptHookArgs) -> None:
        error = args.exc_value
        if error is not None:
            make_the_scripts(error)
            args = threading.ExceptHookArgs((type(error), error, error.__traceback__, args.thread))
        before(args)

    replaced, ours = Replaced(), stand_in(threading, before, shown)
    replaced.put_as_it_is(threading, "excepthook", ours)
    if before is threading.__excepthook__:  # scripts compare with it
        replaced.put_as_it_is(threading, "__excepthook__", ours)
    try:
        yield
    finally:
        replaced.take_back()
