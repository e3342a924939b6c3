"""Saved variables: values saved for backward, version checks, and unpacking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from gradscope.runtime.core import probe
from gradscope.runtime.core.dtypes.names import error_name
from gradscope.runtime.core.errors.engine import saved_values as errors
from gradscope.runtime.core.graph.node import BEING_MADE, Node, new, operation_name
from gradscope.runtime.core.state.array_calls import layout_only
from gradscope.runtime.core.state.thread import local
from gradscope.runtime.core.tensors.memory.storage import Storage, VersionCounter
from gradscope.runtime.core.tensors.views.inference import refuse_saving

if TYPE_CHECKING:
    from gradscope.runtime.core.state.thread import ThreadState
    from gradscope.runtime.core.tensors.tensor.tensor import Tensor as TensorType

Tensor: Any = None
"""The tensor class, set by tensor.py when it is defined."""

NOTHING = object()

PACK, UNPACK = 6, 7
"""Kinds of these hooks, as reported to a watcher."""


class SavedVariable:
    """A saved value and its version.

    An input is saved as the tensor itself, so that it unpacks to the same object. An output is
    saved as array, counter and edge, and unpacks to another tensor with the same node: saving the
    tensor would create a reference cycle with its own node.
    """

    __slots__ = (
        "array",
        "edge",  # of an input that a hook packed; of an output written through a view: weak
        "fw_grad",
        "hooks",
        "is_leaf",
        "nr",
        "packed",
        "tensor",
        "version",
        "versions",
    )

    _versions = NOTHING  # roads pass values with their own counter to `unpack_array`

    def __init__(self) -> None:
        self.tensor: TensorType | None = None
        self.array: np.ndarray[Any, Any] | None = None
        self.versions: VersionCounter | None = None
        self.version = 0
        self.nr: int | None = None
        self.hooks: tuple[Any, Any] | None = None
        self.packed: Any = None
        self.edge: Any = None
        self.fw_grad: Any = None  # of an input that a hook packed
        self.is_leaf = False

    @property
    def current_version(self) -> int:
        versions = self.tensor._versions if self.tensor is not None else self.versions
        return 0 if versions is None else versions.value

    def pack_again(self, hooks: tuple[Any, Any]) -> None:
        """Pack the saved value. These hooks receive it detached."""
        tensor = self.tensor
        if tensor is None:
            bare = Tensor.from_array(self.array)
            bare._versions = self.versions
        else:
            _remember(self, tensor)
            bare = tensor.detach()
        pack(self, bare, hooks)


@layout_only
def save_input(tensor: Any, state: ThreadState) -> Any:
    """Save an input. None and Python numbers are saved unchanged."""
    if tensor is None or not isinstance(tensor, Tensor):
        return tensor
    versions = tensor._versions
    if versions is not None:
        refuse_saving(tensor)
    saved = new(SavedVariable)
    saved.tensor = tensor
    saved.array = None
    saved.versions = None
    saved.version = 0 if versions is None else versions.value
    saved.nr = None
    saved.hooks = None
    saved.edge = None
    saved.is_leaf = tensor._edge is None
    if state.saved_hooks and "wrapped_number" not in tensor.__dict__:
        _remember(saved, tensor)
        pack(saved, tensor, state.saved_hooks[-1])
    return saved


@layout_only
def save_output(tensor: Any, node: Node, nr: int, state: ThreadState) -> SavedVariable:
    """Save an output of `node` without a reference to the tensor."""
    if tensor._versions is None:
        tensor._versions = versions = new(VersionCounter)
        versions.value = 0
    else:
        versions = tensor._versions
        refuse_saving(tensor)
    saved = new(SavedVariable)
    saved.tensor = None
    saved.array = tensor._array
    saved.versions = versions
    saved.version = versions.value
    saved.nr = nr
    saved.hooks = None
    saved.edge = None
    if state.saved_hooks:
        _let_see_its_node(tensor, node, nr)
        node.record_nr = BEING_MADE
        try:
            pack(saved, tensor, state.saved_hooks[-1])
        finally:
            node.record_nr = 0
    return saved


def _let_see_its_node(tensor: Any, node: Any, nr: int) -> None:
    """Attach the node to an output that a pack hook receives."""
    op = getattr(node, "op", None)
    if op is None or tensor._edge is not None or tensor._meta is not None:
        return
    if nr not in op.plan.nondifferentiable_outputs and tensor._array.dtype.kind in "fcV":
        node._saved, node._extra, node.input_metadata = (), None, ()
        tensor._edge = (node, nr)


@layout_only
def pack(saved: SavedVariable, tensor: Any, hooks: tuple[Any, Any]) -> None:
    """Call a pack hook with a value, and save its result instead."""
    state, here = local.state, probe.here
    before = version_of(tensor)
    saved.hooks = hooks
    saved.packed = NOTHING  # until the hook returns
    saved.tensor = None
    saved.array = None
    if here is not None:
        here.hook_begins(state.task, state.node, PACK, 0, hooks[0])
    grad_enabled, state.grad_enabled = state.grad_enabled, False
    try:
        saved.packed = hooks[0](tensor)
    finally:
        state.grad_enabled = grad_enabled
        if here is not None:
            here.hook_ends(state.task, state.node, PACK, 0, False, ())
    if version_of(tensor) != before:
        raise errors.pack_hook_wrote(hooks[0])


def version_of(tensor: Any) -> int:
    versions = tensor._versions
    return 0 if versions is None else versions.value


def _remember(saved: SavedVariable, tensor: Any) -> None:
    """Store an input's edge, for the tensor that unpacking creates."""
    saved.is_leaf = tensor.is_leaf
    saved.edge = tensor.gradient_edge()
    saved.fw_grad = None if tensor._meta is None else tensor._meta.fw_grad


