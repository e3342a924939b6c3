"""PyTorch's own function that calls its engine, with our calls in it.

# Note [No frame of ours around a backward]
Hooks run inside a backward, and some warn with a `stacklevel`: that of PyTorch itself for full
backward hooks names the line that called `backward`. A frame of ours above them would make that
another line. So PyTorch's function gets other code while we watch: its own, compiled from its
source, with a call of ours before and after that of the engine, and all of it on the line of that
call. Where there is no source, or it looks otherwise, `Variable._execution_engine` alone serves.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from types import CodeType, FunctionType
from typing import Any

import torch.autograd.graph as home

CALLER, CALLS = "_engine_run_backward", "run_backward"
WATCH = "gradscope's watch"  # a constant in whose place the watch is put

AROUND = f"""
_begun = None
try:
    _compiler = {WATCH!r}.aside(None)
    try:
        _begun = {WATCH!r}.begins(_tensors, _given, _more)
    finally:
        {WATCH!r}.aside(_compiler)
    _handed = {WATCH!r}.run()
except BaseException as _error:
    _compiler = {WATCH!r}.aside(None)
    try:
        {WATCH!r}.ends(_begun, _error)
    finally:
        {WATCH!r}.aside(_compiler)
    raise
_compiler = {WATCH!r}.aside(None)
try:
    return {WATCH!r}.ends(_begun, None, _handed)
finally:
    {WATCH!r}.aside(_compiler)
"""


class EngineCaller:
    """That function, with calls of `watch` in it from `start` to `stop`.

    `watch.begins` is given what the engine is about to be given: tensors, a tuple, a dictionary.
    `watch.run` is the engine's own. `watch.ends` is given what `begins` returned, and an exception,
    or what the engine returned, which it returns. `watch.aside` takes a compiler of frames, as of
    `torch.compile`, off this thread: it would compile what runs in our calls.
    """

    def __init__(self, watch: Any) -> None:
        self._function: Any = getattr(home, CALLER, None)
        self._watch = watch
        self._own: CodeType | None = None
        self._ours: CodeType | None = None

    def start(self) -> None:
        if isinstance(self._function, FunctionType):
            self._own = self._function.__code__
            self._ours = with_calls(self._function, self._watch)
            if self._ours is not None:
                self._function.__code__ = self._ours

    def stop(self) -> None:
        if self._ours is not None and self._function.__code__ is self._ours:
            self._function.__code__ = self._own
        self._ours = None


def with_calls(function: FunctionType, watch: Any) -> CodeType | None:
    """The code of this function, with calls of `watch` around that of the engine; None: no way."""
    own = function.__code__
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        ast.increment_lineno(tree, own.co_firstlineno - 1)
        change = _Change()
        module = compile(change.visit(tree), own.co_filename, "exec", dont_inherit=True)
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    found = [each for each in module.co_consts if isinstance(each, CodeType)]
    made = next((each for each in found if each.co_name == own.co_name), None)
    if made is None or change.found != 1 or made.co_freevars or own.co_freevars:
        return None
    consts = tuple(watch if each == WATCH else each for each in made.co_consts)
    return made.replace(co_consts=consts, co_qualname=own.co_qualname)


class _Change(ast.NodeTransformer):
    """Puts calls of ours around `return ….run_backward(tensors, *given, **more)`."""

    found = 0

    def visit_Return(self, node: ast.Return) -> Any:
        match node.value:
            case (
                ast.Call(
                    func=ast.Attribute(attr=attribute),
                    args=[ast.Name(tensors), ast.Starred(ast.Name(given))],
                    keywords=[ast.keyword(None, ast.Name(more))],
                ) as call
            ) if attribute == CALLS:
                self.found += 1
                names = {"_tensors": tensors, "_given": given, "_more": more}
                return [_Put(call, names).visit(each) for each in ast.parse(AROUND).body]
        return node


class _Put(ast.NodeTransformer):
    """Puts a call of the engine and its variables into statements of ours, on its line."""

    def __init__(self, call: ast.Call, names: dict[str, str]) -> None:
        self._call = call
        self._names = names

    def visit(self, node: ast.AST) -> Any:
        super().generic_visit(node)
        if isinstance(node, ast.Name):
            node.id = self._names.get(node.id, node.id)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".run"):
            node.args, node.keywords = self._call.args, self._call.keywords
        if isinstance(node, ast.expr | ast.stmt | ast.excepthandler):
            ast.copy_location(node, self._call)
        return node
