"""The tensor: an array, its history, and the words users say to it.

Operations become methods when their families are loaded (see ops/__init__.py); what is written out
here is what has no derivative: attributes, autograd's switches, and the way out to Python and
NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np

from gradscope.runtime import call, dtypes, overrides, saved
from gradscope.runtime.autograd.node import new
from gradscope.runtime.devices import CPU, device
from gradscope.runtime.meta import AutogradMeta, ViewMeta
from gradscope.runtime.size import Size
from gradscope.runtime.storage import Storage, VersionCounter, elements, offset_of
from gradscope.runtime.views import edge_of, view_edge


class Tensor:
    """A multi-dimensional array that remembers how it was made.

    `_edge` is the (node, output number) of an operation's result, None for leaves and for views,
    whose history `views.edge_of` finds. `_meta` is None until someone needs what it holds.
    """

    __slots__ = (
        "__dict__",
        "__weakref__",
        "_array",
        "_edge",
        "_meta",
        "_storage",
        "_versions",
        "seen",
    )
    __hash__ = object.__hash__

    overrides_functions: ClassVar[bool] = False

    _array: np.ndarray[Any, Any]
    _edge: Any
    _meta: AutogradMeta | None
    _storage: Storage | None
    _versions: VersionCounter | None

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        from gradscope.runtime.factories import legacy_new

        return legacy_new(cls, args, kwargs)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if getattr(cls.__torch_function__, "__func__", cls.__torch_function__) is not (
            overrides.leave_alone
        ):
            cls.overrides_functions = True
            overrides.noticed()

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with overrides.disabled():
            return overrides.converted(func(*args, **(kwargs or {})), cls)

    @classmethod
    def from_array(cls, array: Any) -> Any:
        """A tensor around this very array, without history."""
        return call.wrap(array)

    @staticmethod
    def _make_subclass(cls: Any, data: Tensor, require_grad: bool = False) -> Any:  # noqa: PLW0211
        made = alias_of(data, cls)
        if require_grad:
            made.requires_grad_(True)
        return made

    def as_subclass(self, cls: Any) -> Any:
        made = alias_of(self, cls)
        made._edge, made._meta = self._edge, self._meta
        made._versions = self._versions
        return made

    # -- what it is -----------------------------------------------------------------------------

    @property
    def shape(self) -> Size:
        return Size(self._array.shape)

    def size(self, dim: int | None = None) -> Any:
        return Size(self._array.shape) if dim is None else self.shape[dim]

    @property
    def dtype(self) -> dtypes.dtype:
        return dtypes.from_numpy(self._array.dtype)

    @property
    def device(self) -> device:
        return (
            CPU if self._storage is None or self._storage.device is None else self._storage.device
        )

    @property
    def ndim(self) -> int:
        return self._array.ndim

    def dim(self) -> int:
        return self._array.ndim

    ndimension = dim

    def numel(self) -> int:
        return int(self._array.size)

    nelement = numel

    @property
    def itemsize(self) -> int:
        return self._array.itemsize

    @property
    def nbytes(self) -> int:
        return int(self._array.nbytes)

    def element_size(self) -> int:
        return self._array.itemsize

    def stride(self, dim: int | None = None) -> Any:
        steps = strides_of(self._array)
        return steps if dim is None else steps[dim]

    def storage_offset(self) -> int:
        return offset_of(self._array, self.untyped_storage())

    def untyped_storage(self) -> Storage:
        if self._storage is None:
            self._storage = Storage(self._array)
        return self._storage

    def data_ptr(self) -> int:
        return int(self._array.__array_interface__["data"][0]) if self._array.size else 0

    def is_contiguous(self, memory_format: Any = None) -> bool:
        return bool(self._array.flags.c_contiguous)

    def is_floating_point(self) -> bool:
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        return self.dtype.is_complex

    def is_signed(self) -> bool:
        return self.dtype.is_signed

    def is_same_size(self, other: Tensor) -> bool:
        return self._array.shape == other._array.shape

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        if dtype is None:
            return type_name(self._array)
        from gradscope.runtime.factories import dtype_named

        return self.to(dtype_named(dtype))

    layout = "torch.strided"
    is_sparse = is_quantized = is_meta = is_cuda = is_nested = is_mkldnn = is_mps = is_xpu = False

    # -- its history ----------------------------------------------------------------------------

    def meta(self) -> AutogradMeta:
        """The autograd fields, made on first use."""
        if self._meta is None:
            self._meta = AutogradMeta()
        return self._meta

    def gradient_edge(self) -> Any:
        """Where the gradient of this tensor goes: (node, number), or None."""
        return self._edge or (edge_of(self) if self._meta is not None else None)

    def history(self) -> Any:
        """The (node, output number) that made this tensor, or None for a leaf."""
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
        if wanted and self._array.dtype.kind not in "fcV":
            raise RuntimeError(
                "only Tensors of floating point and complex dtype can require gradients"
            )
        self.requires_grad_(wanted)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Make this leaf gather a gradient, or stop it."""
        if not self.is_leaf:
            if not requires_grad:
                raise RuntimeError(
                    "you can only change requires_grad flags of leaf variables. If you want to use "
                    "a computed variable in a subgraph that doesn't require differentiation use "
                    "var_no_grad = var.detach()."
                )
            return self
        if requires_grad and self._array.dtype.kind not in "fcV":
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        if requires_grad or self._meta is not None:
            self.meta().requires_grad = bool(requires_grad)
        return self

    @property
    def grad(self) -> Any:
        meta = self._meta
        kept = meta is not None and (meta.retains_grad or meta.grad is not None)
        if not kept and not self.is_leaf:
            _warn_no_grad(self)
        return None if meta is None else meta.grad

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is not None:
            _check_grad(self, value)
        elif self._meta is None:
            return
        self.meta().grad = value

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    @property
    def _grad(self) -> Any:
        return None if self._meta is None else self._meta.grad

    @property
    def retains_grad(self) -> bool:
        return self._meta is not None and self._meta.retains_grad

    @property
    def _version(self) -> int:
        return 0 if self._versions is None else self._versions.value

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
    def _backward_hooks(self) -> Any:
        return None if self._meta is None else self._meta.hooks

    @property
    def data(self) -> Tensor:
        made = alias_of(self, Tensor)
        made._versions = None
        return made

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(
                f"Variable data has to be a tensor, but got {builtin_type(value).__name__}"
            )
        self._array = value._array
        self._storage = value._storage

    def backward(
        self,
        gradient: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """Add the gradients of this tensor to the `.grad` of the leaves it came from."""
        from gradscope.runtime.autograd.roots import backward

        backward(self, gradient, retain_graph, create_graph, inputs=inputs)

    def register_hook(self, hook: Callable[..., Any]) -> Any:
        from gradscope.runtime.autograd.hooks import register_hook

        return register_hook(self, hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[..., Any]) -> Any:
        from gradscope.runtime.autograd.hooks import register_post_accumulate

        return register_post_accumulate(self, hook)

    def retain_grad(self) -> None:
        from gradscope.runtime.autograd.hooks import retain_grad

        retain_grad(self)

    def detach_(self) -> Tensor:
        """Cut this tensor off from its history."""
        if self._meta is not None and self._meta.is_view:
            raise RuntimeError(
                "Can't detach views in-place. Use detach() instead. If you are using "
                "DistributedDataParallel (DDP) for training, and gradient_as_bucket_view is set as "
                "True, gradients are views of DDP buckets, and hence detach_() cannot be called on "
                "these gradients. To fix this error, please refer to the Optimizer.zero_grad() "
                "function in torch/optim/optimizer.py as the solution."
            )
        self._edge = None
        if self._meta is not None:
            self._meta.requires_grad = False
            self._meta.retains_grad = False
        return self

    # -- the way out ----------------------------------------------------------------------------

    def item(self) -> Any:
        if self._array.size != 1:
            raise RuntimeError(
                f"a Tensor with {self._array.size} elements cannot be converted to Scalar"
            )
        value = self._array.reshape(-1)[0].item()
        return float(value) if self._array.dtype.kind == "V" else value

    def tolist(self) -> Any:
        array = self._array
        return (array.astype(np.float32) if array.dtype.kind == "V" else array).tolist()

    def numpy(self, *, force: bool = False) -> Any:
        """The tensor's own array, sharing memory."""
        if force:
            return self._array
        if self.requires_grad:
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() "
                "instead."
            )
        return self._array

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    __array_priority__ = 1000

    def __bool__(self) -> bool:
        if self._array.size != 1:
            what = "no values" if not self._array.size else "more than one value"
            raise RuntimeError(f"Boolean value of Tensor with {what} is ambiguous")
        return bool(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        if self._array.size != 1 or self._array.dtype.kind not in "iub":
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __len__(self) -> int:
        if self._array.ndim == 0:
            raise TypeError("len() of a 0-d tensor")
        return self._array.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if self._array.ndim == 0:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    def __contains__(self, element: Any) -> bool:
        return bool((self == element).any().item())

    def __format__(self, spec: str) -> str:
        if self._array.ndim == 0 and not self.is_complex():
            return self.item().__format__(spec)
        return object.__format__(self, spec) if spec else repr(self)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        from gradscope.runtime import printing

        return printing.format_tensor(
            self._array,
            dtype=self.dtype,
            requires_grad=self.requires_grad and self.grad_fn is None,
            grad_fn_name=None if self.grad_fn is None else builtin_type(self.grad_fn).__name__,
            device=str(self.device),
        )

    def __dir__(self) -> list[str]:
        return sorted(set(super().__dir__()))

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        from gradscope.runtime.copying import deep_copy

        return deep_copy(self, memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        from gradscope.runtime.copying import reduce

        return reduce(self)

    def __getattr__(self, name: str) -> Any:
        from gradscope.runtime.missing import no_attribute

        raise no_attribute(self, name)


builtin_type = type


def strides_of(array: np.ndarray[Any, Any]) -> tuple[int, ...]:
    """Strides in elements; those of empty arrays, which NumPy leaves open, are row-major."""
    if array.size:
        return elements(array)
    steps: list[int] = []
    step = 1
    for size in reversed(array.shape):
        steps.append(step)
        step *= max(size, 1)
    return tuple(reversed(steps))


def alias_of(source: Tensor, cls: Any) -> Any:
    """A tensor of class `cls` on the same bytes, without history and with its own counter."""
    made = new(cls)
    made._array = source._array
    made._edge = None
    made._meta = None
    made._versions = None
    made._storage = source.untyped_storage()
    made.seen = 0
    return made


def type_name(array: np.ndarray[Any, Any]) -> str:
    """The legacy name of a tensor type: torch.FloatTensor."""
    return f"torch.{dtypes.from_numpy(array.dtype).scalar_name}Tensor"


def _warn_no_grad(tensor: Tensor) -> None:
    import warnings

    warnings.warn(
        "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad "
        "attribute won't be populated during autograd.backward(). If you indeed want the .grad "
        "field to be populated for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor. "
        "If you access the non-leaf Tensor by mistake, make sure you access the leaf Tensor "
        "instead.",
        UserWarning,
        stacklevel=3,
    )


def _check_grad(tensor: Tensor, value: Any) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(
            f"assigned grad expected to be a Tensor or None but got grad of type "
            f"{builtin_type(value).__name__}"
        )
    if value is tensor:
        raise RuntimeError("can't assign Variable as its own grad")
    if value._array.dtype != tensor._array.dtype:
        raise RuntimeError(
            f"attempting to assign a gradient with dtype '{value.dtype}' to a tensor with dtype "
            f"'{tensor.dtype}'. The gradient must match the tensor's dtype (or the tensor's "
            "grad_dtype if set)."
        )
    if value._array.shape != tensor._array.shape:
        raise RuntimeError(
            f"attempting to assign a gradient of size '{list(value._array.shape)}' to a tensor of "
            f"size '{list(tensor._array.shape)}'. Please ensure that the gradient and the tensor "
            "are the same size"
        )


saved.Tensor = Tensor
call.use_tensor_class(Tensor)
