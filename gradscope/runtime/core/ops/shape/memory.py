"""Changes of a tensor's memory, in place: resize_, addbmm_ and set_.

PyTorch lets a storage grow under all its tensors. An array cannot: a tensor that needs more memory
moves to new memory with its content, and other tensors keep the old memory.
"""

from __future__ import annotations

from math import prod

import numpy as np

from gradscope.runtime.core import probe
from gradscope.runtime.core.autograd.forward.forward_grad import fw_grad
from gradscope.runtime.core.calls.declare import METHOD_ONLY, family, op
from gradscope.runtime.core.dtypes import memory_formats as formats
from gradscope.runtime.core.dtypes.names import c_name
from gradscope.runtime.core.errors.engine.dual_tensors import not_implemented
from gradscope.runtime.core.errors.engine.in_place import resize_with_grad, set_without_derivative
from gradscope.runtime.core.errors.memory import allocated
from gradscope.runtime.core.graph.new_node import prepare
from gradscope.runtime.core.graph.node import NOWHERE, Node, new
from gradscope.runtime.core.ops.products import matrix_products
from gradscope.runtime.core.rows.offered import method
from gradscope.runtime.core.state.thread import local
from gradscope.runtime.core.tensors.dims import sizes
from gradscope.runtime.core.tensors.memory.storage import Storage, strided
from gradscope.runtime.core.tensors.memory.typed_storage import TypedStorage
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.core.tensors.views.in_place import ANYWHERE, check_inplace, count_write
from gradscope.runtime.core.tensors.views.views import edge_of, rebase_history

resize___default = op(None, lambda self: self, METHOD_ONLY)
set___default = op(None, lambda self: self, METHOD_ONLY)
family(globals())


class NotImplemented(Node):
    """The node of a tensor that was set to other memory: it has no derivative."""

    __slots__ = ()

    def run_arrays(self, grads):
        raise set_without_derivative()

    run_tensors = run_arrays


def _laid(tensor, storage, size, stride, offset):
    """Make a tensor a view of this storage, or of a larger copy of it."""
    tensor.meta().reshaped = True
    dtype = tensor._array.dtype
    reach = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True)) + 1
    wanted = 0 if 0 in size else reach * dtype.itemsize
    if wanted > storage.nbytes():
        larger = allocated(np.zeros, (wanted,), np.uint8)
        larger[: storage.nbytes()] = Storage(storage.array).bytes()
        storage = Storage(larger, storage.device)
    tensor._array = strided(storage, dtype, size, stride, offset)
    tensor._storage = storage


MOST = 2**63 - 1
"""Largest number of elements of a tensor, a 64-bit integer."""


def _rows(size):
    """Row-major strides."""
    return tuple(prod(size[dim + 1 :]) for dim in range(len(size)))


@method
def resize_(self, *size, memory_format=None):
    """Change the sizes of a tensor in place; elements may be added or removed."""
    if not size:
        raise TypeError('resize_() missing 1 required positional arguments: "size"')
    state, here = local.state, probe.here
    if self.requires_grad and not state.inference:
        raise resize_with_grad(self)
    begin = here.clock() if here is not None else 0
    wanted = sizes(size)
    if prod(wanted) > MOST:
        raise RuntimeError("numel: integer multiplication overflow")
    steps = _rows(wanted) if memory_format is None else formats.strides(wanted, memory_format)
    if wanted != self._array.shape or (memory_format is not None and steps != self.stride()):
        _laid(self, self.untyped_storage(), wanted, steps, self.storage_offset())
        count_write(self, resize___default.op)
    if here is not None:
        here.wrote(resize___default.op, (self,), self, None, begin, state)
    return self


@method
def resize_as_(self, the_template, *, memory_format=None):
    if memory_format is formats.preserve_format:
        memory_format = formats.suggested(the_template._array)
    return resize_(self, the_template._array.shape, memory_format=memory_format)


