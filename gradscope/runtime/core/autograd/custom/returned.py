"""Connects the results of a custom function's forward to its node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.runtime.core.autograd.modes.grad_mode import no_grad
from gradscope.runtime.core.errors.engine import custom_functions as errors
from gradscope.runtime.core.graph.node import Node
from gradscope.runtime.core.rows.operation import REGISTRY
from gradscope.runtime.core.state import upward
from gradscope.runtime.core.state.thread import local
from gradscope.runtime.core.tensors.placement import mark
from gradscope.runtime.core.tensors.tensor.autograd_meta import CreationMeta
from gradscope.runtime.core.tensors.tensor.overriding import overrides
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.core.tensors.views.in_place import check_rebase, count_told_write
from gradscope.runtime.core.tensors.views.views import (
    attach_view,
    rebase_history,
    set_gradient_edge,
)
from gradscope.runtime.core.tensors.wrapping import wrap

if TYPE_CHECKING:
    from gradscope.runtime.core.autograd.custom.custom_node import BackwardCFunction

NO_GRADIENT = ((), np.dtype(np.float32))
"""The input metadata of an output that has no edge."""


def record_history(
    ctx: BackwardCFunction,
    inputs: Sequence[Any],
    outputs: tuple[Any, ...],
    *,
    recording: bool,
    separate: bool,
) -> tuple[Any, ...]:
    """The outputs for the caller, connected to `ctx` if they are recorded."""
    given = {id(tensor) for tensor in inputs}
    dirty = _written(_marked(ctx, "dirty_tensors"), ctx._forward_cls.__name__)
    constant = _constant(_marked(ctx, "non_differentiable"))
    if separate:
        _refuse_saved_inputs(ctx, given, outputs)
    tensors = [value for value in outputs if isinstance(value, Tensor)]
    differentiable = [
        recording and id(value) not in constant and value._array.dtype.kind in "fcV"
        for value in tensors
    ]
    several = len(outputs) > 1
    made: list[Any] = []
    metadata: list[Any] = []
    info: list[Any] = []
    flags = iter(differentiable)
    for nr, value in enumerate(outputs):
        if not isinstance(value, Tensor):
            made.append(value)
            metadata.append(NO_GRADIENT)
            info.append(None)
            continue
        wanted = next(flags)
        own = (value._array.shape, value._array.dtype)
        info.append(own if wanted or ctx._materialize_non_diff_grads else None)
        metadata.append(own if wanted else NO_GRADIENT)
        place = _Output(nr, id(value) in given, id(value) in dirty, several)
        made.append(place.differentiable(value, ctx) if wanted else place.constant(value))
        if wanted:
            mark(ctx, value)
    ctx.input_metadata = tuple(metadata)
    ctx.output_info = tuple(info)
    _views(made, given, dirty, MULTI if sum(differentiable) > 1 else CUSTOM)
    if not dirty <= {id(value) for value in outputs}:
        raise errors.dirty_not_returned()
    return tuple(made)


CUSTOM, MULTI = CreationMeta.IN_CUSTOM_FUNCTION, CreationMeta.MULTI_OUTPUT_NODE


class _Output:
    """One output that is a tensor, and how forward produced it."""

    __slots__ = ("is_dirty", "is_input", "nr", "several")

    def __init__(self, nr: int, is_input: bool, is_dirty: bool, several: bool) -> None:
        self.nr = nr
        self.is_input = is_input
        self.is_dirty = is_dirty
        self.several = several

    def constant(self, tensor: Any) -> Any:
        """The output without a node."""
        if not tensor.requires_grad:
            return alias(tensor) if self.is_input and not self.is_dirty else tensor
        if self.is_input:
            return tensor.detach()
        return tensor if tensor._is_view() else tensor.detach_()

    def differentiable(self, tensor: Any, node: Node) -> Any:
        """The output with this node."""
        if self.is_dirty:
            self._rewritten(tensor, node)
            return tensor
        made = alias(tensor) if self.is_input else tensor
        set_gradient_edge(made, node, self.nr)
        return made

    def _rewritten(self, tensor: Any, node: Node) -> None:
        if tensor.is_leaf_so_far() and tensor.requires_grad:
            raise errors.dirty_leaf(tensor)
        if not self.is_input:
            errors.dirty_not_input()
        if tensor._is_view() and self.several:
            raise errors.dirty_view(tensor)
        check_rebase(tensor)
        meta = tensor._meta
        if meta is not None:
            meta.grad = meta.hooks = meta.accumulator = None
        rebase_history(tensor, node, self.nr)


def _marked(ctx: BackwardCFunction, name: str) -> tuple[Any, ...]:
    """The tensors that forward marked in one way."""
    tensors = getattr(ctx, name)
    if tensors is not None and not isinstance(tensors, tuple):
        raise errors.marks_no_tuple(name, tensors)
    return tensors or ()


def _written(tensors: Sequence[Any], writer: str) -> set[int]:
    """The tensors that forward marked as dirty. Increments their versions."""
    for position, tensor in enumerate(tensors):
        if not isinstance(tensor, Tensor):
            raise errors.dirty_type(position, tensor)
        count_told_write(tensor, writer)
    return {id(tensor) for tensor in tensors}


def _constant(tensors: Sequence[Any]) -> set[int]:
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise errors.not_differentiable_type(tensor)
    return {id(tensor) for tensor in tensors}


def _refuse_saved_inputs(ctx: BackwardCFunction, given: set[int], outputs: Sequence[Any]) -> None:
    """Refuse to save an input that is also an output: with `setup_context` it is ambiguous."""
    saved = {id(tensor) for tensor in (*(ctx.to_save or ()), *(ctx.saved_for_forward or ()))}
    dirty = {id(tensor) for tensor in ctx.dirty_tensors or ()}
    if any(id(value) in (given & saved) - dirty for value in outputs):
        raise errors.saved_returned_input()


def _views(made: Sequence[Any], given: set[int], dirty: set[int], creation: CreationMeta) -> None:
    """Mark views among the outputs: a later write to one would bypass the custom backward."""
    for value in made:
        if not isinstance(value, Tensor) or not value._is_view():
            continue
        if creation is MULTI or id(value) not in given & dirty:
            value._meta.creation = creation  # type: ignore[union-attr]


def alias(tensor: Any) -> Any:
    """A view of the whole tensor, not recorded."""
    if overrides(type(tensor)) and not local.state.overrides_disabled:
        with no_grad():
            return upward.view_as(tensor)
    made = wrap(tensor._array[...])
    state = local.state
    before, state.grad_enabled = state.grad_enabled, False
    try:
        attach_view(made, tensor, REGISTRY["alias"], (), None, state)
    finally:
        state.grad_enabled = before
    return made
