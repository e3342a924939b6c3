"""Tensors of a module: parameters, which are trainable, and buffers, which are not."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from gradscope.runtime.core import probe
from gradscope.runtime.core.errors.engine.leaves import integer_gradient
from gradscope.runtime.core.tensors import copying
from gradscope.runtime.core.tensors.making.factories import empty
from gradscope.runtime.core.tensors.tensor.overriding import leave_alone
from gradscope.runtime.core.tensors.tensor.tensor import Tensor, alias_of
from gradscope.runtime.core.tensors.wrapping import wrap
from gradscope.runtime.nn.uninitialized import Uninitialized, is_lazy

__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "is_lazy"]


class ParameterMeta(type):
    """Makes `isinstance(x, Parameter)` true for tensor subclasses marked as parameters."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if cls is Parameter and isinstance(instance, Tensor):
            return type.__instancecheck__(cls, instance) or "_is_param" in instance.__dict__
        return type.__instancecheck__(cls, instance)


class Parameter(Tensor, metaclass=ParameterMeta):
    """A leaf tensor that a module registers as its parameter. Operations see a plain tensor."""

    __torch_function__ = staticmethod(leave_alone)

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Any:
        if data is not None and type(data) not in {Tensor, Parameter}:
            return _made_parameter(data, requires_grad)
        made = alias_of(empty(0) if data is None else data, cls)
        if requires_grad and made._array.dtype.kind not in "fcV":
            only = "Only Tensors of floating point and complex dtype can require gradients"
            raise integer_gradient(only, made)
        if probe.here is not None:
            probe.here.came_in(made)
        if requires_grad:
            made.meta().requires_grad = True
        return made

    def __deepcopy__(self, memo: dict[Any, Any]) -> Any:
        return deep_copy(self, memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return reduce(self)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return "Parameter containing:\n" + super().__repr__()


def _made_parameter(data: Any, requires_grad: bool) -> Any:
    """An instance of a tensor subclass, marked as a parameter."""
    made = data.detach().requires_grad_(requires_grad)
    if type(made) is not type(data):
        name, found = type(data).__name__, type(made).__name__
        raise RuntimeError(
            f"Creating a Parameter from an instance of type {name} requires that detach() returns "
            f"an instance of the same type, but return type {found} was found instead. To use the "
            "type as a Parameter, please correct the detach() semantics defined by its "
            "__torch_dispatch__() implementation."
        )
    made._is_param = True
    return made


class Buffer(Tensor):
    """A tensor that a module registers as its buffer."""

    __torch_function__ = staticmethod(leave_alone)
    persistent: bool

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Any:
        made = alias_of(wrap(empty(0)._array) if data is None else data.detach(), cls)
        made.persistent = persistent
        return made


class UninitializedParameter(Uninitialized, Parameter):  # type: ignore[misc]
    """A parameter whose shape comes from the first input."""

    becomes = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> Any:
        return cls._without_shape(empty(0, device=device, dtype=dtype), requires_grad)

    def __deepcopy__(self, memo: dict[Any, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.device, self.dtype)
        return memo[id(self)]


class UninitializedBuffer(Uninitialized, Tensor):
    """A buffer whose shape comes from the first input."""

    becomes = Tensor
    __torch_function__ = staticmethod(leave_alone)
    persistent: bool

    def __new__(
        cls,
        requires_grad: bool = False,
        device: Any = None,
        dtype: Any = None,
        persistent: bool = True,
    ) -> Any:
        made = cls._without_shape(empty(0, device=device, dtype=dtype), requires_grad)
        made.persistent = persistent
        return made


def deep_copy(parameter: Any, memo: dict[Any, Any]) -> Any:
    """A new parameter without gradient and attributes."""
    if id(parameter) not in memo:
        copied = parameter.data.clone()
        memo[id(parameter)] = type(parameter)(copied, parameter.requires_grad)
    return memo[id(parameter)]


def reduce(parameter: Any) -> Any:
    """How copy and pickle reduce a parameter."""
    state = copying.state_of(parameter)
    parts: tuple[Any, ...] = (parameter.data, parameter.requires_grad, OrderedDict())
    if state:
        return rebuild_parameter_with_state, (*parts, state)
    return rebuild_parameter, parts


def rebuild_parameter(data: Any, requires_grad: bool, backward_hooks: Any) -> Any:
    return Parameter(data, requires_grad)


def rebuild_parameter_with_state(
    data: Any, requires_grad: bool, backward_hooks: Any, state: Any
) -> Any:
    made = rebuild_parameter(data, requires_grad, backward_hooks)
    copying.set_state(made, state)
    return made
