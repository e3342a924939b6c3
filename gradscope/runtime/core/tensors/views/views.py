"""Views, and how a write through one changes the history of others.

# Note [Whose history a write changes]
A write through a view changes its base: the base's history becomes a CopySlices node at once. Other
views of that base are updated on next use: their version differs from the counter's, so they get a
new history, a strided view of the base's new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import RLock
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from gradscope.runtime.core import probe
from gradscope.runtime.core.errors.engine.in_place import write_to_expanded
from gradscope.runtime.core.graph.new_node import prepare
from gradscope.runtime.core.graph.node import NOWHERE, Node, new
from gradscope.runtime.core.graph.run_node import apply
from gradscope.runtime.core.rows.operation import REGISTRY
from gradscope.runtime.core.state import upward
from gradscope.runtime.core.state.array_calls import layout_only
from gradscope.runtime.core.state.thread import ThreadState, local
from gradscope.runtime.core.tensors.memory.overlap import repeats
from gradscope.runtime.core.tensors.memory.storage import InferenceCounter, Storage, VersionCounter
from gradscope.runtime.core.tensors.placement import mark, wrapped_on
from gradscope.runtime.core.tensors.saved import saved_variable as saved
from gradscope.runtime.core.tensors.tensor.autograd_meta import (
    AutogradMeta,
    CreationMeta,
    OddMeta,
    ViewMeta,
)
from gradscope.runtime.core.tensors.views.in_place import refusal
from gradscope.runtime.core.tensors.views.inference import is_inference
from gradscope.runtime.core.tensors.views.windows import (
    Chain,
    OddWindow,
    Window,
    replay_arrays,
    replay_tensors,
)

if TYPE_CHECKING:
    from gradscope.runtime.core.tensors.tensor.tensor import Tensor

Edges = tuple[Any, int]


def edge_of(tensor: Tensor) -> Edges | None:
    """The edge of a gradient of `tensor`, for tensors whose history is not simply `_edge`."""
    meta = tensor._meta
    if meta is None:
        return tensor._edge
    if meta.is_view:
        edge = view_edge(tensor, meta)  # type: ignore[arg-type]
        if edge is not None or not tensor.requires_grad:
            return edge
        if not meta.requires_grad:  # created without grad, of a base that requires it
            return NOWHERE
    elif tensor._edge is not None or not meta.requires_grad:
        return tensor._edge
    held = meta.accumulator
    node = held() if held is not None else None
    return (_new_accumulator(tensor, meta) if node is None else node), 0


def accumulator(tensor: Tensor) -> Node:
    """The leaf's node that accumulates its gradient. It lives as long as a graph references it."""
    meta = tensor._meta
    assert meta is not None
    held = meta.accumulator
    node = held() if held is not None else None
    return _new_accumulator(tensor, meta) if node is None else node


_accumulating = RLock()


def renew_lock() -> None:
    """Replace the lock in a forked child, where its holder does not exist."""
    global _accumulating  # noqa: PLW0603
    _accumulating = RLock()


def _new_accumulator(tensor: Tensor, meta: AutogradMeta) -> Node:
    """Create one node for all threads."""
    with _accumulating:
        held = meta.accumulator
        node = held() if held is not None else None
        if node is None:
            node = upward.accumulator(tensor)
            if probe.here is not None:  # before other threads see the node
                probe.here.accumulator(node)
            meta.hold_accumulator(node)
        return node


@layout_only
def share(made: Tensor, source: Tensor) -> None:
    """Make `made` an alias of `source`: the same memory and version counter."""
    if source._storage is None:
        source._storage = Storage(source._array)
    if source._versions is None:
        source._versions = VersionCounter()
    made._storage = source._storage
    made._versions = source._versions


