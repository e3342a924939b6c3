"""Nonlinearities as modules. The function of the same name says what each computes."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.tensors.making.factories import full
from gradscope.runtime.nn import functional, init as initial
from gradscope.runtime.nn.modules.module import Module
from gradscope.runtime.nn.modules.module_parts.constructors import with_own_constructor
from gradscope.runtime.nn.parameter import Parameter


class _InPlace(Module):
    """A nonlinearity that may overwrite its input."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


def _and_in_place(text: str, inplace: bool) -> str:
    return f"{text}, inplace=True" if inplace else text


@with_own_constructor
class ReLU(_InPlace):
    def forward(self, input: Any) -> Any:
        return functional.relu(input, inplace=self.inplace)


@with_own_constructor
class SiLU(_InPlace):
    def forward(self, input: Any) -> Any:
        return functional.silu(input, inplace=self.inplace)


@with_own_constructor
class Mish(_InPlace):
    def forward(self, input: Any) -> Any:
        return functional.mish(input, inplace=self.inplace)


@with_own_constructor
class SELU(_InPlace):
    def forward(self, input: Any) -> Any:
        return functional.selu(input, self.inplace)


@with_own_constructor
class Hardswish(_InPlace):
    def forward(self, input: Any) -> Any:
        return functional.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


@with_own_constructor
class Hardsigmoid(_InPlace):
    def forward(self, input: Any) -> Any:
        return functional.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Tanh(Module):
    def forward(self, input: Any) -> Any:
        return input.tanh()


class Sigmoid(Module):
    def forward(self, input: Any) -> Any:
        return input.sigmoid()


class Softsign(Module):
    def forward(self, input: Any) -> Any:
        return functional.softsign(input)


class Tanhshrink(Module):
    def forward(self, input: Any) -> Any:
        return functional.tanhshrink(input)


class LogSigmoid(Module):
    def forward(self, input: Any) -> Any:
        return functional.logsigmoid(input)


class GELU(Module):
    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Any) -> Any:
        return functional.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class LeakyReLU(Module):
    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        return functional.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return _and_in_place(f"negative_slope={self.negative_slope}", self.inplace)


class ELU(Module):
    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        return functional.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return _and_in_place(f"alpha={self.alpha}", self.inplace)


class CELU(ELU):
    def forward(self, input: Any) -> Any:
        return functional.celu(input, self.alpha, self.inplace)


class Hardtanh(Module):
    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.min_val = min_val
        self.max_val = max_val
        self.inplace = inplace
        if max_val <= min_val:
            raise AssertionError(f"max_val ({max_val}) must be greater than min_val ({min_val})")

    def forward(self, input: Any) -> Any:
        return functional.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return _and_in_place(f"min_val={self.min_val}, max_val={self.max_val}", self.inplace)


class ReLU6(Hardtanh):
    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class Threshold(Module):
    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        return functional.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return _and_in_place(f"threshold={self.threshold}, value={self.value}", self.inplace)


class Softplus(Module):
    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Any) -> Any:
        return functional.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class _Shrink(Module):
    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        return str(self.lambd)


class Softshrink(_Shrink):
    def forward(self, input: Any) -> Any:
        return functional.softshrink(input, self.lambd)


class Hardshrink(_Shrink):
    def forward(self, input: Any) -> Any:
        return functional.hardshrink(input, self.lambd)


class _AlongDim(Module):
    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(_AlongDim):
    def forward(self, input: Any) -> Any:
        return functional.softmax(input, self.dim, _stacklevel=5)


class LogSoftmax(_AlongDim):
    def forward(self, input: Any) -> Any:
        return functional.log_softmax(input, self.dim, _stacklevel=5)


class Softmin(_AlongDim):
    def forward(self, input: Any) -> Any:
        return functional.softmin(input, self.dim, _stacklevel=5)


class Softmax2d(Module):
    """Softmax over the channels of images."""

    def forward(self, input: Any) -> Any:
        if input.dim() not in (3, 4):
            raise ValueError(
                f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead"
            )
        return functional.softmax(input, -3, _stacklevel=5)


class GLU(Module):
    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Any) -> Any:
        return functional.glu(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class PReLU(Module):
    """A leaky rectifier whose slope is learned."""

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(full((num_parameters,), float(init), device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        initial.constant_(self.weight, self.init)

    def forward(self, input: Any) -> Any:
        return functional.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"
