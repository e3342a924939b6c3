"""Bags of rows of a table: embedding_bag, and tables whose rows have a maximal norm (max_norm)."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.autograd.modes.grad_mode import no_grad
from gradscope.runtime.core.calls.declare import INTERNAL, UNKNOWN, family, op, outputs, tensors, w
from gradscope.runtime.core.dtypes.names import type_name
from gradscope.runtime.core.kernels.arrays import scatter
from gradscope.runtime.core.kernels.support import BFLOAT16, HALVES
from gradscope.runtime.core.ops.in_formulas import no_derivative, not_implemented
from gradscope.runtime.core.ops.index.sparse_tables import looked_up
from gradscope.runtime.core.rows.offered import FUNCTIONS, nn_function
from gradscope.runtime.core.state.warned import warn
from gradscope.runtime.core.tensors.making.sequences import arange
from gradscope.runtime.core.tensors.placement import wrapped_on

SUM, MEAN, MAX = 0, 1, 2


def _check(weight, indices, offsets):
    for array in (indices, offsets):
        if array.dtype.char not in "lqi":
            raise RuntimeError(
                "Expected tensor for argument #1 'indices' to have one of the following scalar "
                f"types: Long, Int; but got {type_name(array)} instead (while checking arguments "
                "for embedding_bag)"
            )
    if offsets.size and offsets[0] != 0:
        raise RuntimeError(
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
            f"position 0. However, got {offsets[0]}"
        )
    if offsets.size and offsets[-1] > indices.size:
        raise RuntimeError(
            f"offsets[-1] can not be greater than input's length {indices.size} but got "
            f"offsets[-1] of {offsets[-1]}"
        )
    wrong = (indices < 0) | (indices >= len(weight))
    if wrong.any():
        place = int(wrong.argmax())
        raise RuntimeError(
            f"Index {place} of input takes value {indices[place]} which is not in the valid range "
            f"[0, {len(weight)})"
        )


def _bags(indices, offsets):
    """The bag of each index; the number of bags for those that follow the last offset."""
    return np.searchsorted(offsets, np.arange(indices.size), "right") - 1


NO_BAGS = np.zeros(0, np.int64)
"""Kept instead of the bags where rows are summed without them, as PyTorch does if it can."""


def _in_bags(indices, offsets, count, padding_idx):
    """Which indices count in a bag, and their bags."""
    bags = _bags(indices, offsets)
    kept = (bags >= 0) & (bags < count) & (indices != padding_idx)
    return kept, bags[kept]


def _embedding_bag_forward(
    weight,
    indices,
    offsets,
    scale_grad_by_freq=False,
    mode=SUM,
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=-1,
    weight_sym_argsize_0=0,
):
    _check(weight, indices, offsets)
    count = offsets.size - (1 if include_last_offset and offsets.size else 0)
    counts, bags = _in_bags(indices, offsets, count, padding_idx)
    kept = indices[counts]
    is_fast = mode == SUM and padding_idx < 0 and weight.strides[1] == weight.itemsize
    each = NO_BAGS if is_fast else _bags(indices, offsets)
    sizes = np.bincount(bags, minlength=count)
    if mode == MAX:
        made, places = _greatest(weight, bags, kept, count)
        return made, each, sizes, places
    rows = weight.take(kept, 0)
    if rows.dtype in HALVES:  # rounded once, at the end
        rows = rows.astype(np.float32)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[: indices.size][counts, None]
    made = _rounded(_summed(rows, bags, count), weight, padding_idx)
    if mode == MEAN:
        made = made / np.maximum(sizes, 1)[:, None].astype(made.dtype)
    return made, each, sizes if mode == MEAN else np.zeros_like(sizes), np.zeros_like(sizes)


def _summed(rows, bags, count):
    made = np.zeros((count, rows.shape[1]), rows.dtype)
    if bags.size:
        starts = np.flatnonzero(np.append(True, bags[1:] != bags[:-1]))
        made[bags[starts]] = np.add.reduceat(rows, starts, 0)
    return made


def _rounded(sums, weight, padding_idx):
    """Sums in the dtype of the table.

    PyTorch sums contiguous bfloat16 rows, all of which count, with FBGEMM, which rounds ties up.
    """
    if weight.dtype == BFLOAT16 and padding_idx < 0 and weight.strides[1] == weight.itemsize:
        upper = (sums.view(np.uint32) + np.uint32(1 << 15)) >> np.uint32(16)
        return upper.astype(np.uint16).view(BFLOAT16)
    return sums.astype(weight.dtype, copy=False)


def _greatest(weight, bags, kept, count):
    """The maximum of each column in each bag, and its row."""
    made = np.zeros((count, weight.shape[1]), weight.dtype)
    places = np.full(made.shape, -1, np.int64)
    if bags.size:
        starts = np.flatnonzero(np.append(True, bags[1:] != bags[:-1]))
        rows = weight.take(kept, 0)
        best = np.maximum.reduceat(rows, starts, 0)
        made[bags[starts]] = best
        where = np.where(rows == made[bags], np.arange(kept.size)[:, None], kept.size)
        first = np.minimum.reduceat(where, starts, 0)
        places[bags[starts]] = kept[np.minimum(first, kept.size - 1)]
    return made, places


def _embedding_bag_back(
    grad,
    indices,
    offsets,
    sizes,
    places,
    rows,
    scale_grad_by_freq,
    mode,
    per_sample_weights=None,
    padding_idx=-1,
):
    made = np.zeros((rows, grad.shape[1]), grad.dtype)
    if mode == MAX:
        found = places >= 0
        columns = np.broadcast_to(np.arange(grad.shape[1]), places.shape)
        np.add.at(made, (places[found], columns[found]), grad[found])
        return made
    counts, bags = _in_bags(indices, offsets, len(grad), padding_idx)
    kept = indices[counts]
    values = grad.take(bags, 0)
    if per_sample_weights is not None:
        values = values * per_sample_weights[: indices.size][counts, None]
    if mode == MEAN:
        values = values / np.maximum(sizes, 1)[bags][:, None].astype(grad.dtype)
    if scale_grad_by_freq:
        values = values / _frequencies(indices, rows)[kept][:, None].astype(grad.dtype)
    scatter.index_add(made, 0, kept, np.ascontiguousarray(values))
    return made


def _frequencies(indices, rows):
    """The divisor of each row's gradient in PyTorch.

    For the i-th used row it is the count of the row at position i of the sorted indices.
    """
    counts = np.bincount(indices, minlength=rows)
    used = np.flatnonzero(counts)
    made = np.ones(rows, counts.dtype)
    made[used] = counts[np.sort(indices)[: used.size]]
    return made


def _to_factors(grads, weight, indices, offsets, padding_idx):
    """The products of a bag's gradient with each of its rows."""
    return w._embedding_bag_per_sample_weights_backward(
        grads[0], weight, indices, offsets, padding_idx
    )


