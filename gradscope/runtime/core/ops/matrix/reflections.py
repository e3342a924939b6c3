"""Products of reflections, and LDL: householder_product, ormqr, geqrf."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.calls import return_types
from gradscope.runtime.core.calls.declare import (
    BY_HAND,
    INTERNAL,
    TRANSPOSED,
    UNKNOWN,
    family,
    joint,
    op,
    outputs,
    tensors,
    w,
)
from gradscope.runtime.core.dtypes.names import scalar_name
from gradscope.runtime.core.kernels.linalg import ldl, linalg as kernels
from gradscope.runtime.core.ops.in_formulas import no_derivative, on_arrays
from gradscope.runtime.core.ops.matrix.matrices import (
    check_floating,
    check_kernel,
    check_square,
    conjugate,
    constant,
    mH,
)
from gradscope.runtime.core.ops.shape.broadcasting import broadcast_shape
from gradscope.runtime.core.rows.offered import FUNCTIONS, both

# -- formulas of reflections ---------------------------------------------------------------------


def _line(a, i):
    """The vector of the i-th reflection, as a matrix with one column."""
    rows = a.shape[-2]
    below = np.zeros((rows, 1))
    below[i + 1 :] = 1
    one = np.zeros((rows, 1))
    one[i] = 1
    return a[..., :, i : i + 1] * constant(below, a) + constant(one, a)


def _part(x, i):
    return w.unsqueeze(w.unsqueeze(x[..., i], -1), -1)


def _reflections_slope(grad, a, tau, c, adjoint):
    """The gradients of A and tau of Q C, or of Qᴴ C, one reflection at a time."""
    count = tau.shape[-1]
    order = list(range(count)) if adjoint else list(range(count - 1, -1, -1))
    factors = conjugate(tau) if adjoint else tau
    steps = []
    for i in order:
        line, factor = _line(a, i), _part(factors, i)
        steps.append((i, line, factor, c))
        c = c - factor * (line @ (mH(line) @ c))
    columns, scalars = {}, {}
    for i, line, factor, before in reversed(steps):
        along = mH(before) @ line
        back = mH(grad) @ line
        slope = -(conjugate(factor) * (grad @ along)) - factor * (before @ back)
        columns[i] = slope * constant(np.arange(a.shape[-2])[:, None] > i, slope)
        scalar = -(mH(back) @ along)
        scalars[i] = (conjugate(scalar) if adjoint else scalar)[..., 0]
        grad = grad - conjugate(factor) * (line @ (mH(line) @ grad))
    return _side_by_side(columns, scalars, a, tau, grad)


def _side_by_side(columns, scalars, a, tau, grad):
    count = tau.shape[-1]
    if not count or 0 in a.shape or 0 in grad.shape:
        return None, None
    empty = [columns[0] * 0] * (a.shape[-1] - count)
    joined = [columns[i] for i in range(count)] + empty
    return _joined(joined), _joined([scalars[i] for i in range(count)])


def _joined(parts):
    if on_arrays(parts[0]):
        return np.concatenate(parts, -1)
    return FUNCTIONS["cat"](parts, -1)


# -- rows ----------------------------------------------------------------------------------------


def _householder(input, tau):
    name = "torch.linalg.householder_product"
    if input.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if input.shape[-2] < input.shape[-1]:
        raise RuntimeError(
            f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]"
        )
    if input.shape[-1] < tau.shape[-1]:
        raise RuntimeError(
            f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]"
        )
    if input.ndim - tau.ndim != 1:
        raise RuntimeError(
            f"{name}: Expected tau to have one dimension less than input, but got tau.ndim equal "
            f"to {tau.ndim} and input.ndim is equal to {input.ndim}"
        )
    if input.shape[:-2] != tau.shape[:-1]:
        raise RuntimeError(
            f"{name}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got "
            f"{list(tau.shape[:-1])}"
        )
    if input.dtype != tau.dtype:
        raise RuntimeError(
            f"{name}: tau dtype {scalar_name(tau)} does not match input dtype {scalar_name(input)}"
        )
    check_kernel("orgqr_cpu", input)
    return kernels.householder(input, tau)


def _householder_slopes(grad, input, tau, result, needs):
    start = constant(np.eye(*input.shape[-2:]), input)
    start = start + input * 0
    of_input, of_tau = _reflections_slope(grad, input, tau, start, False)
    return of_input if needs[0] else None, of_tau if needs[1] else None


linalg_householder_product__default = op(
    "LinalgHouseholderProductBackward0",
    _householder,
    BY_HAND,
    INTERNAL,
    TRANSPOSED,
    joint("input", "tau", by=_householder_slopes),
)


def _ormqr(self, input2, input3, left=True, transpose=False):
    name = "torch.ormqr"
    for what, matrix in (("input", self), ("other", input3)):
        if matrix.ndim < 2:
            raise RuntimeError(f"{name}: {what} must have at least 2 dimensions.")
    side = -2 if left else -1
    if input3.shape[side] != self.shape[-2]:
        raise RuntimeError(f"{name}: other.shape[{side}] must be equal to input.shape[-2]")
    if input2.shape[-1] != min(input3.shape[side], self.shape[-1]):
        raise RuntimeError(
            f"{name}: tau.shape[-1] must be equal to min(other.shape[{side}], input.shape[-1])"
        )
    for what, other in (("tau", input2), ("other", input3)):
        if self.dtype != other.dtype:
            raise RuntimeError(
                f"{name}: Expected input and {what} to have the same dtype, but input has dtype"
                f"{scalar_name(self)} and {what} has dtype {scalar_name(other)}"
            )
    check_kernel("ormqr_cpu", self)
    if left:
        return kernels.columns_first(kernels.reflected(self, input2, input3, transpose))
    turned = kernels.reflected(self, input2, kernels.adjoint(input3), not transpose)
    return kernels.columns_first(kernels.adjoint(turned))


def _ormqr_slopes(grad, self, input2, input3, left, transpose, result, needs):
    of_a = of_tau = None
    if needs[0] or needs[1]:
        turned = (grad, input3) if left else (mH(grad), mH(input3))
        adjoint = transpose if left else not transpose
        of_a, of_tau = _reflections_slope(turned[0], self, input2, turned[1], adjoint)
    return (
        of_a if needs[0] else None,
        of_tau if needs[1] else None,
        w.ormqr(self, input2, grad, left, not transpose) if needs[2] else None,
    )


ormqr = op(
    "OrmqrBackward0",
    _ormqr,
    BY_HAND,
    TRANSPOSED,
    joint("self", "input2", "input3", by=_ormqr_slopes),
)


def _geqrf(self):
    if self.ndim < 2:
        raise RuntimeError("torch.geqrf: input must have at least 2 dimensions.")
    check_kernel("geqrf_cpu", self)
    made, tau = kernels.geqrf(self)
    return kernels.columns_first(made), tau


def refused(name):
    inner = no_derivative(name)

    def formula(grads):
        return inner(grads)

    return formula


geqrf__default = op(
    "GeqrfBackward0", _geqrf, INTERNAL, UNKNOWN, outputs("a", "tau"), self=refused("geqrf")
)


def _ldl_factored(self, hermitian=False):
    name = "torch.linalg.ldl_factor_ex"
    check_square(name, self)
    check_floating(name, self)
    check_kernel("ldl_factor_kernel_cpu", self)
    return ldl.ldl_factor(self, hermitian and self.dtype.kind == "c")


linalg_ldl_factor_ex__default = op(
    "NotImplemented",
    _ldl_factored,
    INTERNAL,
    UNKNOWN,
    outputs("LD", "pivots", "info", without=("pivots", "info")),
    self=refused("linalg_ldl_factor_ex"),
)


def _ldl_solved(LD, pivots, B, hermitian=False):
    name = "torch.linalg.ldl_solve"
    check_square(name, LD)
    check_floating(name, LD)
    if B.ndim < 2:
        raise RuntimeError(
            f"{name}: Expected B to have at least 2 dimensions, but it has {B.ndim} dimensions "
            "instead"
        )
    if LD.dtype != B.dtype:
        raise RuntimeError(
            f"Expected b and A to have the same dtype, but found b of type {scalar_name(B)} "
            f"and A of type {scalar_name(LD)} instead."
        )
    if LD.shape[-1] != B.shape[-2]:
        size = LD.shape[-1]
        raise RuntimeError(
            f"Incompatible matrix sizes for {name}: each A matrix is {size} by {size} but each b "
            f"matrix is {B.shape[-2]} by {B.shape[-1]}"
        )
    if pivots.shape != LD.shape[:-1]:
        raise RuntimeError(
            f"{name}: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with "
            f"shape {list(pivots.shape)} instead"
        )
    if pivots.dtype.kind not in "iu":
        raise RuntimeError(f"{name}: Expected pivots to be integers. Got {scalar_name(pivots)}")
    check_kernel("ldl_solve_kernel_cpu", LD)
    broadcast_shape([LD.shape[:-2], B.shape[:-2]])
    return ldl.ldl_solve(LD, pivots, B, hermitian and LD.dtype.kind == "c")


linalg_ldl_solve__default = op(
    "NotImplemented",
    _ldl_solved,
    tensors("pivots"),
    INTERNAL,
    UNKNOWN,
    LD=no_derivative("linalg_ldl_solve"),
    B=no_derivative("linalg_ldl_solve"),
)
family(globals())

# -- public functions ---------------------------------------------------------------------------


def householder_product(A, tau):
    """The first columns of the product of the reflections below the diagonal of A."""
    return linalg_householder_product__default(A, tau)


@both
def orgqr(input, input2):
    return linalg_householder_product__default(input, input2)


@both
def geqrf(input):
    """R and the reflections of Q in one matrix, and the factor of each reflection."""
    return return_types.geqrf(*geqrf__default(input))


def ldl_factor_ex(A, *, hermitian=False, check_errors=False):
    """L and D of A = L D Lᵀ in one matrix, and the row swaps."""
    made = linalg_ldl_factor_ex__default(A, hermitian)
    if check_errors:
        _check_info("torch.linalg.ldl_factor_ex", made[2])
    return return_types.linalg_ldl_factor_ex(*made)


def ldl_factor(A, *, hermitian=False):
    factors, pivots, info = linalg_ldl_factor_ex__default(A, hermitian)
    _check_info("torch.linalg.ldl_factor", info)
    return return_types.linalg_ldl_factor(factors, pivots)


def _check_info(name, info):
    bad = np.flatnonzero(info._array)
    if len(bad):
        raise RuntimeError(f"{name}: the diagonal element {info._array.flat[bad[0]]} of D is zero.")


def ldl_solve(LD, pivots, B, *, hermitian=False):
    """X of A X = B, from the result of `ldl_factor`."""
    return linalg_ldl_solve__default(LD, pivots, B, hermitian)


for _made in (householder_product, ldl_factor, ldl_factor_ex, ldl_solve):
    FUNCTIONS[f"linalg.{_made.__name__}"] = _made
