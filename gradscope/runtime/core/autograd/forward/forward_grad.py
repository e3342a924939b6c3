"""The tangent a tensor carries while a dual level is open, and which tensors share one.

# Note [Tangents of views]
A view's tangent is the same view of its base's tangent. Made from a dual tensor it is that from the
start. When a write gives a tangent to a view whose base has none, the base gets one of zeros, and
the view a window on it; when the base was given one after the view was made, the view finds its
own when it is next asked. What `make_dual` and `unpack_dual` return is a view for backward only.
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
    """Where a tensor keeps its tangent, until the level is left."""

    __slots__ = ("__weakref__", "tangent")

    def __init__(self, tangent: Tensor) -> None:
        self.tangent: Tensor | None = tangent


class ForwardADLevel:
    """A level that is open: it knows all tangents that were made in it, and frees them."""

    open: ForwardADLevel | None = None

    def __init__(self) -> None:
        self.held: Alive[ForwardGrad] = Alive()

    def enter(self) -> None:
        """From now on every call of every thread looks for tangents."""
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
    """Let every thread's calls take the way that sees tangents, or the short one again."""
    ThreadState.with_tangents = runner
    for state in list(ThreadState.all):
        state.refresh()


def fw_grad(tensor: Tensor) -> Tensor | None:
    """The tensor's tangent; none where forward mode is switched off."""
    meta = tensor._meta
    if meta is None or not local.state.fw_grad_enabled:
        return None
    held = meta.fw_grad
    if held is not None and held.tangent is not None:
        tangent: Tensor = held.tangent
        return tangent
    return _of_view(meta) if meta.is_view and ForwardADLevel.open is not None else None


def _of_view(meta: Any) -> Tensor | None:
    """A window on the tangent that the view's base was given later."""
    view = _forward_view(meta)
    base = None if view is None else fw_grad(view[0])
    if view is None or base is None:
        return None
    with plainly():
        made: Tensor = replay_tensors(base, view[1])
    _hold(meta, made)
    return made


def _forward_view(meta: AutogradMeta) -> tuple[Tensor, tuple[Any, ...]] | None:
    """The tensor whose tangent a view shares, and the way from there to the view."""
    if not isinstance(meta, ViewMeta):
        return None
    if not isinstance(meta, OddMeta):
        return meta.base, meta.chain
    if meta.forward is None:
        return None
    base, steps = meta.forward
    return base, meta.chain[steps:]


def forward_base(tensor: Tensor) -> Tensor | None:
    """The tensor whose tangent this one's is a window on, if it is a view of one."""
    view = None if tensor._meta is None else _forward_view(tensor._meta)
    return None if view is None else view[0]


def set_fw_grad(tensor: Tensor, tangent: Tensor, *, written: bool = False) -> None:
    """Give a tensor its tangent; `written`: a write in place gave it."""
    if fw_grad(tangent) is not None:
        raise errors.dual_tangent(tangent)
    meta = tensor.meta()
    if meta.fw_grad is not None and meta.fw_grad.tangent is not None:
        return  # a write that has changed the tangent in place
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
    """The tangent a write gives to a view, as a window on a new tangent of the view's base."""
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
    """The tensor's own tangent, also where forward mode is switched off."""
    held = None if tensor._meta is None else tensor._meta.fw_grad
    return None if held is None else held.tangent


def _hold(meta: AutogradMeta, tangent: Tensor) -> None:
    level = ForwardADLevel.open
    if level is None:
        raise errors.level_gone()
    meta.fw_grad = ForwardGrad(tangent)
    level.held.add(meta.fw_grad)


def has_same_meta(tensor: Tensor, other: Tensor) -> bool:
    """Whether two tensors lie alike in storages of the same size: their views do too then."""
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
    """Whether an array fills a storage of its own, row after row, as most do."""
    return array.base is None and array.flags.c_contiguous


def _numel(tensor: Tensor) -> int:
    return tensor.untyped_storage().nbytes() // tensor._array.itemsize


def _laid_out_as(tensor: Tensor, kind: Tensor) -> Any:
    """Zeros that lie as `tensor` does, in a storage as large, of the dtype of `kind`."""
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
    """How tangents are computed: from tensors without theirs, and unseen by the user's modes."""

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
    """A view of `primal` that carries this tangent, and none of its writes' tangents back."""
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