@layout_only
def unpack_array(node: Any, value: Any, slot: int) -> Any:
    """The array of a saved value, after checking its version."""
    if value.__class__ is SavedVariable:
        if value.hooks is not None:
            return _unhooked(value, node)._array
        if value.tensor is not None:
            cut = _has_no_history(value.tensor) and not value.is_leaf
            if cut and not (node is not None and node.written_by_user):
                raise errors.saved_detached(node, _slot_name(node, slot), value.tensor)
            if value.tensor._version != value.version:
                what = value if cut else value.tensor
                modified(node, what, value.version, value.tensor._version, slot)
            return value.tensor._array
        if value.current_version != value.version:
            modified(node, value, value.version, value.current_version, slot)
        return value.array
    if isinstance(value, Tensor):
        if _has_no_history(value) and value._meta is not None and value._meta.detached:
            raise errors.saved_detached(node, _slot_name(node, slot), value)
        if value._version != 0:
            modified(node, value, 0, value._version, slot)
        return value._array
    if value.__class__ is list:
        return [unpack_array(node, item, slot) for item in value]
    return value


def tell_reading(node: Any, value: Any, slot: int) -> None:
    """Report to a watcher that the program reads this. Hooks are reported separately."""
    here = probe.here
    if here is None:
        return
    for each in value if isinstance(value, list) else (value,):
        if isinstance(each, Tensor) or (isinstance(each, SavedVariable) and each.hooks is None):
            here.unpacked(node, each, slot)


def _has_no_history(tensor: Any) -> bool:
    """Whether a saved tensor is not a result. Updates a view whose base was modified."""
    if tensor._edge is None and tensor._meta is not None and tensor._meta.is_view:
        tensor.history()
    return tensor._edge is None


@layout_only
def unpack_tensor(node: Any, value: Any, slot: int) -> Any:
    """A saved value as a tensor with its node."""
    if value.__class__ is SavedVariable:
        if value.hooks is not None:
            return _with_history(_unhooked(value, node), value, node)
        array = unpack_array(node, value, slot)
        if value.tensor is not None:
            return value.tensor
        extra = None if node is None else node._extra
        made = _placed(Tensor.from_array(array), None if extra is None else extra.device)
        made._versions = value.versions
        made._edge = _history_of_output(value, node)
        if extra is not None and extra.tangents is not None:
            made.meta().fw_grad = extra.tangents.get(value.nr)
        return made
    if isinstance(value, Tensor):
        unpack_array(node, value, slot)
        return value
    if value.__class__ is list:
        return [unpack_tensor(node, item, slot) for item in value]
    return value.item() if isinstance(value, np.ndarray) else value


