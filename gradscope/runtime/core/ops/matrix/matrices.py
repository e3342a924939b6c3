"""Common parts of matrix operations: checks with PyTorch's messages, and words of formulas."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.calls.declare import w
from gradscope.runtime.core.calls.extra_arguments.out import written
from gradscope.runtime.core.dtypes.names import scalar_name
from gradscope.runtime.core.errors.dtypes import unknown_dtype
from gradscope.runtime.core.kernels.support import HALVES
from gradscope.runtime.core.ops.in_formulas import is_complex, on_arrays


class LinAlgError(RuntimeError):
    """A matrix lacks a required property: for example, it is singular."""


LinAlgError.__module__ = "torch._C"
LinAlgError.__name__ = LinAlgError.__qualname__ = "_LinAlgError"


# -- checks --------------------------------------------------------------------------------------


def check_matrix(name, matrix, what="A"):
    if matrix.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor {what} must have at least 2 dimensions.")


def check_square(name, matrix, what="A"):
    check_matrix(name, matrix, what)
    rows, columns = matrix.shape[-2:]
    if rows != columns:
        raise RuntimeError(
            f"{name}: {what} must be batches of square matrices, but they are {rows} by {columns} "
            "matrices"
        )


def check_floating(name, matrix):
    """Check that the dtype is floating point or complex."""
    if matrix.dtype.kind not in "fcV":
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as input. "
            f"Got {scalar_name(matrix)}"
        )


def check_precise(name, matrix):
    """Check that the dtype is not half precision either."""
    check_floating(name, matrix)
    if matrix.dtype in HALVES:
        raise RuntimeError(f"{name}: Low precision dtypes not supported. Got {scalar_name(matrix)}")


def check_kernel(name, matrix):
    """Check that LAPACK supports the dtype."""
    if matrix.dtype.char not in "fdFD":
        raise unknown_dtype(name, matrix)


def check_together(name, a, b, left=True, names=("A", "B")):
    """Check that the shapes fit A X = B (or X A = B)."""
    if a.dtype != b.dtype:
        kinds = [f"{n} of type {scalar_name(m)}" for n, m in zip(names, (a, b), strict=True)]
        raise RuntimeError(
            f"{name}: Expected {names[0]} and {names[1]} to have the same dtype, but found "
            f"{kinds[0]} and {kinds[1]} instead"
        )
    if a.shape[-2 if left else -1] != b.shape[-2 if left else -1]:
        sizes = ["x".join(str(n) for n in m.shape[-2:]) for m in (a, b)]
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation "
            f"{'AX' if left else 'XA'} = B ({sizes[0]} and {sizes[1]})"
        )


def check_pair(name, b, a):
    """The checks of the older solvers."""
    if a.shape[-1] != a.shape[-2]:
        raise RuntimeError(
            f"A must be batches of square matrices, but they are {a.shape[-2]} by {a.shape[-1]} "
            "matrices"
        )
    if a.dtype != b.dtype:
        raise RuntimeError(
            f"Expected b and A to have the same dtype, but found b of type {scalar_name(b)} "
            f"and A of type {scalar_name(a)} instead."
        )
    if a.shape[-1] != b.shape[-2]:
        raise RuntimeError(
            f"Incompatible matrix sizes for {name}: each A matrix is {a.shape[-1]} by "
            f"{a.shape[-1]} but each b matrix is {b.shape[-2]} by {b.shape[-1]}"
        )


FAILURES = {
    "inv": "The diagonal element {} is zero, the inversion could not be completed because the "
    "input matrix is singular.",
    "cholesky": "The factorization could not be completed because the input is not "
    "positive-definite (the leading minor of order {} is not positive-definite).",
    "eigen": "The algorithm failed to converge because the input matrix is ill-conditioned or has "
    "too many repeated eigenvalues (error code: {}).",
    "svd": "The algorithm failed to converge because the input matrix is ill-conditioned or has "
    "too many repeated singular values (error code: {}).",
    "solve": "The solver failed because the input matrix is singular.",
}


def raise_for(name, kind, info):
    """Raise the error for the first matrix of a batch that failed, if any."""
    array = getattr(info, "_array", info)
    bad = np.flatnonzero(array)
    if not len(bad):
        return
    which = f"(Batch element {bad[0]}): " if array.ndim else ""
    raise LinAlgError(f"{name}: {which}{FAILURES[kind].format(array.flat[bad[0]])}")


# -- words of formulas ---------------------------------------------------------------------------


def mT(x):
    return w.transpose(x, -2, -1)


def mH(x):
    turned = w.transpose(x, -2, -1)
    return turned.conj() if is_complex(x) else turned


def conjugate(x):
    return x.conj() if is_complex(x) else x


def real_part(x):
    return x.real if is_complex(x) else x


def line_of(x):
    """The diagonal of each matrix."""
    return w.diagonal(x, 0, -2, -1)


def depends_on_phase(line):
    """Whether gradients on the diagonal depend on the phases of complex vectors, which are free."""
    array = getattr(line, "_array", line)
    off = np.abs(array.imag).max(initial=0)
    return off > 1e-2 * max(1.0, float(np.abs(array).max(initial=0)))


def constant(array, like):
    """A constant array of the formula, for use with an array or a tensor."""
    kind = array.dtype if array.dtype.kind == "c" else real_kind(like)
    if on_arrays(like):
        return array.astype(kind)
    from gradscope.runtime.core.tensors.making.factories import new_leaf

    return new_leaf(array.astype(kind), device=like.device)


def real_kind(x):
    array = getattr(x, "_array", x)
    return array.real.dtype if array.dtype.kind == "c" else array.dtype


def is_nothing(grad):
    """Whether a gradient is only the zeros for an undefined one."""
    if on_arrays(grad):
        return not grad.any()
    return not grad.requires_grad and not grad._array.any()


def as_matrix(x, is_vector):
    return w.unsqueeze(x, -1) if is_vector else x


def as_vector(x, is_vector):
    return getattr(w, "squeeze.dim")(x, -1) if is_vector else x


def contiguous(x):
    return getattr(x, "_array", x).flags.c_contiguous


def all_written(name, made, out):
    """Write several results to the tensors of `out`, if given."""
    return made if out is None else written(name, tuple(made), out)
