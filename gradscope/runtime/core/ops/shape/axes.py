"""Permutations of dims."""

from __future__ import annotations

from gradscope.runtime.core.calls.declare import METHOD_ONLY, family, view as view_op, w
from gradscope.runtime.core.ops.shape.aliasing import alias
from gradscope.runtime.core.rows.offered import METHODS, both, function
from gradscope.runtime.core.state.warned import warn
from gradscope.runtime.core.tensors.dims import sizes, text, wrapped


def _permute(self, dims):
    try:
        return self.transpose(dims)
    except ValueError:  # includes NumPy's AxisError
        raise _misordered(self, dims) from None


def _misordered(self, dims):
    if len(dims) != self.ndim:
        return RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the "
            f"length of the desired ordering of dimensions i.e. input.dim() = {self.ndim} is not "
            f"equal to len(dims) = {len(dims)}"
        )
    for dim in dims:
        wrapped(dim, self.ndim)
    return RuntimeError("permute(): duplicate dims are not allowed.")


def _restored(grad, dims):
    """Undo a permutation."""
    order = [0] * len(dims)
    for place, dim in enumerate(dims):
        order[dim] = place
    return w.permute(grad, tuple(order))


def _transpose(self, dim0, dim1):
    try:
        return self.swapaxes(dim0, dim1)
    except ValueError:
        wrapped(dim0, self.ndim), wrapped(dim1, self.ndim)
        return self[...]  # without dims there is nothing to swap


def _t(self):
    if self.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {self.ndim}D")
    return self.T


TRANSPOSE = {"self": lambda grad, dim0, dim1: w.transpose(grad, dim0, dim1)}
T = {"self": lambda grad: w.t(grad)}

permute__default = view_op(
    "PermuteBackward0", _permute, METHOD_ONLY, self=lambda grad, dims: _restored(grad, dims)
)
transpose = view_op("TransposeBackward0", _transpose, **TRANSPOSE)
t = view_op("TBackward0", _t, **T)
family(globals())


@function
def permute(input, dims):
    return permute__default(input, tuple(dims))


def _permute_method(self, *dims):
    if not dims:
        raise TypeError('permute() missing 1 required positional arguments: "dims"')
    return permute__default(self, sizes(dims, "permute"))


METHODS["permute"] = _permute_method


@both
def swapaxes(input, axis0, axis1):
    return transpose(input, axis0, axis1)


@both
def swapdims(input, dim0, dim1):
    return transpose(input, dim0, dim1)


@both
def adjoint(input):
    if input.dim() == 0:
        return _of_number(input, "adjoint() is")
    if input.dim() < 2:
        raise RuntimeError(
            "tensor.adjoint() is only supported on matrices or batches of matrices. Got "
            f"{input.dim()}-D tensor."
        )
    return _conjugate(transpose(input, -2, -1))


def _conjugate(tensor):
    return tensor.conj() if tensor.is_complex() else tensor


@both
def movedim(input, source, destination):
    """Move some dims; the others keep their order."""
    ndim = input.dim()
    froms = _listed(source, ndim, "source")
    tos = _listed(destination, ndim, "destination")
    if len(froms) != len(tos):
        raise RuntimeError(
            "movedim: Invalid source or destination dims: source "
            f"({text(_tuple(source))} dims) should contain the same number of dims as destination "
            f"({text(_tuple(destination))} dims)"
        )
    if not ndim:
        return alias(input)
    others = iter(dim for dim in range(ndim) if dim not in froms)
    placed = dict(zip(tos, froms, strict=True))
    order = tuple(placed[place] if place in placed else next(others) for place in range(ndim))
    return permute__default(input, order)


def _tuple(dims):
    return (dims,) if isinstance(dims, int) else tuple(dims)


def _listed(dims, ndim, name):
    given = _tuple(dims)
    found = tuple(wrapped(dim, ndim) for dim in given)
    if len(set(found)) < len(found):
        raise RuntimeError(f"movedim: repeated dim in `{name}` ({text(given)})")
    return found


@both
def moveaxis(input, source, destination):
    return movedim(input, source, destination)


def _T(self):
    ndim = self.dim()
    if ndim == 0:
        _deprecated(
            "Tensor.T is deprecated on 0-D tensors. This function is the identity in these cases."
        )
    elif ndim != 2:
        _deprecated(
            "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is "
            "deprecated and it will throw an error in a future release. Consider `x.mT` to "
            "transpose batches of matrices or `x.permute(*torch.arange(x.ndim - 1, -1, -1))` to "
            "reverse the dimensions of a tensor."
        )
    return permute__default(self, tuple(range(ndim - 1, -1, -1)))


def _of_number(tensor, name):
    _deprecated(f"{name} deprecated on 0-D tensors. Consider using x.conj().")
    return _conjugate(tensor)


def _deprecated(words):
    warn(words)


def _mT(self):
    if self.dim() == 0:
        _deprecated(
            "Tensor.mT is deprecated on 0-D tensors. This function is the identity in these cases."
        )
        return self
    if self.dim() < 2:
        raise RuntimeError(
            "tensor.mT is only supported on matrices or batches of matrices. Got "
            f"{self.dim()}-D tensor."
        )
    return transpose(self, -2, -1)


def _H(self):
    if self.dim() == 0:
        return _of_number(self, "Tensor.H is")
    if self.dim() != 2:
        more = " For batches of matrices, consider using tensor.mH" if self.dim() > 2 else ""
        raise RuntimeError(
            "tensor.H is only supported on matrices (2-D tensors). Got "
            f"{self.dim()}-D tensor.{more}"
        )
    return _conjugate(transpose(self, -2, -1))


def _mH(self):
    if self.dim() == 0:
        return _of_number(self, "Tensor.mH is")
    if self.dim() < 2:
        raise RuntimeError(
            "tensor.mH is only supported on matrices or batches of matrices. Got "
            f"{self.dim()}-D tensor."
        )
    return _conjugate(transpose(self, -2, -1))


METHODS.update(T=property(_T), mT=property(_mT), H=property(_H), mH=property(_mH))
