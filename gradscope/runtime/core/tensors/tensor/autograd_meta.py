"""Autograd fields of a tensor besides its edge: gradient, hooks, names, views."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from gradscope.runtime.core.tensors.memory.bits import BitsCounter

if TYPE_CHECKING:
    from gradscope.runtime.core.graph.node import Node
    from gradscope.runtime.core.tensors.memory.storage import Storage, VersionCounter


class TensorFields(Protocol):
    """The fields of a tensor, for modules that tensor.py imports."""

    _array: np.ndarray[Any, Any]
    _edge: Any
    _meta: AutogradMeta | None
    _storage: Storage | None
    _versions: VersionCounter | None

    def meta(self) -> AutogradMeta: ...

    def __getattr__(self, name: str) -> Any: ...


class AutogradMeta:
    """A tensor's autograd fields. Results of operations have none until one is needed."""

    __slots__ = (
        "accumulator",
        "detached",
        "fw_grad",
        "grad",
        "grad_dtype",  # set if the user chose one: NumPy's, or None for any
        "hooks",
        "is_inference",
        "name",
        "post_accumulate_hooks",
        "requires_grad",
        "reshaped",
        "retains_grad",
    )

    is_view = False
    grad_dtypes: ClassVar[bool] = False
    """Whether any was ever set. If not, checks are skipped."""

    def __init__(self) -> None:
        self.name: str | None = None
        self.detached = False  # by detach_(), with no write since
        self.grad: Any = None  # a tensor
        self.requires_grad = False
        self.reshaped = False  # whether its dims were changed in place while it had views
        self.retains_grad = False
        self.accumulator: weakref.ref[Node] | None = None
        self.hooks: OrderedDict[int, Callable[..., Any]] | None = None
        self.post_accumulate_hooks: OrderedDict[int, Callable[..., Any]] | None = None
        self.fw_grad: Any = None
        self.is_inference: bool | None = None  # if assigning `.data` decided it

    def dtype_of_grad(self, own: Any) -> Any:
        """NumPy's dtype of `.grad`: the tensor's own unless the user chose one."""
        return getattr(self, "grad_dtype", own)

    def hold_accumulator(self, node: Node) -> None:
        """Use this node to accumulate the gradient, not a new one."""
        self.accumulator = weakref.ref(node)


class CreationMeta(IntEnum):
    """How a view was created, which decides whether it may be modified in place."""

    DEFAULT = 0
    IN_CUSTOM_FUNCTION = 1
    MULTI_OUTPUT_NODE = 2
    NO_GRAD_MODE = 3
    INFERENCE_MODE = 4


class ViewMeta(AutogradMeta):
    """The autograd fields of a view.

    `chain` replays the view on its base: (operation, options) pairs, in order. `edge` is the view's
    history, valid while the alias set has version `version`. `again` are the positions of the chain
    at which the operation is called again to create the history anew.
    """

    __slots__ = ("again", "base", "chain", "creation", "edge", "forward", "version")

    is_view = True
    forward: tuple[Any, int] | None

    def __init__(self, base: Any, chain: tuple[Any, ...], creation: CreationMeta) -> None:
        super().__init__()
        self.base = base
        self.chain = chain
        self.creation = creation
        self.edge: tuple[Node, int] | None = None
        self.again: tuple[int, ...] = ()
        self.version = 0


class OddMeta(ViewMeta):
    """The autograd fields of a view whose own views inherit them.

    These are dual tensors, their primals, and tensors with a conj or neg bit (memory/bits.py).
    `forward` is the tensor whose tangent the view shares, and the number of steps of the chain to
    that tensor; None if it shares none, though it is a view of `base` (see forward_grad.py).
    """

    __slots__ = ()

    def below(self, source: TensorFields, made: TensorFields, view: ViewMeta) -> None:
        """Let a view of `source`, whose fields these are, share its tangent and its bits."""
        view.__class__ = OddMeta
        view.forward = self.forward or (source, len(self.chain))
        if source._versions.__class__ is BitsCounter:
            made._versions = source._versions
