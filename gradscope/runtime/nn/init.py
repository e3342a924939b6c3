"""Initial values of parameters. The same seed draws the same values as PyTorch."""

from __future__ import annotations

import math
import warnings
from typing import Any

from gradscope.runtime.core.autograd.modes.grad_mode import no_grad
from gradscope.runtime.core.ops.pointwise.choice import where
from gradscope.runtime.core.ops.random.random import randperm
from gradscope.runtime.core.rows.offered import FUNCTIONS
from gradscope.runtime.core.tensors.making.factories import empty_like

_GAINS = {
    "linear": 1.0,
    "conv1d": 1.0,
    "conv2d": 1.0,
    "conv3d": 1.0,
    "conv_transpose1d": 1.0,
    "conv_transpose2d": 1.0,
    "conv_transpose3d": 1.0,
    "sigmoid": 1.0,
    "tanh": 5.0 / 3,
    "relu": math.sqrt(2.0),
    "selu": 3.0 / 4,
}


def calculate_gain(nonlinearity: str, param: Any = None) -> float:
    """Return the recommended gain for a nonlinearity."""
    if nonlinearity in _GAINS:
        return _GAINS[nonlinearity]
    if nonlinearity != "leaky_relu":
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    if param is None:
        slope = 0.01
    elif isinstance(param, int | float) and not isinstance(param, bool):
        slope = param
    else:
        raise ValueError(f"negative_slope {param} not a valid number")
    return math.sqrt(2.0 / (1 + slope**2))


@no_grad()
def uniform_(tensor: Any, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Any:
    return tensor.uniform_(a, b, generator=generator)


@no_grad()
def normal_(tensor: Any, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Any:
    return tensor.normal_(mean, std, generator=generator)


@no_grad()
def trunc_normal_(
    tensor: Any,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Any = None,
) -> Any:
    """Fill a tensor with normal values between a and b. Values outside are drawn again."""
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. "
            "The distribution of values may be incorrect.",
            stacklevel=2,
        )
    if _share_below((b - mean) / std) - _share_below((a - mean) / std) > 0.3:
        return _redrawn(tensor, mean, std, (a, b), generator)
    return _accepted(tensor, mean, std, (a, b), generator)


def _share_below(x: float) -> float:
    """The share of a standard normal distribution below x."""
    return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0


def _redrawn(tensor: Any, mean: float, std: float, bounds: tuple[float, float], source: Any) -> Any:
    """Redraw values outside the bounds. Fast if most values are inside."""
    low, high = (tensor.new_tensor(bound).item() for bound in bounds)
    tensor.normal_(mean, std, generator=source)
    found = tensor
    while bool((outside := (found < low) | (found > high)).any()):
        again = empty_like(found).normal_(mean, std, generator=source)
        found = where(outside, again, found)
    return tensor if found is tensor else tensor.copy_(found)


def _accepted(
    tensor: Any, mean: float, std: float, bounds: tuple[float, float], source: Any
) -> Any:
    """Sample by rejection: draw uniformly, accept each value with its probability."""
    low, high = bounds
    peak = -0.5 * ((max(low, min(mean, high)) - mean) / std) ** 2
    found = tensor.uniform_(low, high, generator=source)
    proposed, chance = found.clone(), empty_like(tensor)
    waiting = None
    while True:
        height = proposed.sub_(mean).div_(std).pow_(2).mul_(-0.5).sub_(peak)
        refused = chance.uniform_(generator=source).log_().gt(height)
        waiting = refused if waiting is None else where(waiting, refused, waiting)
        if not bool(waiting.any()):
            return tensor if found is tensor else tensor.copy_(found)
        proposed.uniform_(low, high, generator=source)
        found = where(waiting, proposed, found)


@no_grad()
def constant_(tensor: Any, val: float) -> Any:
    return tensor.fill_(val)


@no_grad()
def ones_(tensor: Any) -> Any:
    return tensor.fill_(1.0)


@no_grad()
def zeros_(tensor: Any) -> Any:
    return tensor.zero_()


@no_grad()
def eye_(tensor: Any) -> Any:
    """Fill a matrix with ones on the diagonal and zeros elsewhere."""
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    tensor.zero_().fill_diagonal_(1)
    return tensor


def fans(tensor: Any) -> tuple[int, int]:
    """Fan in (inputs per output) and fan out (outputs per input) of a weight."""
    if tensor.dim() < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"
        )
    field = math.prod(tensor.shape[2:])
    return tensor.size(1) * field, tensor.size(0) * field


