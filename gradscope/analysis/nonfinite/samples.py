"""From an element of a tensor to the sample of the data set that it was computed from.

The samples of a batch are known from its DataLoader. The rows of a tensor are followed back to the
tensors without a recorded origin, which are the batch if their first dim has its length: each call
in between must be known to keep samples apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from gradscope.analysis.nonfinite.births import Birth
from gradscope.analysis.program.acts import Acts
from gradscope.analysis.program.calls import Calls
from gradscope.analysis.program.dims import PRODUCTS, SUMS, VIEWS, Fate, went
from gradscope.trace.schema import NONE, BatchAct, Place
from gradscope.trace.trace import Trace

BY_ROWS = frozenset({
    "addmm", "linear", "convolution", "conv1d", "conv2d", "conv3d", "embedding",
    "native_layer_norm", "native_group_norm", "native_batch_norm", "cudnn_batch_norm", "batch_norm",
    "layer_norm", "group_norm", "instance_norm", "max_pool1d", "max_pool2d",
    "max_pool2d_with_indices", "avg_pool2d", "_adaptive_avg_pool2d", "adaptive_avg_pool2d",
    "_scaled_dot_product_flash_attention", "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_efficient_attention", "scaled_dot_product_attention",
})  # fmt: skip
"""Calls that keep the first dim of the operand that has the samples."""

ALONG_A_DIM = frozenset({"softmax", "_softmax", "log_softmax", "_log_softmax", "cumsum", "cat"})
"""Calls that keep the shape and compute along one dim."""

FAR = 200
"""Largest number of calls that are followed."""

SHOWN = 3


def samples_of(trace: Trace, birth: Birth) -> str:
    """Where the elements of a birth came from: as in "sample 48,113 of the data set"; or ""."""
    batch = batch_at(trace, birth.t, birth.step) if birth.bad else None
    if batch is None:
        return ""
    calls = trace.once(Calls)
    tensor = _tensor(calls, birth)
    if tensor == NONE:
        return ""
    shape = calls.shape(tensor)
    dim = BatchRows(calls, len(batch.samples)).dim(tensor)
    if dim is None or prod(shape) != birth.count:
        return ""
    each = shape[dim] // len(batch.samples)
    rows = np.unravel_index(np.array(birth.bad), shape)[dim] // each
    found = [*dict.fromkeys(batch.samples[row] for row in rows.tolist())]
    shown = " and ".join(f"{each:,}" for each in found[:SHOWN])
    if len(found) > SHOWN or birth.nan + birth.posinf + birth.neginf > len(birth.bad):
        shown = f"{', '.join(f'{each:,}' for each in found[:SHOWN])} and maybe others"
    return f"; inferred: it comes from sample{'s' * (len(found) > 1)} {shown} of the data set"


def batch_at(trace: Trace, t: int, step: int) -> BatchAct | None:
    """The batch that the program had asked for last; None if it is not known, or not alone."""
    given = [each for each in trace.once(Acts).of(BatchAct) if each.t <= t]
    here = [each for each in given if each.step == step] or given[-1:] * (len(given) == 1)
    if not here or len({each.of for each in here}) > 1:
        return None
    batch = here[-1].facts
    return batch if len(batch.samples) == batch.many > 1 else None


def _tensor(calls: Calls, birth: Birth) -> int:
    """The tensor of a birth; for a gradient, one of the call's tensors with its shape."""
    if birth.tensor != NONE:
        return birth.tensor
    ops = calls.ops
    if birth.place is Place.OP_OUTPUT and ops.has(birth.op):
        return _one_of(calls.outputs(ops.index(birth.op)), birth.index)
    of_node = np.flatnonzero((ops["node"] == birth.node) & (birth.node != NONE))
    if len(of_node) and birth.place is Place.NODE_INPUT:
        return _one_of(calls.outputs(int(of_node[0])), birth.index)
    if len(of_node) and birth.place is Place.NODE_OUTPUT:
        inputs = {
            each for each in calls.inputs(int(of_node[0])) if _size(calls, each) == birth.count
        }
        return inputs.pop() if len(inputs) == 1 else NONE
    return NONE


def _size(calls: Calls, tensor: int) -> int:
    return prod(calls.shape(tensor))


def _one_of(tensors: Sequence[int], index: int) -> int:
    return tensors[index] if 0 <= index < len(tensors) else NONE


class BatchRows:
    """Which dim of a tensor counts the samples of the batch, each once or several times in a row.

    A view of (batch, words, width) as (batch * words, width) has each sample `words` times.
    """

    def __init__(self, calls: Calls, many: int) -> None:
        self._calls, self._many = calls, many
        self._known: dict[int, int | None] = {}

    def dim(self, tensor: int) -> int | None:
        """The dim; None if there is none, or if it is not known."""
        if tensor not in self._known and len(self._known) < FAR:
            self._known[tensor] = None  # for a circle
            self._known[tensor] = self._found(tensor)
        return self._known.get(tensor)

    def _found(self, tensor: int) -> int | None:
        calls = self._calls
        shape, at = calls.shape(tensor), calls.maker(tensor)
        if at == NONE:
            return 0 if self._is_data(tensor, shape) else None
        name, inputs = calls.name(at), calls.inputs(at)
        dims = set[int]()
        for each in inputs:
            before = self.dim(each)
            if before is not None:
                after = self._after(at, name, each, before)
                if after is None:
                    return None
                dims.add(after)
        one = dims.pop() if len(dims) == 1 else None
        return one if one is not None and shape[one] % self._many == 0 else None

    def _after(self, at: int, name: str, tensor: int, dim: int) -> int | None:
        if name in BY_ROWS:
            return 0 if dim == 0 else None
        if name in ALONG_A_DIM:
            return None if self._calls.dims(at) in (None, (dim,)) else dim
        if name in VIEWS and dim == 0:
            return 0
        if name in PRODUCTS:
            return self._multiplied(at, tensor, dim)
        if name in SUMS and self._calls.dims(at) is None:
            return self._reduced(at, tensor, dim)
        moved = went(self._calls, at, tensor, dim)
        return moved.dim if moved.fate is Fate.STAYS else None

    def _is_data(self, tensor: int, shape: tuple[int, ...]) -> bool:
        """Whether a tensor without a recorded origin may be the batch, or a view of it."""
        tensors = self._calls.tensors
        if self._calls.needs_grad(tensor) or not shape or shape[0] < 1 or shape[0] % self._many:
            return False
        return tensors.has(tensor) and not tensors.row(tensor).name  # buffers have names

    def _multiplied(self, at: int, tensor: int, dim: int) -> int | None:
        """Operands are not recorded in their order, so sizes must show which one it is."""
        calls = self._calls
        before, after = calls.shape(tensor), calls.shape(calls.outputs(at)[0])
        others = [calls.shape(each) for each in calls.inputs(at) if each != tensor]
        if dim or before[0] != after[0] or len(before) != len(after):
            return None
        alone = all(before[0] not in other for other in others)
        return 0 if len(before) > 2 or alone else None

    def _reduced(self, at: int, tensor: int, dim: int) -> int | None:
        """Which dims are reduced is not recorded, so the size must show that this one is not."""
        before, after = (self._calls.shape(each) for each in (tensor, self._calls.outputs(at)[0]))
        kept = dim == 0 and before[:1] == after[:1] and before.count(before[0]) == 1
        return 0 if kept else None
