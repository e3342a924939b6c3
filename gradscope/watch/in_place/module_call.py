"""Inserts our calls into the PyTorch function that calls modules.

# Note [Calls of modules]
Global hooks would disable the fast path of every call of a module. So our calls are inserted into
`Module.__call__` itself (see `calls_within.py`). It first checks whether `torch.compile` is tracing
it, and then runs only its own code.
"""

from __future__ import annotations

import ast
from copy import deepcopy
from typing import Any

from torch.nn.modules.module import Module

from gradscope.watch.in_place.calls_within import WATCH, CallsWithin, statements

CALL = "_wrapped_call_impl"

AROUND = f"""
try:
    _told = not torch.compiler.is_compiling()
except RecursionError:
    _told = False
if not _told:
    OWN
_compiler = {WATCH!r}.aside(None)
try:
    _told = {WATCH!r}.begins(self, GIVEN, NAMED)
except RecursionError:
    _told = False
finally:
    {WATCH!r}.aside(_compiler)
try:
    OWN
finally:
    if _told:
        _compiler = {WATCH!r}.aside(None)
        try:
            {WATCH!r}.ends()
        finally:
            {WATCH!r}.aside(_compiler)
"""


def module_call(watch: Any) -> CallsWithin:
    """`Module.__call__`, with calls of `watch` in it.

    `watch.begins` receives the module and its arguments, and returns whether `watch.ends` is called
    afterwards, without arguments. If the recursion limit leaves no room for them, only the module
    is called.
    `watch.aside` disables the frame compiler of this thread (`engine_caller.py`).
    """
    return CallsWithin(getattr(Module, CALL, None), _Change, watch)


class _Change(ast.NodeTransformer):
    """Inserts statements around those of a function in which every path returns."""

    changed = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        if not _returns(node.body) or not node.args.args or node.args.args[0].arg != "self":
            return node
        self.changed += 1
        given = node.args.vararg.arg if node.args.vararg else "()"
        named = node.args.kwarg.arg if node.args.kwarg else "{}"
        text = AROUND.replace("GIVEN", given).replace("NAMED", named)
        around = ast.Module(statements(text, node.body[0]), [])
        node.body = _Put(node.body).visit(around).body
        return node


def _returns(body: list[ast.stmt]) -> bool:
    last = body[-1]
    if isinstance(last, ast.If):
        return _returns(last.body) and bool(last.orelse) and _returns(last.orelse)
    return isinstance(last, ast.Return)


class _Put(ast.NodeTransformer):
    """Replaces OWN by the statements of a function."""

    def __init__(self, body: list[ast.stmt]) -> None:
        self._body = body

    def visit_Expr(self, node: ast.Expr) -> Any:
        return deepcopy(self._body) if ast.unparse(node) == "OWN" else node
