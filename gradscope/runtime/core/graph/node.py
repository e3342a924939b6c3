"""Nodes of the backward graph: saved tensors, edges and hooks."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, ClassVar

from gradscope.runtime.core.devices.devices import CPU, device
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.errors.engine.leaves import copy_of_node
from gradscope.runtime.core.state import upward
from gradscope.runtime.core.state.hook_handles import RemovableHandle

if TYPE_CHECKING:
    from gradscope.runtime.core.rows.operation import Operation

new = object.__new__

NATIVE = frozenset({
    "AccumulateGrad", "CopyBackwards", "CopySlices", "Error", "GraphRoot", "Identity",
    "NotImplemented",
})  # fmt: skip
"""Nodes that are built into PyTorch's engine."""

NOWHERE: tuple[None, int] = (None, 0)
"""The edge of an input that needs no gradient."""

BEING_MADE = -1
"""The `record_nr` of a node whose call is still running."""

LAST = 2**64 - 1
"""AccumulateGrad's sequence number: above all others, so that it runs as soon as it is ready."""


class Extra:
    """Rarely used fields of a node: hooks and metadata of users and of anomaly mode."""

    __slots__ = (
        "conjugates",
        "device",
        "metadata",
        "post_hooks",
        "pre_hooks",
        "retains_grad",
        "tangents",
        "tensor_pre_hooks",
    )

    def __init__(self) -> None:
        self.pre_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self.post_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self.tensor_pre_hooks: list[tuple[int, OrderedDict[int, Callable[..., Any]]]] = []
        self.retains_grad: dict[int, Callable[..., Any]] = {}
        self.metadata: dict[Any, Any] = {}
        self.conjugates = False
        self.device: Any = None  # the node's device, if not the CPU
        self.tangents: dict[int, Any] | None = None

    def remember_tangent(self, nr: int, grad: Any) -> None:
        """Store the tangent of an output, for when a backward unpacks the output."""
        self.tangents = {**(self.tangents or {}), nr: grad}


class InputMetadata:
    """Shape and dtype of a gradient that a node receives."""

    __slots__ = ("_dtype", "_shape")

    _shape: tuple[int, ...]
    _dtype: Any

    def __init__(self) -> None:
        raise TypeError("torch._C._autograd._InputMetadata: No constructor defined!")

    @classmethod
    def _of(cls, shape: tuple[int, ...], numpy_dtype: Any) -> InputMetadata:
        made: InputMetadata = new(cls)
        made._shape, made._dtype = shape, numpy_dtype
        return made

    @property
    def shape(self) -> list[int]:
        return list(self._shape)

    @property
    def dtype(self) -> Any:
        return None if self._dtype is None else dtypes.from_numpy(self._dtype)

    @property
    def device(self) -> Any:
        return CPU

    @property
    def is_nested_tensor(self) -> bool:
        return False

    @property
    def is_cpp_nested_tensor(self) -> bool:
        return False


InputMetadata.__name__ = InputMetadata.__qualname__ = "_InputMetadata"
InputMetadata.__module__ = "torch._C._autograd"

OFFERED = (
    "_input_metadata", "_register_hook_dict", "_sequence_nr", "_set_sequence_nr", "metadata",
    "name", "next_functions", "register_hook", "register_prehook", "requires_grad", "variable",
)  # fmt: skip
"""What `dir` of a built-in node shows, besides saved attributes."""


def takes(count: int) -> Callable[[Callable[..., Any]], Any]:
    """Make a method refuse a wrong number of arguments as PyTorch's nodes do."""

    def decorate(method: Callable[..., Any]) -> Any:
        @wraps(method)
        def checked(self: Any, *given: Any, **named: Any) -> Any:
            if len(given) == count and not named:
                return method(self, *given)
            owner = "_FunctionBase" if self.written_by_user else type(self).__name__
            whole = f"{owner}.{method.__name__}()"
            if named:
                raise TypeError(f"{whole} takes no keyword arguments")
            wanted = "exactly one argument" if count else "no arguments"
            raise TypeError(f"{whole} takes {wanted} ({len(given)} given)")

        return checked

    return decorate


def shown(getter: Callable[[Any], Any]) -> Any:
    """A read-only property, with the error message of PyTorch's nodes."""

    def refuse(node: Node, *_value: Any) -> None:
        owner = "torch._C._FunctionBase" if node.written_by_user else type(node).__name__
        text = f"attribute '{getter.__name__}' of '{owner}' objects is not writable"
        raise AttributeError(text)

    return property(getter, refuse, refuse)


