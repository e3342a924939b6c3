"""Views with a conj or neg bit: how they are attached to their base."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gradscope.runtime.core.state.thread import ThreadState
from gradscope.runtime.core.tensors.memory.bits import Bits, turned
from gradscope.runtime.core.tensors.tensor.autograd_meta import OddMeta, ViewMeta
from gradscope.runtime.core.tensors.views.views import attach_view

if TYPE_CHECKING:
    from gradscope.runtime.core.tensors.tensor.tensor import Tensor


def attach_turned(bits: Bits) -> Callable[..., None]:
    """A function that makes the result of a row a view with these bits changed."""

    def attach(
        made: Tensor,
        source: Tensor,
        op: Any,
        options: tuple[Any, ...],
        node: Any,
        state: ThreadState,
    ) -> None:
        made._array = source._array[...]
        attach_view(made, source, op, options, node, state)
        made._array, made._storage, made._versions = turned(source, bits)
        meta = made._meta
        if meta.__class__ is ViewMeta:
            meta.__class__ = OddMeta
            meta.forward = (meta.base, 0)

    return attach