@method
def addbmm_(self, batch1, batch2, *, beta=1, alpha=1):
    """As its row; a target that needs broadcasting is first expanded."""
    given = (self, batch1, batch2)
    if all(isinstance(each, Tensor) for each in given):
        size = _sum_of_products(*(each._array for each in given))
        if size is not None:
            check_inplace(self, given, local.state, ANYWHERE)
            _spread(self, size)
    return matrix_products.addbmm_(self, batch1, batch2, beta=beta, alpha=alpha)


def _sum_of_products(target, batch1, batch2):
    """The sizes of the result, if the target needs and allows expanding."""
    if not batch1.ndim == batch2.ndim == 3 or {batch1.dtype, batch2.dtype} != {target.dtype}:
        return None
    size = batch1.shape[1], batch2.shape[2]
    fits = len(batch1) == len(batch2) and batch1.shape[2] == batch2.shape[1]
    sizes = zip(reversed(target.shape), reversed(size), strict=False)
    can = target.ndim <= 2 and all(own in (1, wanted) for own, wanted in sizes)
    return size if fits and can and target.shape != size else None


def _spread(tensor, size):
    """Expand in place within one memory, row by row, as PyTorch: rows may read earlier ones."""
    steps = [0 if n == 1 else step for n, step in zip(tensor.shape, tensor.stride(), strict=True)]
    offset = tensor.storage_offset()
    _laid(tensor, tensor.untyped_storage(), size, _rows(size), offset)
    spread = strided(
        tensor._storage, tensor._array.dtype, size, (*[0] * (2 - len(steps)), *steps), offset
    )
    for row, values in zip(tensor._array, spread, strict=True):
        row[...] = values


@method
def set_(self, source=None, storage_offset=0, size=None, stride=None):
    """Make the tensor a view of other memory: another tensor's, a storage's, or none."""
    state, here = local.state, probe.here
    begin = here.clock() if here is not None else 0
    check_inplace(self, (self, source), state, ANYWHERE)
    if any(isinstance(t, Tensor) and fw_grad(t) is not None for t in (self, source)):
        raise not_implemented("set_")
    joined = [t for t in (self, source) if isinstance(t, Tensor) and state.grad_enabled]
    edges = [edge_of(tensor) for tensor in joined]
    if isinstance(source, Tensor):
        if source._array.dtype != self._array.dtype:
            raise RuntimeError(
                f"Could not set tensor of type {c_name(source._array)} to a tensor of type "
                f"{c_name(self._array)}"
            )
        _set(self, source, storage_offset, size, stride)
    elif source is None:
        self._array, self._storage = np.empty(0, self._array.dtype), None
    elif isinstance(source, Storage | TypedStorage):
        source = source.untyped() if isinstance(source, TypedStorage) else source
        _set_storage(self, source, storage_offset, size, stride)
    else:
        raise TypeError(
            "set_() received an invalid combination of arguments - got "
            f"({type(source).__name__}), but expected one of:\n * ()\n * (Tensor source)\n"
            " * (torch.Storage source)"
        )
    count_write(self, set___default.op)
    if self._meta is not None:
        self._meta.accumulator = None  # it would accept gradients of the old sizes
    node = None
    if any(edges):
        node = new(NotImplemented)
        prepare(node, [edge or NOWHERE for edge in edges], state)
        node.input_metadata = ((self._array.shape, self._array.dtype),)
        rebase_history(self, node)
    if here is not None:
        given = (self, source) if isinstance(source, Tensor) else (self,)
        here.wrote(set___default.op, given, self, node, begin, state)
    return self


def _set(self, source, offset, size, stride):
    storage = source.untyped_storage()
    if size is None:
        self._array, self._storage = source._array, storage
        return
    size = tuple(size)
    _laid(self, storage, size, _rows(size) if stride is None else tuple(stride), offset)


def _set_storage(self, storage, offset, size, stride):
    count = storage.nbytes() // self._array.itemsize
    size = (count,) if size is None else tuple(size)
    _laid(self, storage, size, tuple(stride) if stride else _rows(size), offset)
