"""Stochastic gradient descent, with momentum if asked for."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.optim.optimizer import Group, Optimizer, checked


class SGD(Optimizer):
    """Against the gradient, or against a decaying sum of gradients."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        checked(lr=lr, momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "dampening": dampening,
                "weight_decay": weight_decay,
                "nesterov": nesterov,
                "maximize": maximize,
                "foreach": foreach,
                "differentiable": differentiable,
                "fused": fused,
            },
        )

    def _update(self, param: Any, grad: Any, state: dict[str, Any], group: Group) -> None:
        if group["weight_decay"] != 0:
            grad = grad.add(param, alpha=group["weight_decay"])
        momentum = group["momentum"]
        if momentum != 0:
            moving = state.get("momentum_buffer")
            if moving is None:
                moving = state["momentum_buffer"] = grad.detach().clone()
            else:
                moving.mul_(momentum).add_(grad, alpha=1 - group["dampening"])
            grad = grad.add(moving, alpha=momentum) if group["nesterov"] else moving
        param.add_(grad, alpha=-group["lr"])