def _place_of_output(saved: SavedVariable, node: Any) -> tuple[Any, int | None]:
    """The edge of a saved output: the node that created it, or for a view its own while it lives.

    The node references the latter weakly, since it leads through the base back to the node.
    """
    held = None if saved.edge is None else saved.edge()
    return (node, saved.nr or 0) if held is None else (held, 0)


def _history_of_output(saved: SavedVariable, node: Any) -> tuple[Any, int | None] | None:
    """The same for an unpacked value; None for an output that requires no grad."""
    op = getattr(node, "op", None)
    if node is None or (op is not None and saved.nr in op.plan.nondifferentiable_outputs):
        return None
    return _place_of_output(saved, node)


@layout_only
def _placed(made: Any, where: Any) -> Any:
    """A detached tensor on a device."""
    if where is not None and where.type != "cpu":
        made._storage = Storage(made._array, where)
    return made


@layout_only
def _unhooked(saved: SavedVariable, node: Any) -> TensorType:
    """The result of an unpack hook."""
    assert saved.hooks is not None
    state, here = local.state, probe.here
    unpack = saved.hooks[1]
    if here is not None:
        here.unpacked(node, saved, None)
        here.hook_begins(state.task, node, UNPACK, 0, unpack)
    try:
        value = unpack() if saved.packed is NOTHING else unpack(saved.packed)
    finally:
        if here is not None:
            here.hook_ends(state.task, node, UNPACK, 0, False, ())
    if not isinstance(value, Tensor):
        raise errors.unpack_hook_type(saved.hooks[1], value)
    return value


@layout_only
def _with_history(value: Any, saved: SavedVariable, node: Any) -> Any:
    """A tensor with the unpacked data and the edge of the packed tensor, if it had one."""
    if saved.nr is None and saved.edge is None and saved.fw_grad is None:
        return value
    made = Tensor.from_array(value._array)
    made._storage, made._versions = value._storage, value._versions
    if saved.nr is not None:
        made._edge = _history_of_output(saved, node)
    elif saved.edge is not None and saved.edge[0] is not None:
        if saved.is_leaf:
            made.requires_grad_(True)
            made._meta.hold_accumulator(saved.edge[0])
        else:
            made._edge = saved.edge
    return _with_tangent(made, saved, node)


def _with_tangent(made: Any, saved: SavedVariable, node: Any) -> Any:
    """An unpacked value with the tangent that it had when saved, or got as a result."""
    if saved.nr is None:
        found = saved.fw_grad
    else:
        extra = None if node is None else node._extra
        found = None if extra is None or extra.tangents is None else extra.tangents.get(saved.nr)
    if found is not None:
        made.meta().fw_grad = found
    return made


def without_saved(node: Any) -> tuple[None, ...]:
    """The result of a node whose saved values are released: None, if no gradient is wanted.

    As in PyTorch, values that do not depend on the wanted gradients are read anyway, which raises.
    """
    plan = node.op.plan
    alone = len(plan.differentiable) == 1
    needed = any(function is not None for function, _ in node.next_functions)
    for slot in plan.slots:
        conditional = slot.kind == "input" and len(slot.wanted_by) == 1 and not alone
        if needed or not (conditional or slot.kind in {"option", "constant", "dtype", "shape"}):
            freed(node)
    return (None,) * len(node.next_functions)


def freed(node: Any) -> NoReturn:
    raise errors.freed(node)


def modified(node: Any, what: Any, expected: int, found: int, slot: int) -> NoReturn:
    """Raise the error for a saved tensor that was modified in place."""
    tensor = what if isinstance(what, Tensor) else what.tensor
    array = what.array if tensor is None else tensor._array
    place = ""
    if isinstance(what, Tensor):
        edge = None if what.is_leaf else what.gradient_edge()
    else:
        edge = _place_of_output(what, node)
    if edge is not None and edge[0] is not None:
        place = f", which is output {edge[1]} of {operation_name(edge[0])},"
    name = _slot_name(node, slot)
    what_kind = f"{error_name(array)} {_sizes(array)}"
    writes = what.versions if tensor is None else tensor._versions
    raise errors.modified_in_place(node, name, what_kind, place, writes, expected, found)


def _slot_name(node: Any, slot: int) -> str:
    return str(node.slots[slot]) if node is not None and node.slots else ""


def _sizes(array: np.ndarray[Any, Any]) -> str:
    return str(list(array.shape))
