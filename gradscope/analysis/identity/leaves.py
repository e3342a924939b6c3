"""Which tensors are leaves, and what a person calls them."""

from __future__ import annotations

import ast
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradscope.trace.arrays import distinct
from gradscope.trace.schema import NONE, Node, Op, Tensor
from gradscope.trace.trace import Trace

ACCUMULATE_GRAD = "AccumulateGrad"
LONGEST_LINE = 500  # that is worth reading for a name


@dataclass(frozen=True, slots=True)
class NamedLeaf:
    """A tensor whose gradient is kept in `.grad`."""

    tensor: int
    name: str  # "" when nothing names it
    guessed: bool  # the name was read off the source line `name = torch.…(…)`
    shape: tuple[int, ...]
    dtype: str

    @property
    def title(self) -> str:
        return self.name or ("leaf" if self.tensor == NONE else f"leaf {self.tensor}")


UNKNOWN = NamedLeaf(NONE, "", guessed=False, shape=(), dtype="")
"""A leaf of which the trace knows only that it is there."""


def leaf_of(trace: Trace, node: Node) -> NamedLeaf | None:
    """The leaf an AccumulateGrad node fills, or None for any other node."""
    if node.name != ACCUMULATE_GRAD:
        return None
    return (leaf(trace, node.inputs[0]) if node.inputs else None) or UNKNOWN


def fill_leaves(trace: Trace) -> NDArray[np.bool_]:
    """Which nodes fill a leaf's `.grad`, in the order of their table."""
    names = trace.table(Node)["name"]
    wanted = [n for n in distinct(names).tolist() if trace.text(n) == ACCUMULATE_GRAD]
    return np.isin(names, wanted)


def leaf(trace: Trace, tensor_id: int) -> NamedLeaf | None:
    """The leaf with this tensor id; None when the trace does not hold it."""
    tensors = trace.table(Tensor)
    if tensor_id == NONE or not tensors.has(tensor_id):
        return None
    tensor = tensors.row(tensor_id)
    guess = "" if tensor.name else _assigned_name(trace, tensor)
    return NamedLeaf(tensor.id, tensor.name or guess, bool(guess), tensor.shape, tensor.dtype)


def _assigned_name(trace: Trace, tensor: Tensor) -> str:
    """The variable of `name = torch.op(…)`, when the line that made the tensor has that form."""
    ops = trace.table(Op)
    if tensor.op == NONE or not ops.has(tensor.op):
        return ""
    op = ops.row(tensor.op)
    return variable_of(trace.source(op.stack), op.name.partition(".")[0])


def made_as(trace: Trace, wanted: str) -> list[int]:
    """The tensors that a line `wanted = torch.…(…)` has made."""
    tensors, ops = trace.table(Tensor), trace.table(Op)
    stacks = distinct(ops["stack"]).tolist()
    begins = [each for each in stacks if trace.source(each).lstrip().startswith(wanted)]
    made = ops["id"][np.isin(ops["stack"], begins)]
    found = tensors["id"][np.isin(tensors["op"], made)].tolist()
    return [id for id in found if _assigned_name(trace, tensors.row(id)) == wanted]


def variable_of(source: str, called: str) -> str:
    """`x` for the line `x = torch.ones(2)` and the call `ones`; "" when that is not certain."""
    if len(source) > LONGEST_LINE:
        return ""
    try:
        body = ast.parse(source.strip()).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    match body:
        case [ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=function))]:
            return name if _called_name(function) == called.rstrip("_") else ""
    return ""


def _called_name(function: ast.expr) -> str:
    match function:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""
