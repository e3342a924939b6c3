"""Reads the texts in which PyTorch reports compiled graphs, and the kernels made of them.

PyTorch prints a graph as Python: one assignment for each operation, with its shape and dtype as
annotation, after a comment with the line of the program.
"""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

INPUT = "input"
_CLASS = re.compile(r"^(\s*class )[^\s(]+\(", re.MULTILINE)
_LINE = re.compile(r"# File: (?P<file>.+):(?P<line>\d+) in (?P<function>[^,]+)(, code: .*)?$")
_FORGOTTEN = re.compile(r"# No stacktrace found")
_DEVICE = re.compile(r"(\[[^\]]*\])(\[[^\]]*\])?\S*$")
_KERNEL = re.compile(r"\b((?:cpp|triton)_\w*fused\w*|extern_kernels\.\w+)(?:\.run)?\(")
_COMMENT = re.compile(r"# .*Original ATen: \[(?P<names>[^\]]*)\]")


class GraphLine(NamedTuple):
    """One operation or input of a compiled graph."""

    name: str
    op: str  # "aten.mm.default"; INPUT
    type: str  # dtype and shape as PyTorch prints them: "f32[8, 4]"
    reads: tuple[int, ...]  # indices of other lines
    source: tuple[str, int, str] | None  # file, line and function


def graph_of(text: str) -> tuple[GraphLine, ...]:
    """The graph that is printed as this text: its inputs, then its operations in order.

    Raises SyntaxError if it is not Python.
    """
    module = ast.parse(_CLASS.sub(r"\1Graph(", text))
    forward = next(
        (
            each
            for home in module.body
            if isinstance(home, ast.ClassDef)
            for each in home.body
            if isinstance(each, ast.FunctionDef) and each.name == "forward"
        ),
        None,
    )
    if forward is None:
        return ()
    sources = _sources(text, forward)
    lines: list[GraphLine] = []
    known: dict[str, int] = {}
    for argument in forward.args.args[1:]:
        known[argument.arg] = len(lines)
        lines.append(GraphLine(argument.arg, INPUT, _type(argument.annotation), (), None))
    for each in forward.body:
        target = each.target if isinstance(each, ast.AnnAssign) else None
        if isinstance(each, ast.Assign):
            target = each.targets[0] if isinstance(each.targets[0], ast.Name) else None
        value = getattr(each, "value", None)
        forgets = isinstance(value, ast.Constant) and value.value is None
        if not isinstance(target, ast.Name) or value is None or forgets:
            continue
        annotation = each.annotation if isinstance(each, ast.AnnAssign) else None
        reads = tuple(dict.fromkeys(known[name] for name in _names(value) if name in known))
        known[target.id] = len(lines)
        source = sources[each.lineno]
        lines.append(GraphLine(target.id, _op(value), _type(annotation), reads, source))
    return tuple(lines)


def _sources(text: str, forward: ast.FunctionDef) -> list[tuple[str, int, str] | None]:
    """For each line of the text, the line of the program in the last comment before it."""
    found: list[tuple[str, int, str] | None] = [None]
    latest = None
    for nr, line in enumerate(text.splitlines(), 1):
        if nr >= forward.lineno and "#" in line:
            match = _LINE.search(line)
            if match is not None:
                latest = match["file"], int(match["line"]), match["function"]
            elif _FORGOTTEN.search(line):
                latest = None
        found.append(latest)
    return found


def _names(value: ast.expr) -> tuple[str, ...]:
    return tuple(each.id for each in ast.walk(value) if isinstance(each, ast.Name))


def _op(value: ast.expr) -> str:
    if isinstance(value, ast.Call):
        return ast.unparse(value.func).removeprefix("torch.ops.")
    return "getitem" if isinstance(value, ast.Subscript) else type(value).__name__.lower()


def _type(annotation: ast.expr | None) -> str:
    """The annotation without strides and device."""
    text = annotation.value if isinstance(annotation, ast.Constant) else ""
    return _DEVICE.sub(r"\1", text) if isinstance(text, str) else ""


class GeneratedKernel(NamedTuple):
    """A kernel that a compiled graph calls, and the operations it was made of."""

    name: str
    ops: tuple[str, ...]  # "relu", "addmm"; (): only its name says it


def kernels_of(code: str) -> tuple[GeneratedKernel, ...]:
    """The kernels that generated code calls, in order."""
    found: dict[GeneratedKernel, None] = {}
    ops: tuple[str, ...] = ()
    for line in code.partition("def call(")[2].partition("def benchmark_")[0].splitlines():
        comment = _COMMENT.search(line)
        if comment is not None:
            names = (each.strip().split(".") for each in comment["names"].split(","))
            ops = tuple(dict.fromkeys(each[1] for each in names if len(each) > 1))
            continue
        call = _KERNEL.search(line)
        if call is not None:
            found[GeneratedKernel(call[1], ops)] = None
            ops = ()
    return tuple(found)
