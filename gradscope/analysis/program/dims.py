"""Where a dim of a tensor is after a call, and what the call did with it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from math import prod

from gradscope.analysis.program.calls import Calls

ELEMENTWISE = frozenset({
    "add", "sub", "rsub", "mul", "div", "pow", "exp", "log", "log1p", "neg", "abs", "square",
    "sqrt", "clamp", "clamp_min", "clamp_max", "relu", "native_dropout", "masked_fill", "where",
    "xlogy", "clone", "contiguous", "alias", "_to_copy", "expand", "maximum", "minimum", "tanh",
    "sigmoid", "reciprocal", "rsqrt", "identity", "huber", "smooth_l1",
    "leaky_relu", "elu", "gelu", "silu", "softplus", "hardtanh", "dropout",
})  # fmt: skip
VIEWS = frozenset({"view", "reshape", "_reshape_alias", "_unsafe_view", "squeeze", "unsqueeze"})
TURNED = frozenset({"t", "transpose", "permute", "numpy_T"})
SUMS = frozenset({"sum", "mean", "amax", "amin", "max", "min", "logsumexp", "linalg_vector_norm"})
PRODUCTS = frozenset({"mm", "bmm", "matmul"})
NLL = frozenset({
    "nll_loss_forward", "nll_loss2d_forward", "nll_loss", "nll_loss2d", "nll_loss_nd",
})  # fmt: skip
Shape = tuple[int, ...]


class Fate(Enum):
    """What a call did with a dim."""

    STAYS = auto()
    REDUCED = auto()  # summed, averaged or reduced otherwise
    CONTRACTED = auto()  # summed in a product
    UNKNOWN = auto()


@dataclass(frozen=True, slots=True)
class Went:
    """What a call did with a dim, and its index afterwards if it still exists."""

    fate: Fate
    dim: int = -1


UNKNOWN, CONTRACTED = Went(Fate.UNKNOWN), Went(Fate.CONTRACTED)


def went(calls: Calls, at: int, tensor: int, dim: int) -> Went:
    """What a call did with a dim of one of its tensors."""
    name, inputs, outputs = calls.name(at), calls.inputs(at), calls.outputs(at)
    if not outputs or tensor not in inputs:
        return UNKNOWN
    before, after = calls.shape(tensor), calls.shape(outputs[0])
    if name in ELEMENTWISE:
        return _aligned(before, after, dim)
    if name in VIEWS:
        return _viewed(before, after, dim)
    if name in TURNED:
        return _turned(calls, at, before, dim)
    if name in SUMS:
        return _reduced(calls, at, before, after, dim)
    if name in PRODUCTS and len(inputs) == 2 and inputs[0] != inputs[1]:
        return _multiplied(len(before), len(after), dim, first=tensor == inputs[0])
    return UNKNOWN


def _aligned(before: Shape, after: Shape, dim: int) -> Went:
    """For elementwise calls, with broadcasting."""
    moved = dim + len(after) - len(before)
    return Went(Fate.STAYS, moved) if moved >= 0 and after[moved] == before[dim] else UNKNOWN


def _viewed(before: Shape, after: Shape, dim: int) -> Went:
    """A dim still exists if the product of sizes before it, and its own size, are unchanged."""
    outside, size = prod(before[:dim]), before[dim]
    found = [
        place
        for place, own in enumerate(after)
        if own == size and prod(after[:place]) == outside and size > 1
    ]
    return Went(Fate.STAYS, found[0]) if len(found) == 1 else UNKNOWN


def _turned(calls: Calls, at: int, before: Shape, dim: int) -> Went:
    many, given = len(before), calls.given(at)
    if calls.name(at) in {"t", "numpy_T"} and many == 2:
        return Went(Fate.STAYS, 1 - dim)
    if calls.name(at) == "permute":
        order = given.get("dims")
        if isinstance(order, list) and all(isinstance(each, int) for each in order):
            turned = [each % many for each in order if isinstance(each, int)]
            return Went(Fate.STAYS, turned.index(dim)) if dim in turned else UNKNOWN
    one, other = given.get("dim0"), given.get("dim1")
    if isinstance(one, int) and isinstance(other, int):
        swapped = {one % many: other % many, other % many: one % many}
        return Went(Fate.STAYS, swapped.get(dim, dim))
    return UNKNOWN


def _reduced(calls: Calls, at: int, before: Shape, after: Shape, dim: int) -> Went:
    if not after and len(before):
        return Went(Fate.REDUCED)
    over = calls.dims(at)
    if over is None:
        return UNKNOWN
    if dim in over:
        return Went(Fate.REDUCED)
    gone = 0 if len(after) == len(before) else sum(each < dim for each in over)
    return Went(Fate.STAYS, dim - gone)


def _multiplied(before: int, after: int, dim: int, *, first: bool) -> Went:
    contracted = before - 1 if first else max(before - 2, 0)
    if dim == contracted:
        return CONTRACTED
    return Went(Fate.STAYS, dim) if before == after else UNKNOWN
