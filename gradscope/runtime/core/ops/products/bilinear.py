"""Products of three tensors: bilinear."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.calls.declare import INTERNAL, PRODUCT, family, op, w
from gradscope.runtime.core.kernels.support import HALVES
from gradscope.runtime.core.ops.in_formulas import nn_alias
from gradscope.runtime.core.rows.offered import function

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def _sum_of_products(i1, i2, i3, expand1, expand2, expand3, sumdim, unroll_dim=1):
    """The product of three tensors, each expanded along some dims, summed over others."""
    total = i1.ndim + len(expand1)
    dims = LETTERS[:total]
    names = [
        "".join(letter for d, letter in enumerate(dims) if d not in expand)
        for expand in (expand1, expand2, expand3)
    ]
    kept = "".join(letter for d, letter in enumerate(dims) if d not in sumdim)
    present = "".join(letter for letter in kept if any(letter in name for name in names))
    if i1.dtype in HALVES:
        made = _in_steps((i1, i2, i3), names, present, dims[unroll_dim])
    else:
        made = np.einsum(f"{','.join(names)}->{present}", i1, i2, i3, optimize=True)
    for place, letter in enumerate(kept):
        if letter not in present:
            made = np.expand_dims(made, place)
    return np.ascontiguousarray(made).astype(i1.dtype, copy=False)


def _in_steps(given, names, kept, unrolled):
    """The same in half precision, with intermediate results rounded as in PyTorch.

    The third tensor is multiplied with the product of the first two, separately for each index of
    one dim. That dim is summed last, in half precision.
    """
    i1, i2, i3 = (x.astype(np.float32) for x in given)
    kind, (one, two, three) = given[0].dtype, names
    both = "".join(sorted({*one, *two} & {*kept, *three, unrolled}))
    pair = np.einsum(f"{one},{two}->{both}", i1, i2).astype(kind).astype(np.float32)
    if unrolled in kept or unrolled not in both + three:
        return np.einsum(f"{both},{three}->{kept}", pair, i3)
    parts = np.einsum(f"{both},{three}->{unrolled}{kept}", pair, i3).astype(kind)
    made = np.zeros(parts.shape[1:], kind)
    for part in parts:
        made = made + part
    return made


_trilinear = op(
    "TrilinearBackward0",
    _sum_of_products,
    PRODUCT,
    INTERNAL,
    i1=lambda grad, i2, i3, expand1, expand2, expand3, sumdim: w._trilinear(
        grad, i2, i3, sumdim, expand2, expand3, expand1
    ),
    i2=lambda grad, i1, i3, expand1, expand2, expand3, sumdim: w._trilinear(
        i1, grad, i3, expand1, sumdim, expand3, expand2
    ),
    i3=lambda grad, i1, i2, expand1, expand2, expand3, sumdim: w._trilinear(
        i1, i2, grad, expand1, expand2, sumdim, expand3
    ),
)
family(globals())


@function
def bilinear(input1, input2, weight, bias=None):
    """X W y for each output's matrix W."""
    _check(input1, input2, weight, bias)
    first = input1.reshape(-1, input1.size(-1))
    second = input2.reshape(-1, input2.size(-1))
    made = _trilinear(first, weight, second, (1, 3), (0,), (1, 2), (2, 3))
    made = made.reshape(*input1.shape[:-1], weight.size(0))
    return made if bias is None else made + bias


def _check(input1, input2, weight, bias):
    if input1.dim() != input2.dim():
        raise RuntimeError(
            f"bilinear(): input dimensions do not match: got {input1.dim()} and {input2.dim()}"
        )
    for i in range(input1.dim() - 1):
        if input1.size(i) != input2.size(i):
            raise RuntimeError(
                f"bilinear(): input batch dimensions do not match at dim {i}: got "
                f"{input1.size(i)} and {input2.size(i)}"
            )
    for i, given in enumerate((input1, input2), 1):
        if given.size(-1) != weight.size(i):
            raise RuntimeError(
                f"bilinear(): input{i} size does not match weight size: got {given.size(-1)} but "
                f"expected {weight.size(i)}"
            )
    if bias is not None and bias.size(0) != weight.size(0):
        raise RuntimeError(
            f"bilinear(): bias size does not match weight size: got {bias.size(0)} but expected "
            f"{weight.size(0)}"
        )


nn_alias(bilinear, "bilinear")
