"""Uninitialized tensors: a lazy module sets their shape at its first input."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from gradscope.runtime.core.dispatch.overrides.public import OPERATORS
from gradscope.runtime.core.state.frames import is_inside
from gradscope.runtime.core.tensors.making.factories import empty
from gradscope.runtime.core.tensors.tensor.tensor import Tensor, alias_of

ALLOWED = frozenset({
    "__hash__", "char", "copy_", "cpu", "cuda", "double", "float", "get_device", "half", "int",
    "is_complex", "is_floating_point", "long", "short", "size", "to",
})  # fmt: skip
"""Methods that may be called without a shape. Properties may be read, too."""

WATCHERS = "gradscope.record."

PRIVATE = frozenset({"_to_copy", "alias_of", "materialize", "meta", "_without_shape", "__new__"})

_memory: Any = Tensor.__dict__["_array"]


def _conversion(name: str) -> Any:
    """The method of this name. Its result is uninitialized, too."""

    def convert(self: Any, *args: Any, **kwargs: Any) -> Any:
        made = getattr(Tensor, name)(self, *args, **kwargs)
        return made if made is self else type(self)._without_shape(made, self.requires_grad)

    convert.__code__ = convert.__code__.replace(co_name=name)  # the name that `_called` looks for
    return convert


class Uninitialized:
    """Base of parameters and buffers without a shape.

    Every operation reads the arrays of its tensors, so the array refuses to be read.
    """

    becomes: type
    data: Any
    device: Any
    dtype: Any
    requires_grad: bool

    char, cpu, cuda, double, float = map(_conversion, ["char", "cpu", "cuda", "double", "float"])
    half, int, long, short, to = map(_conversion, ["half", "int", "long", "short", "to"])

    @classmethod
    def _without_shape(cls, nothing: Any, requires_grad: bool) -> Any:
        made = alias_of(nothing, cls)
        if requires_grad:
            made.meta().requires_grad = True
        return made

    @property
    def _array(self) -> Any:
        if sys._getframe(1).f_globals.get("__name__", "").startswith(WATCHERS):
            return _memory.__get__(self)  # inspection only: nothing is computed with it
        name = _called()
        if name in ALLOWED or name in PRIVATE or isinstance(getattr(Tensor, name, None), property):
            return _memory.__get__(self)
        raise ValueError(
            f"Attempted to use an uninitialized parameter in <method '{name}' of "
            "'torch._C.TensorBase' objects>. This error happens when you are using a `LazyModule` "
            f"or explicitly manipulating `torch.nn.parameter.{type(self).__name__}` objects. When "
            "using LazyModules Call `forward` with a dummy batch to initialize the parameters "
            "before calling torch functions"
        )

    @_array.setter
    def _array(self, array: Any) -> None:
        _memory.__set__(self, array)

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become an ordinary parameter or buffer of this shape, with any values."""
        self.data = empty(shape, device=device or self.device, dtype=dtype or self.dtype)
        self.__class__ = self.becomes

    @property
    def shape(self) -> Any:
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually "
            "happens in `load_state_dict` when trying to load an uninitialized parameter into an "
            "initialized one. Call `forward` to initialize the parameters before accessing their "
            "attributes."
        )

    def share_memory_(self) -> Any:
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to "
            "initialize the parameters before calling `module.share_memory()`."
        )

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self), (self.requires_grad,)


def _called() -> str:
    """The name of the runtime's function that the program called."""
    frame: FrameType | None = sys._getframe(2)
    name = "__new__"
    while frame is not None and is_inside(frame):
        name = frame.f_code.co_name
        if name == "road":
            name = frame.f_globals["op"].base_name
        frame = frame.f_back
    return OPERATORS.get(name, name)


def is_lazy(param: Any) -> bool:
    """Whether a parameter or buffer is uninitialized."""
    return isinstance(param, Uninitialized)
