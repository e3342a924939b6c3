"""Composite products, decomposed as in PyTorch: matmul, linear, tensordot."""

from __future__ import annotations

from math import prod

from gradscope.runtime.core.calls.extra_arguments.out import written
from gradscope.runtime.core.dtypes.names import tp_name
from gradscope.runtime.core.ops.products.linalg import addmm, bmm, dot, mm, mv
from gradscope.runtime.core.ops.shape.axes import t, transpose
from gradscope.runtime.core.ops.shape.broadcasting import broadcast_shape
from gradscope.runtime.core.ops.shape.reshaping import squeeze_
from gradscope.runtime.core.ops.shape.shape import _unsafe_view as unsafe_view, reshape
from gradscope.runtime.core.rows.offered import METHODS, both, function, nn_function
from gradscope.runtime.core.state.array_calls import layout_only
from gradscope.runtime.core.tensors.dims import text, wrapped
from gradscope.runtime.core.tensors.memory.storage import elements


@both
def matmul(input, other):
    """The matrix product of vectors, matrices, or batches of matrices."""
    ndim, other_ndim = input._array.ndim, other._array.ndim
    if ndim == 2 == other_ndim:
        return mm(input, other)
    if ndim == 0 or other_ndim == 0:
        raise RuntimeError(
            "both arguments to matmul need to be at least 1D, but they are "
            f"{ndim}D and {other_ndim}D"
        )
    if ndim == 1 and other_ndim == 1:
        return dot(input, other)
    if ndim == 2 and other_ndim == 1:
        return mv(input, other)
    if ndim == 1 and other_ndim == 2:
        return squeeze_(mm(input.unsqueeze(0), other), 0)
    if _folds(input, other):
        return _folded(input, other)
    return _batched(input, other)


def _from_right(self, other):
    return matmul(other, self)


METHODS.update(__rmatmul__=_from_right)


@layout_only
def _folds(input, other):
    """Whether the batch of the larger one is better folded into the rows of one matrix."""
    ndim, other_ndim = input._array.ndim, other._array.ndim
    larger, smaller = (input, other) if ndim >= other_ndim else (other, input)
    if larger._array.ndim < 3 or smaller._array.ndim > 2:
        return False
    if smaller.requires_grad:
        return True
    if ndim == 2:
        return False
    array = larger._array if ndim >= other_ndim else larger._array.swapaxes(-1, -2)
    if not array.size:
        return True
    steps, shape = elements(array), array.shape
    return all(steps[i] == steps[i + 1] * shape[i + 1] for i in range(len(shape) - 2))


def _folded(input, other):
    swapped = other._array.ndim > input._array.ndim
    if swapped:
        rows = transpose(other, -2, -1)
        right = t(input) if input._array.ndim == 2 else input
    else:
        rows, right = input, other
    shape = rows._array.shape
    flat = reshape(rows, (prod(shape[:-1]), shape[-1]))
    if right._array.ndim == 1:
        return unsafe_view(mv(flat, right), shape[:-1])
    made = unsafe_view(mm(flat, right), (*shape[:-1], right._array.shape[1]))
    return transpose(made, -2, -1).contiguous() if swapped else made


def _batched(input, other):
    left, right = input._array.shape, other._array.shape
    if len(left) == len(right) == 3 and left[0] != right[0]:
        if left[0] == 1 and input.requires_grad:
            return matmul(input.squeeze(0), other)
        if right[0] == 1 and other.requires_grad:
            return matmul(input, other.squeeze(0))
    rows, inner = (left[-2] if len(left) > 1 else 1), left[-1]
    other_inner = right[-2] if len(right) > 1 else right[0]
    columns = right[-1] if len(right) > 1 else 1
    batch = broadcast_shape([left[:-2], right[:-2]])
    count = prod(batch)
    lefts = reshape(input.expand((*batch, rows, inner)), (count, rows, inner))
    if len(right) == 1:
        columns_of_one = reshape(other.expand((*batch, other_inner)), (count, other_inner))
        found = bmm(lefts, columns_of_one.unsqueeze(2)).squeeze(-1)
    else:
        spread = other.expand((*batch, other_inner, columns))
        found = bmm(lefts, reshape(spread, (count, other_inner, columns)))
    shape = (
        *batch,
        *((rows,) if len(left) > 1 else ()),
        *((columns,) if len(right) > 1 else ()),
    )
    return unsafe_view(found, shape)


