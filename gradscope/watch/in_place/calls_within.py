"""Inserts calls of gradscope into the code of PyTorch functions.

# Note [Calls of ours in PyTorch's code]
A wrapper around a function of PyTorch adds a frame to the stack. A program with deep recursion then
reaches the recursion limit earlier, and a warning with a `stacklevel` names another line. So the
function gets other code while we watch: its own, compiled from its source, with our calls inserted
on existing lines. The function object stays the same, also for compilers and pickles.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from itertools import chain
from types import CodeType, FunctionType
from typing import Any, Protocol

WATCH = "gradscope's watch"
"""A constant in our statements, which is replaced by the object whose methods they call."""


class CodeChange(Protocol):
    """Inserts statements with our calls into the source of a function."""

    changed: int  # number of matches; must be one

    def visit(self, node: ast.Module) -> Any: ...


class CallsWithin:
    """One such function, which contains calls of `watch` from `start` to `stop`."""

    def __init__(self, function: Any, change: Callable[[], CodeChange], watch: Any) -> None:
        self._function = function
        self._change = change
        self._watch = watch
        self._own: CodeType | None = None
        self._ours: CodeType | None = None

    def start(self) -> bool:
        """Insert the calls. Returns whether that was possible."""
        if isinstance(self._function, FunctionType):
            self._own = self._function.__code__
            self._ours = with_calls(self._own, self._change(), self._watch)
            if self._ours is not None:
                self._function.__code__ = self._ours
        return self._ours is not None

    def stop(self) -> None:
        """Restore the code of the function, unless others have changed it since."""
        if self._ours is not None and self._function.__code__ is self._ours:
            self._function.__code__ = self._own
        self._ours = None


def with_calls(own: CodeType, change: CodeChange, watch: Any) -> CodeType | None:
    """This code with calls of `watch`; None: there is no source, or it is not as expected."""
    try:
        source = inspect.getsource(own)
        nested = source[:1].isspace()  # in a class, as in the file, because tracebacks show columns
        tree = ast.parse(f"if True:\n{source}" if nested else source)
        ast.increment_lineno(tree, own.co_firstlineno - 1 - nested)
        module = compile(change.visit(tree), own.co_filename, "exec", dont_inherit=True)
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    found = [each for each in module.co_consts if isinstance(each, CodeType)]
    made = next((each for each in found if each.co_name == own.co_name), None)
    if made is None or change.changed != 1 or made.co_freevars or own.co_freevars:
        return None
    consts = tuple(watch if each == WATCH else each for each in made.co_consts)
    return made.replace(co_consts=consts, co_qualname=own.co_qualname)


def statements(source: str, at: ast.AST) -> list[ast.stmt]:
    """Statements of ours, all of them on the line of this PyTorch statement."""
    body = ast.parse(source).body
    for node in chain.from_iterable(map(ast.walk, body)):
        if isinstance(node, ast.expr | ast.stmt | ast.excepthandler | ast.keyword):
            ast.copy_location(node, at)
    return body
