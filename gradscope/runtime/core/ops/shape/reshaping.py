"""In-place changes of dims: transpose_, squeeze_, as_strided_."""

from __future__ import annotations

from gradscope.runtime.core import probe
from gradscope.runtime.core.autograd.forward.forward_grad import fw_grad, plainly
from gradscope.runtime.core.calls.declare import IN_STORAGE, INTERNAL, LINEAR, family, hidden, op
from gradscope.runtime.core.graph.node import new
from gradscope.runtime.core.ops.shape import axes, shape as shapes, slicing
from gradscope.runtime.core.rows.offered import both, method
from gradscope.runtime.core.state.array_calls import layout_only
from gradscope.runtime.core.state.thread import local
from gradscope.runtime.core.tensors.views.in_place import ANYWHERE, check_inplace, count_write

_transposed = op("TransposeBackward1", axes.transpose.op.kernel, LINEAR, INTERNAL, **axes.TRANSPOSE)


def _t(self):
    if self.ndim > 2:
        raise RuntimeError(f"t_() expects a tensor with <= 2 dimensions, but self is {self.ndim}D")
    return self.T


_t_self = op("TBackward1", _t, LINEAR, INTERNAL, **axes.T)
_squeezed = op(
    "SqueezeBackward3", shapes.squeeze__default.op.kernel, LINEAR, INTERNAL, **shapes.SQUEEZE
)
_squeezed_dim = op(
    "SqueezeBackward4", shapes.squeeze__dim.op.kernel, LINEAR, INTERNAL, **shapes.SQUEEZE_DIM
)
_squeezed_dims = op(
    "SqueezeBackward5", shapes.squeeze__dims.op.kernel, LINEAR, INTERNAL, **shapes.SQUEEZE_DIMS
)
_unsqueezed = op(
    "UnsqueezeBackward1", shapes.unsqueeze.op.kernel, LINEAR, INTERNAL, **shapes.UNSQUEEZE
)
_strided = op(
    "AsStridedBackward1",
    slicing.as_strided__default.op.kernel,
    LINEAR,
    INTERNAL,
    IN_STORAGE,
    hidden("self_shape", "geometry"),
    **slicing.AS_STRIDED,
)
family(globals())


@layout_only
def _reshaped_in_place(row, target, *options):
    """Change the dims of the tensor itself, and of its tangent; its memory stays."""
    state, here = local.state, probe.here
    tangent = fw_grad(target) if state.special else None
    begin = here.clock() if here is not None else 0
    check_inplace(target, (target,), state, ANYWHERE)
    before = new(type(target))
    before._array = target._array
    before._edge = target.gradient_edge() if state.grad_enabled else None
    before._meta = before._storage = None
    before._versions, before.record_nr = target._versions, target.record_nr
    made = row.op.full(before, *options, target._array, begin)
    target._array = made._array
    if target._storage is not None:
        target.meta().reshaped = True
    count_write(target, row.op)
    node = None if made._edge is None else made._edge[0]
    if node is not None:
        _rebase(target, node, row, options)
    elif target._is_view():
        _lengthen(target._meta, row, options)
    if here is not None:
        here.wrote(row.op, (target,), target, node, begin, state)
    if tangent is not None:
        with plainly():
            _reshaped_in_place(row, tangent, *options)
    return target


def _lengthen(meta, row, options):
    """Append the change to the view's chain, so that it can be replayed."""
    meta.chain = (*meta.chain, (row.op, options, 0))


def _rebase(target, node, row, options):
    """No element changed, so a view only needs a new history itself, not its base.

    As in PyTorch, hooks and retained gradients stay with the earlier state of the tensor.
    """
    meta = target._meta
    if meta is None or not meta.is_view:
        target._edge = (node, 0)
        return
    _lengthen(meta, row, options)
    meta.edge, meta.version = (node, 0), target._versions.value


@method
def transpose_(self, dim0, dim1):
    return _reshaped_in_place(_transposed, self, dim0, dim1)


@method
def t_(self):
    return _reshaped_in_place(_t_self, self)


@method
def squeeze_(self, dim=None):
    if dim is None:
        return _reshaped_in_place(_squeezed, self)
    if isinstance(dim, tuple | list):
        return _reshaped_in_place(_squeezed_dims, self, tuple(dim))
    return _reshaped_in_place(_squeezed_dim, self, dim)


@method
def unsqueeze_(self, dim):
    return _reshaped_in_place(_unsqueezed, self, dim)


@method
def swapaxes_(self, axis0, axis1):
    return transpose_(self, axis0, axis1)


@method
def swapdims_(self, dim0, dim1):
    return transpose_(self, dim0, dim1)


@both
def as_strided_(input, size, stride, storage_offset=None):
    """Make the tensor another view of its memory."""
    geometry = slicing.geometry(input)
    return _reshaped_in_place(_strided, input, tuple(size), tuple(stride), storage_offset, geometry)
