"""Muon: orthogonalized momentum, for matrices of hidden layers."""

from __future__ import annotations

import math
from typing import Any

from gradscope.runtime.core.ops.products.linalg import addmm
from gradscope.runtime.core.tensors.making.factories import zeros_like
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.optim.optimizer import Optimizer
from gradscope.runtime.optim.options import Group, number, scalar

QUINTIC = (3.4445, -4.775, 2.0315)
"""Coefficients of a polynomial that brings singular values between 0.5 and 1.5 in a few iterations.
"""
ADJUSTMENTS = ["original", "match_rms_adamw"]


class Muon(Optimizer):
    """Steps by the nearest orthogonal matrix to a moving mean of the gradient."""

    counts = ()

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = QUINTIC,
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not number(lr) >= 0.0:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not momentum >= 0.0:
            raise ValueError(f"momentum should be >= 0 but is: {momentum}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight decay should be >= 0 but is: {weight_decay}")
        if adjust_lr_fn is not None and adjust_lr_fn not in ADJUSTMENTS:
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        super().__init__(
            params,
            {
                "lr": lr,
                "weight_decay": weight_decay,
                "momentum": momentum,
                "nesterov": nesterov,
                "ns_coefficients": ns_coefficients,
                "eps": eps,
                "ns_steps": ns_steps,
                "adjust_lr_fn": adjust_lr_fn,
            },
        )
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim != 2:
                    raise ValueError(
                        "Muon only supports 2D parameters whereas we found a parameter with size: "
                        f"{p.size()}"
                    )

    def _begin(self, state: dict[str, Any], param: Any, group: Group) -> None:
        if param.is_complex():
            raise RuntimeError("Muon does not support complex parameters")
        state["momentum_buffer"] = zeros_like(param.grad)

    def _update(self, param: Any, grad: Any, state: dict[str, Any], group: Group) -> None:
        if grad.ndim != 2:
            raise ValueError("Param gradient must be a 2D matrix")
        moving, momentum, lr = state["momentum_buffer"], group["momentum"], scalar(group["lr"])
        moving.lerp_(grad, 1 - momentum)
        update = grad.lerp(moving, momentum) if group["nesterov"] else moving
        update = _orthogonal(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
        param.mul_(1 - lr * group["weight_decay"])
        param.add_(update, alpha=number(-_adjusted(lr, group["adjust_lr_fn"], param.shape)))


def _orthogonal(matrix: Any, coefficients: Any, rounds: int, eps: float) -> Any:
    """The matrix with all singular values near one, by iterating a polynomial."""
    if rounds >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    first, third, fifth = coefficients
    tall = matrix.size(0) > matrix.size(1)
    wide = matrix.bfloat16()
    wide = wide.T if tall else wide
    wide.div_(wide.norm().clamp(min=eps))
    for _ in range(rounds):
        gram = wide @ wide.T
        inner = addmm(gram, gram, gram, beta=third, alpha=fifth)
        wide = addmm(wide, inner, wide, beta=first)
    return wide.T if tall else wide


def _adjusted(lr: Any, how: str | None, shape: Any) -> Any:
    """The learning rate for a matrix of this shape."""
    rows, columns = shape[:2]
    if how is None or how == "original":
        return lr * math.sqrt(max(1, rows / columns))
    return lr * (0.2 * math.sqrt(max(rows, columns)))