_calculate_fan_in_and_fan_out = fans  # PyTorch's private name, which some programs use


def _fan(tensor: Any, mode: str) -> int:
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return fans(tensor)[mode == "fan_out"]


@no_grad()
def xavier_uniform_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """Fill with uniform values of Xavier's (Glorot's) variance."""
    bound = math.sqrt(3.0) * gain * math.sqrt(2.0 / float(sum(fans(tensor))))
    return tensor.uniform_(-bound, bound, generator=generator)


@no_grad()
def xavier_normal_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """Fill with normal values of Xavier's (Glorot's) variance."""
    std = gain * math.sqrt(2.0 / float(sum(fans(tensor))))
    return tensor.normal_(0.0, std, generator=generator)


def _is_empty(tensor: Any) -> bool:
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return True
    return False


@no_grad()
def kaiming_uniform_(
    tensor: Any,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Any:
    """Fill with uniform values of Kaiming's (He's) variance, for rectifiers."""
    if _is_empty(tensor):
        return tensor
    std = calculate_gain(nonlinearity, a) / math.sqrt(_fan(tensor, mode))
    bound = math.sqrt(3.0) * std
    return tensor.uniform_(-bound, bound, generator=generator)


@no_grad()
def kaiming_normal_(
    tensor: Any,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Any:
    """Fill with normal values of Kaiming's (He's) variance, for rectifiers."""
    if _is_empty(tensor):
        return tensor
    std = calculate_gain(nonlinearity, a) / math.sqrt(_fan(tensor, mode))
    return tensor.normal_(0, std, generator=generator)


@no_grad()
def sparse_(tensor: Any, sparsity: float, std: float = 0.01, generator: Any = None) -> Any:
    """Fill with normal values, and set a share of each column to zero."""
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    tensor.normal_(0, std, generator=generator)
    for column in range(columns):
        gone = randperm(rows)[: math.ceil(sparsity * rows)]
        tensor[gone, column] = 0
    return tensor


@no_grad()
def dirac_(tensor: Any, groups: int = 1) -> Any:
    """Fill a convolution's weight so that its output is its input, as far as there are channels."""
    dims = tensor.ndimension()
    if dims not in {3, 4, 5}:
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.size(0) % groups != 0:
        raise ValueError("dim 0 must be divisible by groups")
    each = tensor.size(0) // groups
    middle = tuple(size // 2 for size in tensor.shape[2:])
    tensor.zero_()
    for group in range(groups):
        for channel in range(min(each, tensor.size(1))):
            tensor[(group * each + channel, channel, *middle)] = 1
    return tensor


@no_grad()
def orthogonal_(tensor: Any, gain: float = 1, generator: Any = None) -> Any:
    """Rows or columns that are orthogonal and of length `gain`."""
    if tensor.ndimension() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows = tensor.size(0)
    columns = tensor.numel() // rows
    flat = tensor.new_empty((rows, columns)).normal_(0, 1, generator=generator)
    if rows < columns:
        flat.t_()
    q, r = FUNCTIONS["linalg.qr"](flat)
    q *= FUNCTIONS["diag"](r, 0).sign()
    if rows < columns:
        q.t_()
    tensor.view_as(q).copy_(q)
    return tensor.mul_(gain)


# Old names of these functions, from before the underscore for in-place functions.
def _renamed(made: Any) -> Any:
    def deprecated(*args: Any, **kwargs: Any) -> Any:
        old, new = f"nn.init.{made.__name__[:-1]}", f"nn.init.{made.__name__}"
        warnings.warn(
            f"`{old}` is now deprecated in favor of `{new}`.", FutureWarning, stacklevel=2
        )
        return made(*args, **kwargs)

    deprecated.__name__ = deprecated.__qualname__ = made.__name__[:-1]
    return deprecated


for _made in (
    uniform_, normal_, constant_, eye_, dirac_, xavier_uniform_, xavier_normal_,
    kaiming_uniform_, kaiming_normal_, orthogonal_, sparse_,
):  # fmt: skip
    globals()[_made.__name__[:-1]] = _renamed(_made)