def _to_factors_past_padding(grad, weight, indices, offsets, padding_idx):
    made = np.zeros(indices.size, grad.dtype)
    kept, bags = _in_bags(indices, offsets, len(grad), padding_idx)
    made[kept] = (grad.take(bags, 0) * weight.take(indices[kept], 0)).sum(1)
    return made


_embedding_bag = op(
    "EmbeddingBagBackward0",
    _embedding_bag_forward,
    UNKNOWN,
    INTERNAL,
    tensors("indices", "offsets"),
    outputs(
        "result0",
        "result1",
        "result2",
        "result3",
        without=("result1", "result2", "result3"),
    ),
    weight=lambda grads, indices, offsets, result1, result2, result3, weight_sym_argsize_0, scale_grad_by_freq, mode, sparse, per_sample_weights, padding_idx: (  # noqa: E501
        w._embedding_bag_backward(
            grads[0],
            indices,
            offsets,
            result2,
            result3,
            weight_sym_argsize_0,
            scale_grad_by_freq,
            mode,
            per_sample_weights,
            padding_idx,
        )
    ),
    per_sample_weights=_to_factors,
)


_embedding_bag_backward = op(
    "EmbeddingBagBackwardBackward0",
    _embedding_bag_back,
    UNKNOWN,
    INTERNAL,
    tensors("indices", "offsets", "sizes", "places"),
    grad=not_implemented("_embedding_bag_backward"),
    per_sample_weights=not_implemented("_embedding_bag_backward"),
)
_never = no_derivative("_embedding_bag_per_sample_weights_backward")
_embedding_bag_per_sample_weights_backward = op(
    "NotImplemented",
    _to_factors_past_padding,
    UNKNOWN,
    INTERNAL,
    tensors("indices", "offsets"),
    grad=_never,
    weight=_never,
)
family(globals())


