"""`Variable`: the old name of tensors with a gradient."""

from __future__ import annotations

from typing import Any

from gradscope.runtime._C._engine import _EngineBase as ImperativeEngine
from gradscope.runtime.core.tensors.tensor.tensor import Tensor


class VariableMeta(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Tensor)


class Variable(metaclass=VariableMeta):
    """`Variable(tensor, requires_grad=True)` returns a tensor. Every tensor is an instance."""

    _execution_engine = ImperativeEngine()

    def __new__(cls, data: Any = None, requires_grad: bool = False) -> Any:
        made = data.detach()
        return made.requires_grad_() if requires_grad else made