@layout_only
def attach_view(
    made: Tensor,
    source: Tensor,
    op: Any,
    options: tuple[Any, ...],
    node: Any,
    state: ThreadState,
    nr: int = 0,
    creation: CreationMeta = CreationMeta.DEFAULT,
) -> None:
    """Make `made`, whose array is a view of the source's, a view for autograd."""
    array = made._array
    if not _window_on(array, source._array):
        made._versions = None
        made._storage = None
        if node is not None:
            made._edge = (node, nr)
        return
    share(made, source)
    parent = source._meta
    odd = not made._versions.tracks or (parent is not None and parent.is_inference)  # type: ignore[union-attr]
    if odd and is_inference(source):
        if made._versions.tracks:  # type: ignore[union-attr]
            made._versions = InferenceCounter()  # its views are none for autograd
        return
    if parent is not None and parent.is_view:
        base = parent.base  # type: ignore[attr-defined]
        made._versions = base._versions  # the source may have got another
        chain = (*parent.chain, (op, options, nr))  # type: ignore[attr-defined]
        inherited, again = parent.creation, parent.again  # type: ignore[attr-defined]
    else:
        base, chain, inherited = source, ((op, options, nr),), CreationMeta.DEFAULT
        again = ()
    if not state.grad_enabled:
        creation = CreationMeta.INFERENCE_MODE if state.inference else CreationMeta.NO_GRAD_MODE
    if not creation or inherited is CreationMeta.INFERENCE_MODE:
        creation = inherited
    meta = ViewMeta(base, chain, creation)
    if again or op.replayed or state.view_replay:
        meta.again = (*again, len(chain) - 1) if op.replayed or state.view_replay else again
    meta.version = made._versions.value  # type: ignore[union-attr]
    if node is not None:
        meta.edge = (node, nr)
    if parent.__class__ is OddMeta:
        parent.below(source, made, meta)
    made._meta = meta


def _window_on(array: Any, source: Any) -> bool:
    """Whether an array uses the memory of another, even if it has no elements."""
    base = array.base
    if base is None or base is source or base is source.base:
        return base is not None
    return not array.size or np.may_share_memory(array, source)


@layout_only
def attach_views(
    made: Sequence[Tensor],
    source: Tensor,
    op: Any,
    options: tuple[Any, ...],
    node: Any,
    state: ThreadState,
) -> None:
    """Make several outputs of one call views of its input."""
    for nr, one in enumerate(made):
        one._edge = None
        attach_view(one, source, op, options, node, state, nr, CreationMeta.MULTI_OUTPUT_NODE)


def view_edge(view: Tensor, meta: ViewMeta) -> Edges | None:
    """The view's edge, updated if its aliases were modified."""
    if meta.edge is None and not meta.base.requires_grad:
        return None
    current = view._version
    if meta.version != current:
        if meta.creation is not CreationMeta.DEFAULT:
            raise refusal(view, meta, "its base or another view of its base has been")
        before, meta.edge = meta.edge, _regenerated(view, meta)
        _follow(meta, before, meta.edge)
        meta.version = current
    return meta.edge


class AsStridedBackward0(Node):
    """The node of a view whose base was modified: a strided view of the base."""

    __slots__ = ("window",)
    slots = ("size", "stride", "storage_offset")
    releases = False
    window: Window

    def run_arrays(self, grads: Sequence[Any]) -> Sequence[Any]:
        shape = self._wanted()
        unwanted = shape is None or grads[0] is None
        return (None if unwanted else self.window.spread(grads[0], shape),)

    def run_tensors(self, grads: Sequence[Any]) -> Sequence[Any]:
        shape = self._wanted()
        unwanted = shape is None or grads[0] is None
        return (
            None if unwanted else REGISTRY["window_backward"].road(grads[0], shape, self.window),
        )

    def _wanted(self) -> Any:
        """The base's shape, if the base requires grad."""
        base, nr = self.next_functions[0]
        return None if base is None else base.input_metadata[nr][0]


@layout_only
def _regenerated(view: Tensor, meta: ViewMeta) -> Edges:
    """A new history for a view: one strided view of its base, except for operations called again.

    From the first of these on, every view of the chain is called separately, as in PyTorch.
    """
    again = meta.again
    if not again:
        return _strided(view, meta.base, meta.chain), 0
    state, first = local.state, min(again)
    before, state.grad_enabled = state.grad_enabled, True
    try:
        found: Any = meta.base
        if first:
            found = _taken(found, meta.chain[:first])
        for place in range(first, len(meta.chain)):
            step = meta.chain[place : place + 1]
            found = replay_tensors(found, step) if place in again else _taken(found, step)
    finally:
        state.grad_enabled = before
    edge: Edges = found.gradient_edge()
    return edge


def _taken(source: Any, chain: Chain) -> Any:
    """A tensor that is a part of another, with a strided view as its history."""
    made = new(source.__class__)
    made._array = replay_arrays(source._array, chain)
    made._storage, made._versions = source.untyped_storage(), source._versions
    made._meta, made.record_nr = None, 0
    made._edge = (_strided(made, source, chain), 0)
    return made


def _strided(view: Tensor, source: Tensor, chain: Chain) -> Node:
    node = new(AsStridedBackward0)
    prepare(node, (edge_of(source) or NOWHERE,), local.state)
    node.window = Window(source, chain, view)
    node.input_metadata = ((view._array.shape, view._array.dtype),)
    mark(node, view)
    node._saved = (view._array.shape, view.stride(), view.storage_offset())
    return node


class CopySlices(Node):
    """The node of a base that was modified through a view.

    It saves the node of the write, which receives the part of the gradient that belongs to the
    view, and releases it like any saved value.
    """

    __slots__ = ("window",)
    window: Window

    @property
    def fn(self) -> Node:
        """The node of the write."""
        if self._saved is None:
            saved.freed(self)
        return cast("Node", self._saved[0])

    def run_arrays(self, grads: Sequence[Any]) -> Sequence[Any]:
        fn = self.fn
        if grads[0] is None:
            return (None,) * len(self.next_functions)
        result = self.window.copied(grads[0])
        if repeats(result):
            raise write_to_expanded(saved.Tensor.from_array(result))
        window = self.window.on_array(result)
        found = apply(fn, (np.array(window),), raw=True)
        if not self._wants_the_bases():
            return (None, *found[1:])
        if repeats(window):
            raise write_to_expanded(saved.Tensor.from_array(window))
        first = found[0] if len(found) else None
        self.window.put(result, window, 0 if first is None else first)
        return (result, *found[1:])

    def run_tensors(self, grads: Sequence[Any]) -> Sequence[Any]:
        fn = self.fn
        if grads[0] is None:
            return (None,) * len(self.next_functions)
        result = self._blank(grads[0]).copy_(grads[0])
        window = self.window.on_tensor(result)
        found = apply(fn, (window.clone(),), raw=False)
        if not self._wants_the_bases():
            return (None, *found[1:])
        if not found or found[0] is None:
            window.zero_()
        else:
            window.copy_(found[0])
        return (result, *found[1:])

    def _wants_the_bases(self) -> bool:
        """Whether the running backward needs the gradient of the base's old value."""
        base, task = self.next_functions[0][0], local.state.task
        if base is None or task is None or task.exec_info is None:
            return base is not None
        entry = task.exec_info.get(base)
        return entry is not None and entry.should_execute()

    def _blank(self, grad: Any) -> Any:
        """A tensor with the layout of the base."""
        return wrapped_on(self.window.blank(grad._array.shape, grad._array.dtype), grad.device)


def set_gradient_edge(tensor: Tensor, node: Node, nr: int) -> None:
    """Make this output of a node the history of a tensor."""
    meta = tensor._meta
    if meta is None or not meta.is_view:
        tensor._edge = (node, nr)
        return
    meta.edge = (node, nr)  # type: ignore[attr-defined]
    meta.version = tensor._version  # type: ignore[attr-defined]


def rebase_history(target: Tensor, node: Node, nr: int = 0) -> None:
    """Set the new history of a modified tensor: Note [Whose history a write changes]."""
    meta = target._meta
    if meta is None or not meta.is_view:
        before, target._edge = target._edge, (node, nr)
        if meta is not None:
            _follow(meta, before, target._edge)
        return
    base = meta.base  # type: ignore[attr-defined]
    slices = new(CopySlices)
    edges = [edge_of(base) or NOWHERE, *node.next_functions[1:]]
    prepare(slices, edges, local.state)
    slices._saved = (node,)
    kind = Window if meta.__class__ is ViewMeta else OddWindow
    slices.window = kind(base, meta.chain, target)  # type: ignore[attr-defined]
    slices.input_metadata = ((base._array.shape, base._array.dtype),)
    mark(slices, base)
    # The write's own first edge leads to the view's old history, which a second derivative of a
    # saved value may need. The base's edge says whether its gradient is wanted.
    if slices.next_functions[0][0] is None:
        node.next_functions = (NOWHERE, *node.next_functions[1:])
    before, base._edge = base._edge, (slices, 0)
    if base._meta is not None:
        _follow(base._meta, before, base._edge)
    meta.version = -1  # type: ignore[attr-defined]
    view_edge(target, meta)  # type: ignore[arg-type]


def _follow(meta: AutogradMeta, before: Edges | None, after: Edges) -> None:
    """Hooks stay with their old history. A retained gradient follows the tensor."""
    meta.hooks = None
    if meta.retains_grad and before is not None:
        node, nr = before
        kept = node.extra().retains_grad.pop(nr, None)
        if kept is not None:  # it stays if dims of the tensor itself were changed
            after[0].extra().retains_grad[after[1]] = kept
