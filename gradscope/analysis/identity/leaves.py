"""The leaves of a trace, and their names."""

from __future__ import annotations

import ast
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradscope.analysis.identity.given_names import given_names
from gradscope.analysis.identity.sharding import Sharding
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import NONE, Node, Op, Shard, Tensor
from gradscope.trace.trace import Trace

ACCUMULATE_GRAD = "AccumulateGrad"
LONGEST_LINE = 500  # that is parsed for a name


@dataclass(frozen=True, slots=True)
class NamedLeaf:
    """A tensor whose gradient is accumulated in `.grad`."""

    tensor: int
    name: str  # "" if it has no name
    guessed: bool  # the name is from the line `name = torch.…(…)`, or from that of its first use
    shape: tuple[int, ...]
    dtype: str
    shard: Shard | None = None  # if it is divided among ranks

    @property
    def title(self) -> str:
        return self.name or ("leaf" if self.tensor == NONE else f"leaf {self.tensor}")


UNKNOWN = NamedLeaf(NONE, "", guessed=False, shape=(), dtype="")
"""A leaf without any recorded facts."""


def leaf_of(trace: Trace, node: Node) -> NamedLeaf | None:
    """The leaf of an AccumulateGrad node, or None for any other node."""
    if node.name != ACCUMULATE_GRAD:
        return None
    return (leaf(trace, node.inputs[0]) if node.inputs else None) or UNKNOWN


def fill_leaves(trace: Trace) -> NDArray[np.bool_]:
    """A mask of the nodes that accumulate into a leaf's `.grad`, in table order."""
    names = trace.table(Node)["name"]
    wanted = [n for n in distinct(names).tolist() if trace.text(n) == ACCUMULATE_GRAD]
    return np.isin(names, wanted)


def leaves_with_node(trace: Trace) -> frozenset[int]:
    """Leaves whose gradient a recorded node accumulates: something was computed from them."""
    rows = trace.table(Node).take(np.flatnonzero(fill_leaves(trace)))
    return frozenset(row.inputs[0] for row in rows if row.inputs)


def leaf(trace: Trace, tensor_id: int) -> NamedLeaf | None:
    """The leaf with this tensor id, or None if it is not in the trace."""
    tensors = trace.table(Tensor)
    if tensor_id == NONE or not tensors.has(tensor_id):
        return None
    tensor = tensors.row(tensor_id)
    guess = ""
    if not tensor.name:
        guess = _assigned_name(trace, tensor) or trace.once(given_names).get(tensor_id, "")
    name, shard = tensor.name or guess, trace.once(Sharding).shards.get(tensor_id)
    return NamedLeaf(tensor.id, name, bool(guess), tensor.shape, tensor.dtype, shard)


def _assigned_name(trace: Trace, tensor: Tensor) -> str:
    """The variable of `name = torch.op(…)`, if the line that created the tensor is like that."""
    ops = trace.table(Op)
    if tensor.op == NONE or not ops.has(tensor.op):
        return ""
    op = ops.row(tensor.op)
    return variable_of(trace.source(op.stack), op.name.partition(".")[0])


def made_as(trace: Trace, wanted: str) -> list[int]:
    """The tensors created by a line `wanted = torch.…(…)`."""
    tensors, ops = trace.table(Tensor), trace.table(Op)
    stacks = distinct(ops["stack"]).tolist()
    begins = [each for each in stacks if trace.source(each).lstrip().startswith(wanted)]
    made = ops["id"][np.isin(ops["stack"], begins)]
    found = tensors["id"][np.isin(tensors["op"], made)].tolist()
    return [id for id in found if _assigned_name(trace, tensors.row(id)) == wanted]


def variable_of(source: str, called: str) -> str:
    """`x` for the line `x = torch.ones(2)` and the call `ones`; "" if uncertain."""
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
