"""Modules that bring activations to mean 0 and variance 1."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.factories import empty
from gradscope.runtime.nn import functional, init
from gradscope.runtime.nn.modules.module import Module
from gradscope.runtime.nn.parameter import Parameter


class LayerNorm(Module):
    """Each sample on its own, over its last dims."""

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        one = isinstance(normalized_shape, int)
        self.normalized_shape = (normalized_shape,) if one else tuple(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self._add("weight", elementwise_affine, device, dtype)
        self._add("bias", elementwise_affine and bias, device, dtype)
        self.reset_parameters()

    def _add(self, name: str, wanted: bool, device: Any, dtype: Any) -> None:
        made = (
            Parameter(empty(self.normalized_shape, device=device, dtype=dtype)) if wanted else None
        )
        self.register_parameter(name, made)

    def reset_parameters(self) -> None:
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Any) -> Any:
        return functional.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )
