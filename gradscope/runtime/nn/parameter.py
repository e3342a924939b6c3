"""Tensors that belong to a module: parameters, which are learned, and buffers, which are not."""

from __future__ import annotations

from typing import Any

from gradscope.runtime import copying, overrides
from gradscope.runtime.call import wrap
from gradscope.runtime.errors.leaves import integer_gradient
from gradscope.runtime.factories import empty
from gradscope.runtime.tensor import Tensor, alias_of


class Parameter(Tensor):
    """A leaf that modules recognise as theirs. Calls treat it as a plain tensor."""

    __torch_function__ = staticmethod(overrides.leave_alone)

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Any:
        made = alias_of(empty(0) if data is None else data, cls)
        if requires_grad and made._array.dtype.kind not in "fcV":
            only = "Only Tensors of floating point and complex dtype can require gradients"
            raise integer_gradient(only, made)
        return made.requires_grad_(requires_grad) if requires_grad else made

    def __deepcopy__(self, memo: dict[Any, Any]) -> Any:
        return copying.deep_copy_of_parameter(self, memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return copying.reduce_parameter(self)

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return "Parameter containing:\n" + super().__repr__()


class Buffer(Tensor):
    """A tensor that modules keep beside their parameters."""

    __torch_function__ = staticmethod(overrides.leave_alone)
    persistent: bool

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Any:
        made = alias_of(wrap(empty(0)._array) if data is None else data.detach(), cls)
        made.persistent = persistent
        return made
