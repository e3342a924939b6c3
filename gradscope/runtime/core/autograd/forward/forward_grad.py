"""Tangents of tensors while a dual level is open, and which tensors share one.

# Note [Tangents of views]
A view's tangent is the same view of its base's tangent. For a view of a dual tensor this holds from
the start. If a write sets the tangent of a view whose base has none, the base gets a zero tangent,
and the view a view of it. If the base gets a tangent after the view was created, the view finds its
own on the next access. The results of `make_dual` and `unpack_dual` are views for backward only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.runtime.core.errors.engine import dual_tensors as errors
from gradscope.runtime.core.rows.operation import REGISTRY
from gradscope.runtime.core.state import upward
from gradscope.runtime.core.state.thread import ThreadState, local
from gradscope.runtime.core.state.weak_sets import Alive
from gradscope.runtime.core.tensors.memory.bits import PLAIN, bits_of, turned
from gradscope.runtime.core.tensors.memory.storage import Storage, strided
from gradscope.runtime.core.tensors.tensor.autograd_meta import AutogradMeta, OddMeta, ViewMeta
from gradscope.runtime.core.tensors.views.windows import replay_tensors
from gradscope.runtime.core.tensors.wrapping import wrap

if TYPE_CHECKING:
    from gradscope.runtime.core.tensors.tensor.tensor import Tensor


class ForwardGrad:
    """Holds a tensor's tangent, until the level is closed."""

    __slots__ = ("__weakref__", "tangent")

    def __init__(self, tangent: Tensor) -> None:
        self.tangent: Tensor | None = tangent


class ForwardADLevel:
    """An open level. It knows all tangents created in it, and releases them."""

    open: ForwardADLevel | None = None

    def __init__(self) -> None:
        self.held: Alive[ForwardGrad] = Alive()

    def enter(self) -> None:
        """From now on, calls of all threads check for tangents."""
        if ForwardADLevel.open is not None:
            raise errors.nested()
        ForwardADLevel.open = self
        _run_calls(upward.call_with_tangents)

    def exit(self) -> None:
        ForwardADLevel.open = None
        _run_calls(None)
        for grad in list(self.held):
            grad.tangent = None
        self.held.clear()


def _run_calls(runner: Any) -> None:
    """Set what runs calls of all threads: a function for tangents, or None for the fast path."""
    ThreadState.with_tangents = runner
    for state in list(ThreadState.all):
        state.refresh()


def fw_grad(tensor: Tensor) -> Tensor | None:
    """The tensor's tangent; None while forward mode is off."""
    meta = tensor._meta
    if meta is None or not local.state.fw_grad_enabled:
        return None
    held = meta.fw_grad
    if held is not None and held.tangent is not None:
        tangent: Tensor = held.tangent
        return tangent
    return _of_view(meta) if meta.is_view and ForwardADLevel.open is not None else None


def _of_view(meta: Any) -> Tensor | None:
    """A view of the tangent that the base of a view received later."""
    view = _forward_view(meta)
    base = None if view is None else fw_grad(view[0])
    if view is None or base is None:
        return None
    with plainly():
        made: Tensor = replay_tensors(base, view[1])
    _hold(meta, made)
    return made


def _forward_view(meta: AutogradMeta) -> tuple[Tensor, tuple[Any, ...]] | None:
    """The tensor whose tangent a view shares, and the steps from there to the view."""
    if not isinstance(meta, ViewMeta):
        return None
    if not isinstance(meta, OddMeta):
        return meta.base, meta.chain
    if meta.forward is None:
        return None
    base, steps = meta.forward
    return base, meta.chain[steps:]


def forward_base(tensor: Tensor) -> Tensor | None:
    """The tensor whose tangent is the base of this view's tangent, if any."""
    view = None if tensor._meta is None else _forward_view(tensor._meta)
    return None if view is None else view[0]


def set_fw_grad(tensor: Tensor, tangent: Tensor, *, written: bool = False) -> None:
    """Set a tensor's tangent. `written`: by an in-place operation."""
    if fw_grad(tangent) is not None:
        raise errors.dual_tangent(tangent)
    meta = tensor.meta()
    if meta.fw_grad is not None and meta.fw_grad.tangent is not None:
        return  # the write changed the tangent in place
    if tangent._array.shape != tensor._array.shape:
        raise errors.shape(tensor, tangent)
    if written and meta.is_view:
        with plainly():
            tangent = _through_base(meta, tensor, tangent)
    if not has_same_meta(tangent, tensor):
        with plainly():
            tangent = _laid_out_as(tensor, tangent).copy_(tangent)
    _hold(meta, tangent)


def _through_base(meta: AutogradMeta, tensor: Tensor, tangent: Tensor) -> Tensor:
    """Set the tangent of a view by a write: a view of a new tangent of its base."""
    view = _forward_view(meta)
    if view is None or fw_grad_of(view[0]) is not None:
        return tangent
    base, chain = view
    whole = tangent
    if not (has_same_meta(tangent, base) and has_same_meta(tangent, tensor)):
        whole = _laid_out_as(base, base)
        window = replay_tensors(whole, chain)
        tangent = window.copy_(tangent)
    set_fw_grad(base, whole)
    return tangent


def fw_grad_of(tensor: Tensor) -> Tensor | None:
    """The tensor's own tangent, also while forward mode is off."""
    held = None if tensor._meta is None else tensor._meta.fw_grad
    return None if held is None else held.tangent


def _hold(meta: AutogradMeta, tangent: Tensor) -> None:
    level = ForwardADLevel.open
    if level is None:
        raise errors.level_gone()
    meta.fw_grad = ForwardGrad(tangent)
    level.held.add(meta.fw_grad)


def has_same_meta(tensor: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same layout in storages of the same size."""
    one, two = tensor._array, other._array
    if bits_of(tensor) != bits_of(other):
        return False
    if one.shape != two.shape:
        return False
    if _fills(one) and _fills(two):
        return True
    return (
        _numel(tensor) == _numel(other)
        and (not one.size or tensor.storage_offset() == other.storage_offset())
        and all(
            size == 1 or here == there
            for size, here, there in zip(one.shape, tensor.stride(), other.stride(), strict=True)
        )
    )


def _fills(array: np.ndarray[Any, Any]) -> bool:
    """Whether an array fills its own storage in row-major order, as most do."""
    return array.base is None and array.flags.c_contiguous


def _numel(tensor: Tensor) -> int:
    return tensor.untyped_storage().nbytes() // tensor._array.itemsize


def _laid_out_as(tensor: Tensor, kind: Tensor) -> Any:
    """Zeros with the layout of `tensor` and the dtype of `kind`, in a storage of the same size."""
    dtype = kind._array.dtype
    memory = Storage(np.zeros(_numel(tensor), dtype), tensor.untyped_storage().device)
    array = strided(memory, dtype, tensor._array.shape, tensor.stride(), tensor.storage_offset())
    made = wrap(array)
    made._storage = memory
    bits = bits_of(tensor)
    if bits != PLAIN:
        made._array, made._storage, made._versions = turned(made, bits)
    return made


class plainly:  # noqa: N801  (a context manager, used like `no_grad`)
    """The context in which tangents are computed: no nested tangents, no users' modes."""

    __slots__ = ("before",)

    def __enter__(self) -> None:
        state = local.state
        self.before = (
            state.fw_grad_enabled,
            state.overrides_disabled,
            state.function_modes,
            state.formula,
        )
        state.fw_grad_enabled, state.overrides_disabled = False, True
        state.function_modes, state.formula = [], True
        state.refresh()

    def __exit__(self, *error: object) -> None:
        state = local.state
        (
            state.fw_grad_enabled,
            state.overrides_disabled,
            state.function_modes,
            state.formula,
        ) = self.before
        state.refresh()


def make_dual(primal: Tensor, tangent: Tensor) -> Tensor:
    """A view of `primal` with this tangent. Writes to it do not change the tangent of `primal`."""
    if fw_grad(primal) is not None:
        raise errors.already_dual(primal)
    with plainly():
        made: Tensor = REGISTRY["_make_dual"].road(primal)
    _cut(made)
    set_fw_grad(made, tangent)
    return made


def fw_primal(tensor: Tensor) -> Tensor:
    """A view of a tensor without its tangent."""
    with plainly():
        made: Tensor = REGISTRY["_fw_primal"].road(tensor)
    _cut(made)
    return made


def _cut(view: Tensor) -> None:
    """Let a view share no tangent with its base."""
    meta = view._meta
    if isinstance(meta, ViewMeta):
        meta.__class__ = OddMeta
        meta.forward = None
