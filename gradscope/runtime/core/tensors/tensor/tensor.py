"""The tensor class: an array, its edge in the graph, and methods.

Operations become methods when their families are loaded (see ops/__init__.py). What is written out
here and in this folder has no derivative. Higher packages add methods, too (`add_methods`):
autograd/tensor_methods.py, copying.py, making/factories.py, memory/typed_storage.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.runtime.core.errors.engine import leaves as errors
from gradscope.runtime.core.errors.engine.in_place import detach_view
from gradscope.runtime.core.errors.engine.inference import (
    inference_requires_grad,
    inference_version,
)
from gradscope.runtime.core.errors.missing import METHODS_OF_SPARSE, refuse_dispatch_by_class
from gradscope.runtime.core.graph.node import new
from gradscope.runtime.core.rows.operation import REGISTRY
from gradscope.runtime.core.state import upward
from gradscope.runtime.core.state.array_calls import captured_as, layout_only
from gradscope.runtime.core.state.thread import local
from gradscope.runtime.core.tensors import wrapping
from gradscope.runtime.core.tensors.memory.bits import uncounted
from gradscope.runtime.core.tensors.memory.storage import Storage, VersionCounter
from gradscope.runtime.core.tensors.saved import saved_variable as saved
from gradscope.runtime.core.tensors.tensor.assigned_grad import (
    check_grad,
    set_grad_dtype,
    shown_grad_dtype,
)
from gradscope.runtime.core.tensors.tensor.autograd_meta import AutogradMeta, ViewMeta
from gradscope.runtime.core.tensors.tensor.geometry import Geometry
from gradscope.runtime.core.tensors.tensor.old_fields import OldFields
from gradscope.runtime.core.tensors.tensor.overriding import as_instances, overrides
from gradscope.runtime.core.tensors.tensor.sharing import Sharing
from gradscope.runtime.core.tensors.tensor.values import Values
from gradscope.runtime.core.tensors.views.inference import is_inference, mark, take_data
from gradscope.runtime.core.tensors.views.views import edge_of, share, view_edge
from gradscope.runtime.core.tensors.wrapping import wrap


class Tensor(Geometry, OldFields, Sharing, Values):
    """A multi-dimensional array that records the operation that created it.

    `_edge` is the (node, output number) of an operation's result, None for leaves and for views,
    whose history `views.edge_of` finds. `_meta` is None until it is needed.
    """

    __slots__ = (
        "__dict__",
        "__weakref__",
        "_array",
        "_edge",
        "_meta",
        "_storage",
        "_versions",
        "record_nr",
    )
    __hash__ = object.__hash__

    _array: np.ndarray[Any, Any]
    _edge: Any
    _meta: AutogradMeta | None
    _storage: Storage | None
    _versions: VersionCounter | None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if overrides(cls):
            upward.put_up_gates()

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The default for subclasses: results are instances of the subclass."""
        return as_instances(cls, func, types, args, kwargs)

    @classmethod
    @layout_only
    def from_array(cls, array: Any) -> Any:
        """A detached tensor with this very array."""
        return wrap(array)

    @staticmethod
    def _make_subclass(cls: Any, data: Tensor, require_grad: bool = False) -> Any:  # noqa: PLW0211
        refuse_dispatch_by_class(cls)
        made = alias_of(data, cls)
        if require_grad:
            made.requires_grad_(True)
        return made

    @staticmethod
    def _make_wrapper_subclass(cls: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ARG004, PLW0211
        """A tensor without data, for classes with `__torch_dispatch__` that store it elsewhere."""
        refuse_dispatch_by_class(cls)
        raise TypeError(f"{cls.__name__} must define __torch_dispatch__")

    def as_subclass(self, cls: Any) -> Any:
        """A view of this tensor that is an instance of `cls`."""
        if not (isinstance(cls, builtin_type) and issubclass(cls, Tensor)):
            raise TypeError("cls must be a type (got " + builtin_type(cls).__name__ + ")")
        refuse_dispatch_by_class(cls)
        made = REGISTRY["alias"].road(self)
        recast = new(cls)
        for name in FIELDS:
            setattr(recast, name, getattr(made, name))
        return recast

    @captured_as("answer")
    def untyped_storage(self) -> Storage:
        if self._storage is None:
            self._storage = Storage(self._array)
        return self._storage

    # -- its graph ------------------------------------------------------------------------------

    def meta(self) -> AutogradMeta:
        """The autograd fields, created on first use."""
        if self._meta is None:
            self._meta = AutogradMeta()
        return self._meta

    def gradient_edge(self) -> Any:
        """The edge where the gradient of this tensor goes: (node, number), or None."""
        return self._edge or (edge_of(self) if self._meta is not None else None)

    def history(self) -> Any:
        """The (node, output number) that created this tensor, or None for a leaf."""
        meta = self._meta
        if self._edge is None and isinstance(meta, ViewMeta):
            return view_edge(self, meta)
        return self._edge

    @property
    def grad_fn(self) -> Any:
        edge = self.history()
        return None if edge is None else edge[0]

    @property
    def output_nr(self) -> int:
        edge = self.history()
        return 0 if edge is None else int(edge[1])

    @property
    def is_leaf(self) -> bool:
        return self._edge is None and self.history() is None

    def is_leaf_so_far(self) -> bool:
        """The same without updating a view whose base was modified."""
        meta = self._meta
        return self._edge is None and not (isinstance(meta, ViewMeta) and meta.edge is not None)

    @property
    def requires_grad(self) -> bool:
        if self._edge is not None:
            return True
        meta = self._meta
        if meta is None:
            return False
        if meta.requires_grad or not isinstance(meta, ViewMeta):
            return meta.requires_grad
        return meta.edge is not None or (
            meta.base.requires_grad and self._array.dtype.kind in "fcV"
        )

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        if not isinstance(wanted, bool):
            raise errors.flag_type()
        if wanted and self._array.dtype.kind not in "fcV":
            only = "only Tensors of floating point and complex dtype can require gradients"
            raise errors.integer_gradient(only, self)
        if wanted and not self.is_leaf_so_far():
            raise errors.flag_of_non_leaf("", self)
        self.requires_grad_(wanted)

    @requires_grad.deleter
    def requires_grad(self) -> None:
        raise errors.flag_type()

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Set requires_grad of this leaf."""
        if not isinstance(requires_grad, bool):
            raise TypeError(
                "requires_grad_(): argument 'requires_grad' (position 1) must be bool, not "
                f"{builtin_type(requires_grad).__name__}"
            )
        if not self.is_leaf_so_far():
            if not requires_grad:
                raise errors.flag_of_non_leaf(
                    " If you want to use a computed variable in a subgraph that doesn't require "
                    "differentiation use var_no_grad = var.detach().",
                    self,
                )
            return self
        if requires_grad and self._array.dtype.kind not in "fcV":
            only = "only Tensors of floating point dtype can require gradients"
            raise errors.integer_gradient(only, self)
        if requires_grad and is_inference(self) and not local.state.inference:
            raise inference_requires_grad(self)
        if requires_grad or self._meta is not None:
            self.meta().requires_grad = bool(requires_grad)
        return self

    @property
    def grad(self) -> Any:
        meta = self._meta
        kept = meta is not None and (meta.retains_grad or meta.grad is not None)
        if not kept and not self.is_leaf_so_far():
            errors.grad_of_non_leaf(self)
        return None if meta is None else meta.grad

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is not None:
            check_grad(self, value)
        elif self._meta is None:
            return
        self.meta().grad = value

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    grad_dtype = property(shown_grad_dtype, set_grad_dtype)

    @property
    def retains_grad(self) -> bool:
        return self._meta is not None and self._meta.retains_grad

    @property
    @captured_as("answer")
    def _version(self) -> int:
        versions = self._versions
        if versions is None:
            return 0
        if not versions.tracks:
            raise inference_version(self)
        return versions.value

    def is_inference(self) -> bool:
        return is_inference(self)

    @property
    def _base(self) -> Any:
        meta = self._meta
        return meta.base if meta is not None and meta.is_view else None  # type: ignore[attr-defined]

    def _is_view(self) -> bool:
        return self._base is not None

    @property
    def name(self) -> str | None:
        return None if self._meta is None else self._meta.name

    @property
    @layout_only
    def data(self) -> Tensor:
        made: Tensor = alias_of(self, Tensor)
        made._versions = uncounted(made._versions)
        if local.state.inference and is_inference(self):
            mark(made)
        else:
            take_data(made, self)
        return made

    @data.setter
    @layout_only
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(
                f"Variable data has to be a tensor, but got {builtin_type(value).__name__}"
            )
        if value._array.dtype.kind not in "fcV" and self.requires_grad:
            raise errors.integer_data(self)
        take_data(self, value)
        if self._meta is not None and value._array.dtype != self._array.dtype:
            self._meta.accumulator = None  # it would accept gradients of the old dtype
        self._array = value._array
        self._storage = value._storage

    @data.deleter
    @layout_only
    def data(self) -> None:
        raise errors.data_deleted()

    def detach_(self) -> Tensor:
        """Detach this tensor from the graph, in place."""
        if local.state.inference:
            return self
        if self._meta is not None and self._meta.is_view:
            raise detach_view(self)
        if self._edge is not None and not self._version:
            self.meta().detached = True  # nodes that saved it must notice
            if self._versions is None:
                self._versions = VersionCounter()
        self._edge = None
        if self._meta is not None:
            self._meta.fw_grad = None
            self._meta.requires_grad = False
        return self

    def __dir__(self) -> list[str]:
        return sorted(set(super().__dir__()) - {*METHODS_OF_SPARSE})

    if TYPE_CHECKING:  # operations are added to the class later

        def __getattr__(self, name: str) -> Any: ...


builtin_type = type
FIELDS = ("_array", "_edge", "_meta", "_storage", "_versions", "record_nr")
"""The fields of a tensor."""


def add_methods(**functions: Callable[..., Any]) -> None:
    """Add methods to tensors that higher packages define."""
    for name, function in functions.items():
        function.__name__, function.__qualname__ = name, f"Tensor.{name}"
        setattr(Tensor, name, function)


@layout_only
def alias_of(source: Tensor, cls: Any) -> Any:
    """A detached tensor of class `cls` on the same memory, with the same counter."""
    made = new(cls)
    made._array = source._array
    made._edge = None
    made._meta = None
    made.record_nr = 0
    share(made, source)
    return made


saved.Tensor = Tensor
wrapping.Tensor = Tensor
