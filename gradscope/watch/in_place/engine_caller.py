"""Inserts our calls into the PyTorch function that calls the engine.

# Note [No frame of ours around a backward]
Hooks run inside a backward, and some warn with a `stacklevel`: that of PyTorch itself for full
backward hooks names the line that called `backward`. A frame of gradscope in between would change
that line. So our calls are inserted into PyTorch's function (see `calls_within.py`), all of them on
the line that calls the engine. If that is not possible, only `Variable._execution_engine` is
replaced.
"""

from __future__ import annotations

import ast
from typing import Any

import torch.autograd.graph as home

from gradscope.watch.in_place.calls_within import WATCH, CallsWithin, statements

CALLER, CALLS = "_engine_run_backward", "run_backward"

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


def engine_caller(watch: Any) -> CallsWithin:
    """The function that calls the engine, with calls of `watch` in it.

    `watch.begins` receives the arguments of the engine: tensors, a tuple, a dictionary. `watch.run`
    is the engine's own function. `watch.ends` receives the result of `begins`, and an exception or
    the result of the engine, which it returns. `watch.aside` disables the frame compiler of this
    thread, as of `torch.compile`, which would compile the code of our calls.
    """
    return CallsWithin(getattr(home, CALLER, None), _Change, watch)


class _Change(ast.NodeTransformer):
    """Inserts calls around `return ….run_backward(tensors, *given, **more)`."""

    changed = 0

    def visit_Return(self, node: ast.Return) -> Any:
        match node.value:
            case (
                ast.Call(
                    func=ast.Attribute(attr=attribute),
                    args=[ast.Name(tensors), ast.Starred(ast.Name(given))],
                    keywords=[ast.keyword(None, ast.Name(more))],
                ) as call
            ) if attribute == CALLS:
                self.changed += 1
                put = _Put(call, {"_tensors": tensors, "_given": given, "_more": more})
                return [put.visit(each) for each in statements(AROUND, call)]
        return node


class _Put(ast.NodeTransformer):
    """Inserts the variables and arguments of a call of the engine into our statements."""

    def __init__(self, call: ast.Call, names: dict[str, str]) -> None:
        self._call = call
        self._names = names

    def visit_Name(self, node: ast.Name) -> Any:
        node.id = self._names.get(node.id, node.id)
        return node

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "run":
            node.args, node.keywords = self._call.args, self._call.keywords
        return node
