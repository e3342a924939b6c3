"""Runs the exit functions of a script when it ends, not when the process ends."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

from gradscope.errors import leave_no_frame
from gradscope.record.notes.sites import PACKAGE
from gradscope.record.script.tracebacks import make_the_scripts

Wish = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


def is_beside(file: object, folder: str | None) -> bool:
    """Whether a file belongs to the program in this folder, and not to an installed package.

    gradscope is never part of the program, even if the folder is a clone of it.
    """
    name = str(file)
    if folder is None or not name.startswith(os.path.join(folder, "")):  # noqa: PTH118
        return False
    if name.startswith(PACKAGE):
        return False
    return not any(part in name[len(folder) :] for part in INSTALLED)


class Exits:
    """The exit functions of a script. Those of other code run at the end of the process."""

    def __init__(self, folder: str | None) -> None:
        self._folder = folder
        self._wishes: list[Wish] = []

    @contextmanager
    def noting(self) -> Iterator[None]:
        """A context in which the script's calls of `atexit.register` are collected here."""
        module: Any = atexit
        register, unregister = module.register, module.unregister

        def noted(func: Any, /, *args: Any, **kwargs: Any) -> Any:
            if not self._is_scripts(sys._getframe(1).f_globals):
                return register(func, *args, **kwargs)
            self._wishes.append((func, args, kwargs))
            return func

        def forgotten(func: Any, /) -> None:
            self._wishes = [each for each in self._wishes if each[0] != func]
            unregister(func)

        module.register, module.unregister = noted, forgotten
        try:
            yield
        finally:
            module.register, module.unregister = register, unregister

    def _is_scripts(self, scope: dict[str, Any]) -> bool:
        if scope.get("__name__") == "__main__":
            return True
        return is_beside(scope.get("__file__"), self._folder)

    def fulfil(self) -> None:
        """Run the functions, the last one first; errors are printed, and the others run."""
        while self._wishes:
            func, args, kwargs = self._wishes.pop()
            try:
                func(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001  whatever the script raises
                make_the_scripts(error)
                say_ignored(func, error)


def say_why(code: object) -> str:
    """Write the argument of `sys.exit` to stderr, as Python does. Returns its text."""
    text, stream = "", sys.stderr
    with suppress(BaseException):  # errors of its `__str__`, or of the script's stream
        text = str(code)
        if stream is None:
            os.write(2, text.encode(errors="backslashreplace"))
        else:
            stream.write(text)
    try:
        stream.write("\n")
    except BaseException:  # noqa: BLE001  as above
        with suppress(OSError):
            os.write(2, b"\n")
    return text


def say_ignored(func: Any, error: BaseException) -> None:
    """Print an exception in the same way as Python prints unraisable ones."""
    text, of = "Exception ignored in atexit callback", func
    if sys.version_info >= (3, 13):
        text, of = f"{text} {func!r}", None
    hook = sys.unraisablehook
    try:
        hook(unraisable()((type(error), error, error.__traceback__, text, of)))
    except BaseException as another:  # noqa: BLE001  whatever the script's hook raises
        leave_no_frame(another)
        text, place = "Exception ignored in sys.unraisablehook", another.__traceback__
        sys.__unraisablehook__(unraisable()((type(another), another, place, text, hook)))


@cache
def unraisable() -> Any:
    """The type of the argument of `sys.unraisablehook`; Python has no name for it."""
    types: list[type] = []

    class Raises:
        def __del__(self) -> None:
            raise ValueError

    before, sys.unraisablehook = sys.unraisablehook, lambda args: types.append(type(args))
    try:
        Raises()
    finally:
        sys.unraisablehook = before
    return types[0]