@nn_function
def linear(input, weight, bias=None, *, out=None):
    """The product with the transposed weight, plus the bias."""
    if out is not None:
        return written("linear", linear(input, weight, bias), out)
    try:
        ndim = input._array.ndim
    except AttributeError:
        raise TypeError(
            f"linear(): argument 'input' (position 1) must be Tensor, not {tp_name(input)}"
        ) from None
    if bias is None:
        return matmul(input, t(weight))
    if ndim == 2:
        return addmm(bias, input, t(weight))
    if input._array.flags.c_contiguous and weight._array.ndim == 2 and bias._array.ndim == 1:
        shape = input._array.shape
        flat = reshape(input, (prod(shape[:-1]), shape[-1]))
        return addmm(bias, flat, t(weight)).view(*shape[:-1], weight._array.shape[0])
    return matmul(input, t(weight)).add_(bias)


@both
def inner(input, other):
    """Sums over the last dim of both."""
    if input.dim() == 0 or other.dim() == 0:
        return input * other
    if input._array.shape[-1] != other._array.shape[-1]:
        raise RuntimeError(
            "inner() the last dimension must match on both input tensors but got shapes "
            f"{text(input._array.shape)} and {text(other._array.shape)}"
        )
    return tensordot(input, other, ([-1], [-1]))


@function
def tensordot(a, b, dims=2):
    """Sums of products over some dims of both."""
    if isinstance(dims, int):
        over, others = list(range(-dims, 0)), list(range(dims))
    else:
        over, others = ([d] if isinstance(d, int) else list(d) for d in dims)
    a, b = _summed_where_single(a, b, over, others)
    left, right = a._array.shape, b._array.shape
    rows = _all_but(over, a.dim())
    columns = _all_but(others, b.dim())
    a, b = a.permute(*rows, *over), b.permute(*others, *columns)
    if prod(left[d] for d in rows) == 1 == prod(right[d] for d in columns):
        return reshape(_one_sum(a, b), (1,) * (len(rows) + len(columns)))
    inner_size = prod(left[d] for d in over)
    matrix = reshape(a, (prod(left[d] for d in rows), inner_size))
    other = reshape(b, (inner_size, prod(right[d] for d in columns)))
    return reshape(mm(matrix, other), (*(left[d] for d in rows), *(right[d] for d in columns)))


def _one_sum(a, b):
    """The sum of all products, if no dims remain."""
    if a._array.flags.c_contiguous and b._array.flags.c_contiguous:
        return dot(a.flatten(), b.flatten())
    return (a.squeeze() * b.squeeze()).sum().to(a.dtype)


def _all_but(dims, ndim):
    named = {wrapped(dim, ndim) for dim in dims}
    return [dim for dim in range(ndim) if dim not in named]


def _summed_where_single(a, b, over, others):
    """A dim of size 1 meets one of another size: the latter is summed first."""
    for mine, theirs in zip(over, others, strict=True):
        size = a._array.shape[wrapped(mine, a.dim())]
        other = b._array.shape[wrapped(theirs, b.dim())]
        if other == 1:
            a = a.sum((mine,), True).to(a.dtype)
        elif size == 1:
            b = b.sum((theirs,), True).to(b.dtype)
        elif size != other:
            raise RuntimeError(
                "contracted dimensions need to match, but first has size "
                f"{size} in dim {mine} and second has size {other} in dim {theirs}"
            )
    return a, b


def _vectors(name, self, vec2):
    for nr, vec in ((1, self), (2, vec2)):
        if vec.dim() != 1:
            names = {1: "self", 2: "vec2"}
            raise RuntimeError(f"{name}: Expected 1-D argument {names[nr]}, but got {vec.dim()}-D")


@both
def outer(input, vec2):
    """Every element of one vector times every element of another."""
    _vectors("outer", input, vec2)
    return input.reshape(input.numel(), 1) * vec2


@both
def ger(input, vec2):
    return outer(input, vec2)