class Node:
    """A function of the backward graph.

    `next_functions` holds one (node, input_nr) pair for every gradient that the node returns.
    `input_metadata` holds the (shape, dtype) of every gradient that it receives. `_saved` holds
    what it saved for backward, and is None once released.
    """

    __slots__ = (
        "__weakref__",
        "_extra",
        "_saved",
        "input_metadata",
        "next_functions",
        "record_nr",
        "sequence_nr",
        "topological_nr",
    )

    slots: ClassVar[tuple[str, ...]] = ()
    releases: ClassVar[bool] = True
    """Whether it saves tensors, not only sizes and options. If so, it can run only once."""
    written_by_user: ClassVar[bool] = False

    next_functions: tuple[tuple[Any, int], ...]
    input_metadata: tuple[tuple[Any, Any], ...]
    sequence_nr: int
    topological_nr: int
    record_nr: int
    _saved: tuple[Any, ...] | None
    _extra: Extra | None

    @takes(0)
    def name(self) -> str:
        """The name in PyTorch. Nodes that belong to no operation include their namespace."""
        name = type(self).__name__
        return f"torch::autograd::{name}" if name in NATIVE else name

    def run_arrays(self, grads: Sequence[Any]) -> Sequence[Any]:
        """Compute the gradients of the inputs, on arrays."""
        raise NotImplementedError

    def run_tensors(self, grads: Sequence[Any]) -> Sequence[Any]:
        """The same on tensors, so that the backward itself is recorded."""
        raise NotImplementedError

    def release_variables(self) -> None:
        """Release what was saved. A node that saved nothing can run again."""
        if self._saved and self.releases:
            self._saved = None

    def __lt__(self, other: object) -> bool:
        """Nodes of equal priority are not ordered (see ready_queue)."""
        return False

    def extra(self) -> Extra:
        """The node's rarely used fields, created on first use."""
        if self._extra is None:
            self._extra = Extra()
        return self._extra

    @shown
    def metadata(self) -> dict[Any, Any]:
        return self.extra().metadata

    @shown
    def _input_metadata(self) -> tuple[InputMetadata, ...]:
        return tuple(InputMetadata._of(*each) for each in self.input_metadata)

    @takes(0)
    def _sequence_nr(self) -> int:
        return self.sequence_nr

    @takes(1)
    def _set_sequence_nr(self, sequence_nr: int) -> None:
        if not isinstance(sequence_nr, int):
            raise TypeError("an integer is required")
        self.sequence_nr = sequence_nr

    @takes(1)
    def _register_hook_dict(self, tensor: Any) -> None:
        """Register the hooks of this tensor, a result of the node's operation."""
        if not hasattr(tensor, "_backward_hooks"):
            raise TypeError("_register_hook_dict expected a variable")
        if tensor._backward_hooks is not None:
            self.extra().tensor_pre_hooks.append((tensor.output_nr, tensor._backward_hooks))

    @property
    def requires_grad(self) -> bool:
        return True

    @takes(1)
    def register_hook(self, hook: Callable[..., Any]) -> Any:
        """Call `hook(grad_inputs, grad_outputs)` after the node has run."""
        return RemovableHandle.added(self.extra().post_hooks, hook)

    @takes(1)
    def register_prehook(self, hook: Callable[..., Any]) -> Any:
        """Call `hook(grad_outputs)` before the node runs."""
        return RemovableHandle.added(self.extra().pre_hooks, hook)

    def __init_subclass__(cls, **options: Any) -> None:
        """Make saved values of this class readable under PyTorch's names.

        One `__getattr__` for all classes would slow down every attribute access of nodes.
        """
        super().__init_subclass__(**options)
        slots = cls.__dict__.get("slots")
        if not isinstance(slots, tuple):
            return
        of_tensors = cls._slots_of_tensors()
        for index, slot in enumerate(slots):
            if slot:
                setattr(cls, f"_saved_{slot}", property(partial(_saved_value, index)))
            if slot and index in of_tensors:
                setattr(cls, f"_raw_saved_{slot}", property(partial(_raw_saved_value, index)))

    @classmethod
    def _slots_of_tensors(cls) -> set[int]:
        """The slots that hold tensors: only these have a raw form."""
        return set()

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __dir__(self) -> list[str]:
        every = super().__dir__()
        if self.written_by_user:
            return list(every)
        kept = ("__", "_saved_", "_raw_saved_")
        return [name for name in every if name in OFFERED or name.startswith(kept)]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} object, sequence_nr {self.sequence_nr}>"

    def __reduce__(self) -> Any:
        raise copy_of_node(self)


def _saved_value(index: int, node: Node) -> Any:
    return upward.saved_value(node, index)


def _raw_saved_value(index: int, node: Node) -> Any:
    return upward.raw_saved_value(node, index)


class OpNode(Node):
    """Base of nodes of declared operations. Each operation has a subclass with its own name."""

    __slots__ = ()
    op: ClassVar[Operation]

    @classmethod
    def _slots_of_tensors(cls) -> set[int]:
        tensors = {"input", "output", "held"}
        return {i for i, slot in enumerate(cls.op.plan.slots) if slot.kind in tensors}

    def __new__(cls, *_: Any, **__: Any) -> Any:
        raise TypeError(f"cannot create '{cls.__name__}' instances")


def device_of(node: Node) -> device | None:
    """The device of a node; None for the CPU."""
    extra = node._extra
    return None if extra is None else extra.device


def operation_name(node: Node) -> str:
    """The name without its suffix: `Unbind` for `UnbindBackward0`, `Mul1` for `MulBackward1`."""
    return re.sub(r"Backward(?:0$|(?=\d*$))", "", node.name())
