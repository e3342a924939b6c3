"""Adamax: Adam with the largest gradient in place of the mean square."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.calls.extra_arguments.out import written
from gradscope.runtime.core.ops.pointwise.choice import maximum
from gradscope.runtime.core.ops.shape.joining import cat
from gradscope.runtime.core.tensors.making.factories import zeros_like
from gradscope.runtime.optim.optimizer import Optimizer
from gradscope.runtime.optim.options import (
    WAYS,
    Group,
    betas_checked,
    checked,
    count,
    number,
    scalar,
)


class Adamax(Optimizer):
    """Divides a moving mean of the gradient by its decaying maximum."""

    added_since = WAYS

    def __init__(
        self,
        params: Any,
        lr: Any = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        checked(lr=lr, eps=eps)
        betas_checked(betas)
        checked(weight_decay=weight_decay)
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "capturable": capturable,
            },
        )

    def _begin(self, state: dict[str, Any], param: Any, group: Group) -> None:
        state["step"] = count(0.0)
        state["exp_avg"] = zeros_like(param)
        state["exp_inf"] = zeros_like(param)

    def _update(self, param: Any, grad: Any, state: dict[str, Any], group: Group) -> None:
        state["step"] += 1
        if group["weight_decay"] != 0:
            grad = grad.add(param, alpha=group["weight_decay"])
        beta1, beta2 = group["betas"]
        mean, greatest = state["exp_avg"], state["exp_inf"]
        mean.lerp_(grad, 1 - beta1)
        size = grad.abs().add_(group["eps"])
        if group["differentiable"]:
            pair = cat([greatest.mul_(beta2).unsqueeze(0), size.unsqueeze_(0)], 0)
            greatest.copy_(pair.amax(0))  # compared separately from the state
        else:
            written("maximum", maximum(greatest.mul_(beta2), size), greatest)
        correction = 1 - beta1 ** state["step"].item()
        param.addcdiv_(mean, greatest, value=number(-(scalar(group["lr"]) / correction)))
