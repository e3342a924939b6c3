"""Sends and receives in the background, by `isend` and `irecv`, that the program does not wait for.

They are found in the text of the program: a recording does not have them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gradscope.analysis.source.files import InSource, SourceFiles
from gradscope.analysis.source.functions import is_named
from gradscope.trace.schema import NONE, Frame
from gradscope.trace.trace import Trace

SENDS, RECEIVES = "isend", "irecv"
HOMES = frozenset(("dist", "distributed", "torch.distributed"))
FACTS = frozenset(
    ("device", "dim", "dtype", "element_size", "is_contiguous", "nbytes", "ndim", "numel", "shape",
     "size", "stride")
)  # fmt: skip
"""Attributes of a tensor that are no values of it."""

NO_WRITES = frozenset(("requires_grad_", "share_memory_"))


@dataclass(frozen=True, slots=True)
class LoneTransfer:
    """A call of `isend` or `irecv`, in a block of statements."""

    line: int
    name: str  # "isend"
    buffer: str  # the variable with the tensor; "": it is no variable
    used: int  # the line that uses it before the handle; NONE: the handle is never used
    first: int  # lines of the block
    last: int


def lone_transfers(trace: Trace) -> list[InSource[LoneTransfer]]:
    """Those in blocks of which a line ran, as far as it was recorded; each once for all ranks."""
    ran: dict[str, set[int]] = {}
    for frame in trace.rows(Frame):
        ran.setdefault(frame.file, set()).add(frame.line)
    found = {(each.file.name, each.found): each for each in trace.once(SourceFiles).each(lone)}
    return [
        each
        for (file, transfer), each in found.items()
        if any(transfer.first <= at <= transfer.last for at in ran.get(file, ()))
    ]


def lone(tree: ast.Module) -> Iterator[LoneTransfer]:
    """All of them in a file."""
    read = {
        each.id
        for each in ast.walk(tree)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)
    }
    for block in _blocks(tree):
        for at, statement in enumerate(block):
            call = getattr(statement, "value", None)
            if not isinstance(call, ast.Call) or not (name := _name(call)):
                continue
            buffer = _buffer(call)
            if isinstance(statement, ast.Expr):
                used: int | None = NONE
            elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                handle = statement.targets[0].id
                used = _used(block[at + 1 :], handle, buffer, name) if handle in read else NONE
            else:
                continue
            if used is not None:
                last = block[-1].end_lineno or block[-1].lineno
                yield LoneTransfer(call.lineno, name, buffer, used, block[0].lineno, last)


def _blocks(tree: ast.Module) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(tree):
        for _, several in ast.iter_fields(node):
            if isinstance(several, list) and several and isinstance(several[0], ast.stmt):
                yield several


def _name(call: ast.Call) -> str:
    """ "isend" or "irecv", or "" for other calls."""
    called = call.func
    if isinstance(called, ast.Attribute) and ast.unparse(called.value) in HOMES:
        name = called.attr
    else:
        name = called.id if isinstance(called, ast.Name) else ""
    return name if name in (SENDS, RECEIVES) else ""


def _buffer(call: ast.Call) -> str:
    named = [each.value for each in call.keywords if each.arg == "tensor"]
    tensor = next(iter([*call.args, *named]), None)
    return tensor.id if isinstance(tensor, ast.Name) else ""


def _used(after: Sequence[ast.stmt], handle: str, buffer: str, name: str) -> int | None:
    """The line that uses a buffer before the handle is used; None: there is none."""
    for statement in after:
        every = [*ast.walk(statement)]
        if any(_reads(each, handle) for each in every):
            return None
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        use = _written(every, buffer) if name == SENDS else _read(every, buffer)
        if use is not None:
            return use
        if any(is_named(each, buffer) and not _reads(each, buffer) for each in every):
            return None  # the variable has another tensor
    return None


def _reads(node: ast.AST, name: str) -> bool:
    return is_named(node, name) and isinstance(node.ctx, ast.Load)


def _read(every: Sequence[ast.AST], buffer: str) -> int | None:
    """The first line that reads more than facts of a variable."""
    facts = [each.value for each in every if isinstance(each, ast.Attribute) and each.attr in FACTS]
    lines = [
        getattr(each, "lineno", NONE)
        for each in every
        if _reads(each, buffer) and not any(each is fact for fact in facts)
    ]
    return min(lines, default=None)


def _written(every: Sequence[ast.AST], buffer: str) -> int | None:
    """The first line that writes into the tensor of a variable."""
    lines = []
    for each in every:
        written: ast.AST | None = None
        if isinstance(each, ast.AugAssign):
            written = each.target
        elif isinstance(each, ast.Subscript) and isinstance(each.ctx, ast.Store):
            written = each
        elif isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute):
            method = each.func.attr
            if method.endswith("_") and not method.startswith("_") and method not in NO_WRITES:
                written = each.func.value
        while isinstance(written, ast.Subscript):
            written = written.value
        if is_named(written, buffer):
            lines.append(each.lineno)  # type: ignore[attr-defined]
    return min(lines, default=None)
