"""Aliases: detach, alias, the parts of complex numbers."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core import probe
from gradscope.runtime.core.calls.declare import (
    BY_HAND,
    INTERNAL,
    METHOD_ONLY,
    REPLAYED,
    family,
    op,
    view,
    w,
)
from gradscope.runtime.core.dtypes import memory_formats as formats
from gradscope.runtime.core.dtypes.names import scalar_name
from gradscope.runtime.core.ops.index.writing import copy_, wrapped_value
from gradscope.runtime.core.rows.offered import METHODS, both, function, method
from gradscope.runtime.core.rows.traits import Attaches
from gradscope.runtime.core.state.array_calls import layout_only
from gradscope.runtime.core.state.thread import local
from gradscope.runtime.core.tensors.memory.bits import CONJ, NEG, bits_of, negated
from gradscope.runtime.core.tensors.memory.storage import Storage, elements, offset_of
from gradscope.runtime.core.tensors.views.bits import attach_turned
from gradscope.runtime.core.tensors.views.inference import is_inference, take_data
from gradscope.runtime.core.tensors.views.views import attach_view, share
from gradscope.runtime.core.tensors.views.windows import taken_again
from gradscope.runtime.core.tensors.wrapping import wrap

_COMPLEX = {"f": "F", "d": "D"}

alias = view("AliasBackward0", lambda self: self[...], INTERNAL, self=lambda grad: grad)
# The results of `make_dual` and `unpack_dual`, with PyTorch's nodes.
_make_dual = view(
    "ViewBackward0", lambda self: self[...], INTERNAL, self=lambda grad, self_shape: grad
)
_fw_primal = view("Identity", lambda self: self[...], INTERNAL, self=lambda grad: grad)
detach__default = op(None, lambda self: self, METHOD_ONLY)


def _as_real(self):
    if self.dtype.kind != "c":
        raise RuntimeError("view_as_real is only supported for complex tensors")
    return self[..., None].view(self.real.dtype)


def _as_complex(self):
    if self.dtype.char not in _COMPLEX:
        raise RuntimeError(
            "view_as_complex is only supported for half, float and double tensors, but got a "
            f"tensor of scalar type: {scalar_name(self)}"
        )
    if self.ndim == 0:
        raise RuntimeError("Input tensor must have one or more dimensions")
    if self.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    if self.size == 0:
        return self[..., 0][()].reshape(-1).view(_COMPLEX[self.dtype.char]).reshape(self.shape[:-1])
    if self.strides[-1] != self.itemsize:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    if any(n > 1 and step % 2 for n, step in zip(self.shape[:-1], elements(self), strict=False)):
        raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
    if offset_of(self, Storage(self)) % 2:
        raise RuntimeError("Tensor must have a storage_offset divisible by 2")
    return self.view(_COMPLEX[self.dtype.char])[..., 0]


def _attach_parts(made, source, *how):
    """Attach a view of the parts of complex numbers, whose memory ignores a conj bit."""
    if bits_of(source).conj:
        raise RuntimeError(
            "view_as_real doesn't work on unresolved conjugated tensors.  To resolve the "
            "conjugate tensor so you can view it as real, use self.resolve_conj(); however, be "
            "warned that the resulting tensor will NOT alias the original."
        )
    attach_view(made, source, *how)


def _packed(grad):
    """The gradient with both parts of each number side by side."""
    array = getattr(grad, "_array", grad)
    whole = array.flags.c_contiguous
    return grad if whole else w.clone(grad, memory_format=formats.contiguous_format)


view_as_real = view(
    "ViewAsRealBackward0",
    _as_real,
    REPLAYED,
    BY_HAND,
    Attaches(_attach_parts),
    self=lambda grad: w.view_as_complex(_packed(grad)),
)
view_as_complex = view(
    "ViewAsComplexBackward0", _as_complex, REPLAYED, BY_HAND, self=lambda grad: w.view_as_real(grad)
)
conj__default = view(
    "ConjBackward0",
    np.conj,
    REPLAYED,
    BY_HAND,
    Attaches(attach_turned(CONJ), CONJ),
    self=lambda grad: grad.conj(),
)
_neg_view = view(
    "NegViewBackward0",
    lambda self: negated(self),
    REPLAYED,
    BY_HAND,
    Attaches(attach_turned(NEG), NEG),
    self=lambda grad: -grad,
)
family(globals())


@both
@layout_only
def detach(input):
    """An alias without history, with the same version counter."""
    here = probe.here
    begin = here.clock() if here is not None else 0
    made = wrap(input._array)
    share(made, input)
    if not local.state.inference and is_inference(input):
        made._versions = None
        take_data(made, input)
    if here is not None:
        here.op(detach__default.op, (input,), (made,), None, begin, local.state)
    return made


@function
def detach_(input):
    return input.detach_()


@function
def conj(input):
    return conj__default(input) if input.is_complex() else input


METHODS["conj"] = conj


@both
def _conj(input):
    return conj(input)


@both
def resolve_conj(input):
    """The tensor itself, or a copy without the conj bit."""
    return _resolved(input) if bits_of(input).conj else input


@both
def resolve_neg(input):
    """The tensor itself, or a copy without the neg bit."""
    return _resolved(input) if bits_of(input).neg else input


def _resolved(input):
    input._versions.mirror.refresh()
    return w.clone(input)


@method
def _view_func(self, new_base, symint_visitor_fn=None, tensor_visitor_fn=None):
    """The same view of another base with the same layout, or None."""
    return taken_again(self, new_base, symint_visitor_fn)


@method
def _view_func_unsafe(self, new_base, symint_visitor_fn=None, tensor_visitor_fn=None):
    """The same view of any base."""
    return taken_again(self, new_base, symint_visitor_fn, anyhow=True)


@method
def is_conj(self):
    return bits_of(self).conj


@method
def is_neg(self):
    return bits_of(self).neg


def _real(self):
    if not self.is_complex():
        return self
    plain = conj(self) if bits_of(self).conj else self
    return view_as_real(plain).select(self.dim(), 0)


def _imag(self):
    if not self.is_complex():
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    if bits_of(self).conj:
        return _neg_view(view_as_real(conj(self))).select(self.dim(), 1)
    return view_as_real(self).select(self.dim(), 1)


def _write_part(part):
    def write(self, value):
        window = part(self)
        copy_(window, wrapped_value(window, value))

    return write


@function
def real(input):
    return _real(input)


@function
def imag(input):
    return _imag(input)


METHODS["real"] = property(_real, _write_part(_real))
METHODS["imag"] = property(_imag, _write_part(_imag))