def _of_table(
    weight,
    indices,
    offsets,
    scale_grad_by_freq=False,
    mode=SUM,
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=None,
):
    """Rows of a table: sum, mean or maximum per bag."""
    rows = weight.size(0)
    if sparse:
        looked_up(weight)
    if padding_idx is None:
        padding_idx = -1
    elif not -rows <= padding_idx < rows:
        raise RuntimeError(
            f"padding_idx must be within the number of embeddings, {-rows} through {rows - 1}, but "
            f"got {padding_idx}"
        )
    else:
        padding_idx %= rows
    return _embedding_bag(
        weight,
        indices,
        offsets,
        scale_grad_by_freq,
        mode,
        sparse,
        per_sample_weights,
        include_last_offset,
        padding_idx,
        rows,
    )


FUNCTIONS["embedding_bag"] = _of_table
MODES = ("sum", "mean", "max")


@nn_function
def embedding_bag(
    input,
    weight,
    offsets=None,
    max_norm=None,
    norm_type=2,
    scale_grad_by_freq=False,
    mode="mean",
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=None,
):
    """The sum, mean or maximum of the rows in each bag of indices."""
    if weight._array.dtype == np.int64 and input.is_floating_point():
        warn(
            "Argument order of nn.functional.embedding_bag was changed. Usage "
            "`embedding_bag(weight, input, ...)` is deprecated, and should now be "
            "`embedding_bag(input, weight, ...)`."
        )
        weight, input = input, weight
    factors = per_sample_weights
    if factors is not None and input.size() != factors.size():
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({factors.shape}) is not None, then it must "
            f"have the same shape as the input ({input.shape})"
        )
    if weight.dim() != 2:
        raise ValueError(
            f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.dim()}"
        )
    if input.dim() == 2:
        input, offsets, factors = _as_bags(input, offsets, factors)
        include_last_offset = False
    elif offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    elif offsets.dim() != 1:
        raise ValueError("offsets has to be a 1D Tensor")
    _check_mode(mode, scale_grad_by_freq, sparse)
    if max_norm is not None:
        shorten(weight, input, max_norm, norm_type)
    if factors is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported "
            f"for mode='sum' (got mode='{mode}'). Please open a feature request on GitHub."
        )
    return _of_table(
        weight,
        input,
        offsets,
        scale_grad_by_freq,
        MODES.index(mode),
        sparse,
        factors,
        include_last_offset,
        padding_idx,
    )[0]


def _as_bags(input, offsets, factors):
    """A matrix of indices as bags: one per row."""
    if offsets is not None:
        raise ValueError(
            "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of "
            f"fixed length sequences. However, found offsets of type {_class_name(offsets)}"
        )
    starts = arange(0, input.numel(), input.size(1), dtype=input.dtype, device=input.device)
    return input.reshape(-1), starts, None if factors is None else factors.reshape(-1)


def _check_dims(name, tensor, allowed, text):
    if tensor.dim() not in allowed:
        a = "a " if name == "weight" else ""
        raise ValueError(
            f"{name} has to be {a}{text} Tensor, but got Tensor of dimension {tensor.dim()}"
        )


def _class_name(value):
    return str(type(value)).replace(
        "gradscope.runtime.core.tensors.tensor.tensor.Tensor", "torch.Tensor"
    )


def _check_mode(mode, scale_grad_by_freq, sparse):
    if mode not in MODES:
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")


def shorten(weight, indices, max_norm, norm_type=2.0):
    """Scale down used rows whose norm exceeds `max_norm`."""
    with no_grad():
        embedding_renorm_(weight, indices, max_norm, norm_type)


def embedding_renorm_(weight, indices, max_norm, norm_type):
    """The same, recorded."""
    used = np.unique(indices._array)
    rows = weight._array.take(used, 0)
    norms = np.linalg.norm(rows, norm_type, 1)
    far = norms > max_norm
    scaled = rows[far] * (max_norm / (norms[far] + 1e-7))[:, None].astype(rows.dtype)
    return weight.index_copy_(0, wrapped_on(used[far], None), wrapped_on(scaled, None))


FUNCTIONS["embedding_renorm_"] = embedding_renorm_
