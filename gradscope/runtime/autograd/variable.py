"""`Variable`: what tensors with a gradient were once called."""

from __future__ import annotations

from typing import Any

from gradscope.runtime._C._engine import _EngineBase as ImperativeEngine
from gradscope.runtime.core.tensors.tensor.tensor import Tensor


class VariableMeta(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Tensor)


class Variable(metaclass=VariableMeta):
    """`Variable(tensor, requires_grad=True)` gives a tensor; every tensor is an instance."""

    _execution_engine = ImperativeEngine()

    def __new__(cls, data: Any = None, requires_grad: bool = False) -> Any:
        made = data.detach()
        return made.requires_grad_() if requires_grad else made
