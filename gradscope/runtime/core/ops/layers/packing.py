"""Sequences of different lengths: padded to one tensor, or packed step by step."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.calls.declare import FUNCTION_ONLY, family, jvp, op, outputs, tensors, w
from gradscope.runtime.core.dtypes.names import type_name
from gradscope.runtime.core.ops.in_formulas import on_arrays
from gradscope.runtime.core.rows.offered import function
from gradscope.runtime.core.tensors.making import factories
from gradscope.runtime.core.tensors.placement import wrapped_on


def _blocks(sizes):
    """Runs of steps with equal numbers of rows: first and last step, rows, offset."""
    first, start = 0, 0
    for i in range(1, len(sizes) + 1):
        if i == len(sizes) or sizes[i] != sizes[first]:
            yield first, i, sizes[first], start
            start += (i - first) * sizes[first]
            first = i


def _batch_sizes(lengths, batch):
    if lengths.ndim != 1 or lengths.dtype != np.int64:
        raise RuntimeError(
            f"'lengths' argument should be a 1D CPU int64 tensor, but got {lengths.ndim}D cpu "
            f"{type_name(lengths).removeprefix('torch.').removesuffix('Tensor')} tensor"
        )
    if lengths.size != batch:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {lengths.size} "
            f"(batch_size={batch})"
        )
    if batch and lengths[-1] <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' "
            "that is <= 0"
        )
    if (lengths[1:] > lengths[:-1]).any():
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You "
            "can pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to "
            "sidestep this requirement if you do not need ONNX exportability."
        )
    steps = np.arange(lengths[0] if batch else 0)
    return (lengths[None, :] > steps[:, None]).sum(1)


def _pack(input, lengths, batch_first):
    given = input.swapaxes(0, 1) if batch_first else input
    if not given.size:
        raise RuntimeError("Cannot pack empty tensors.")
    sizes = _batch_sizes(lengths, given.shape[1])
    rest = given.shape[2:]
    parts = [given[a:b, :rows].reshape(-1, *rest) for a, b, rows, _ in _blocks(sizes.tolist())]
    return np.concatenate(parts), sizes


def _unpack(grads, input_shape, result1, batch_first):
    """The packed gradient at the positions it was packed from."""
    grad = grads[0]
    arrays = on_arrays(grad)
    shape = tuple(input_shape)
    across = (shape[1], shape[0], *shape[2:]) if batch_first else shape
    made = np.zeros(across, grad.dtype) if arrays else factories.zeros(across, dtype=grad.dtype)
    for first, last, rows, start in _blocks(result1.tolist()):
        part = grad[start : start + (last - first) * rows]
        made[first:last, :rows] = part.reshape((last - first, rows, *shape[2:]))
    if not batch_first:
        return made
    return made.swapaxes(0, 1) if arrays else made.transpose(0, 1)


_pack_padded_sequence = op(
    "PackPaddedSequenceBackward0",
    _pack,
    jvp(
        lambda input_t, lengths, batch_first: (
            w._pack_padded_sequence(input_t, lengths, batch_first)[0],
            None,
        )
    ),
    FUNCTION_ONLY,
    tensors("lengths"),
    outputs("result0", "result1", without=("result1",)),
    input=_unpack,
)
family(globals())


@function
def _pad_packed_sequence(data, batch_sizes, batch_first, padding_value, total_length):
    """Pad a packed sequence. Returns the batch and the lengths."""
    sizes = batch_sizes.tolist()
    steps = len(sizes)
    if total_length > 0:
        if total_length < steps:
            raise RuntimeError(
                "Expected total_length to be at least the length of the longest sequence in "
                f"input, but got total_length={total_length} and max sequence length being {steps}"
            )
        steps = total_length
    rest = tuple(data.shape[1:])
    made = factories.full(
        (steps, sizes[0], *rest), padding_value, dtype=data.dtype, device=data.device
    )
    for first, last, rows, start in _blocks(sizes):
        part = data.narrow(0, start, (last - first) * rows).view((last - first, rows, *rest))
        made.narrow(0, first, last - first).narrow(1, 0, rows).copy_(part)
    lengths = (batch_sizes._array[:, None] > np.arange(sizes[0])).sum(0)
    return made.transpose(0, 1) if batch_first else made, wrapped_on(lengths, None)


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """Stack sequences, padded to the longest."""
    if not sequences:
        raise RuntimeError("received an empty list of sequences")
    if padding_side not in {"left", "right"}:
        raise RuntimeError(
            f"Expected padding_side to be one of left or right, but got {padding_side}."
        )
    longest = max(one.size(0) for one in sequences)
    first, count = sequences[0], len(sequences)
    outer = (count, longest) if batch_first else (longest, count)
    made = factories.full(
        (*outer, *first.shape[1:]), padding_value, dtype=first.dtype, device=first.device
    )
    for i, one in enumerate(sequences):
        length = one.size(0)
        start = longest - length if padding_side == "left" else 0
        if batch_first:
            made.select(0, i).narrow(0, start, length).copy_(one)
        else:
            made.narrow(0, start, length).select(1, i).copy_(one)
    return made
