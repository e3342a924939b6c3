"""Options of optimizers: checks, with PyTorch's messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gradscope.runtime.core.dtypes.dtypes import float32, float64, get_default_dtype
from gradscope.runtime.core.tensors.making.factories import full
from gradscope.runtime.core.tensors.tensor.tensor import Tensor

Group = dict[str, Any]

WAYS = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}
"""Options that were added to most optimizers later, with their defaults."""

WORDS = {
    "lr": "learning rate",
    "eps": "epsilon value",
    "weight_decay": "weight_decay value",
    "momentum": "momentum value",
    "alpha": "alpha value",
    "rho": "rho value",
    "lr_decay": "lr_decay value",
    "momentum_decay": "momentum_decay value",
    "initial_accumulator_value": "initial_accumulator_value value",
}


def number(value: Any) -> Any:
    """The value of an option given as a number or a tensor of one element."""
    return value.item() if isinstance(value, Tensor) and value.numel() == 1 else value


def scalar(value: Any) -> Any:
    """An option given as a tensor of one element, as a tensor without dims."""
    return value.squeeze() if isinstance(value, Tensor) and value.dim() != 0 else value


def checked(**options: Any) -> None:
    """Refuse invalid options with PyTorch's messages."""
    for name, value in options.items():
        if name == "lr" and isinstance(value, Tensor) and value.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not number(value) >= 0.0:
            raise ValueError(f"Invalid {WORDS[name]}: {value}")


def betas_checked(betas: Iterable[Any]) -> None:
    for place, beta in enumerate(betas):
        if not 0.0 <= number(beta) < 1.0:
            raise ValueError(f"Invalid beta parameter at index {place}: {beta}")


def tensors_checked(lr: Any, betas: Any, *, foreach: Any, capturable: Any) -> None:
    """Check Adam's options given as tensors."""
    many = foreach and not capturable
    if isinstance(lr, Tensor) and many:
        raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
    kinds = {"float" if isinstance(beta, float) else isinstance(beta, Tensor) for beta in betas}
    if kinds not in (set(), {"float"}, {True}):
        raise ValueError("betas must be either both floats or both Tensors")
    for place, beta in enumerate(betas):
        if isinstance(beta, Tensor) and many:
            raise ValueError(
                f"betas[{place}] as a Tensor is not supported for capturable=False and foreach=True"
            )
        if isinstance(beta, Tensor) and beta.numel() != 1:
            raise ValueError(f"Tensor betas[{place}] must be 1-element")


def fused_checked(*, fused: Any, foreach: Any, differentiable: Any) -> None:
    """Check that `fused`, `foreach` and `differentiable` do not exclude each other."""
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


def count(value: float, *, fused: bool = False) -> Any:
    """A step count, or a value next to it, as a tensor of one element."""
    double = not fused and get_default_dtype() == float64
    return full((), value, dtype=float64 if double else float32)
