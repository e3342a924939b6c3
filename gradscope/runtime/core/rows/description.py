"""The docstrings of operations, as `help(torch.mul)` shows: schema, node, gradients."""

from __future__ import annotations

import linecache
from os import sep
from types import CodeType
from typing import Any

from gradscope.runtime.core.rows.operation import Formula, Operation


def description(op: Operation, *, formulas: bool = False) -> str:
    """The docstring of an operation's function.

    With `formulas`, derivatives are quoted from the source, which takes time to read; otherwise
    they are named by line.
    """
    lines = [op.schema, ""]
    if not op.node_name:
        return "\n".join([*lines, "It has no derivative, and no node."])
    kept = ", ".join(slot.name for slot in op.plan.slots)
    lines += [f"Its node is {op.node_name}, which keeps {kept or 'nothing'}."]
    if op.joint:
        return "\n".join([*lines, f"The gradients are {_shown(op.formulas[0], formulas)}"])
    for name, formula in zip(op.plan.differentiable, op.formulas, strict=True):
        lines.append(f"The gradient of {name} is {_shown(formula, formulas)}")
    return "\n".join(lines)


def _shown(formula: Formula, written: bool) -> str:
    """The source of a lambda; a function by its name and location."""
    code: Any = getattr(formula.function, "__code__", None)
    if not isinstance(code, CodeType):
        return "what its function says"
    text = _body(code) if written and code.co_name == "<lambda>" else ""
    name = "a formula" if code.co_name == "<lambda>" else code.co_name
    file = code.co_filename.rpartition(sep)[2]
    return text or f"{name} of ({', '.join(formula.words)}), see {file}:{code.co_firstlineno}"


def _body(code: CodeType) -> str:
    """The source of a lambda's body, on one line; empty if there is no source."""
    places = [p for p in code.co_positions() if None not in p and p[2:] != (0, 0)]
    if not places:
        return ""
    start = min((line or 0, column or 0) for line, _, column, _ in places)
    end = max((line or 0, column or 0) for _, line, _, column in places)
    lines = [linecache.getline(code.co_filename, n).encode() for n in range(start[0], end[0] + 1)]
    lines[-1] = lines[-1][: end[1]]
    lines[0] = lines[0][start[1] :]
    return " ".join(part.strip().decode() for part in lines)
