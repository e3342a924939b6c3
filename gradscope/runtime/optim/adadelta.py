"""Adadelta: steps scaled by the size of past steps and gradients."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.tensors.making.factories import zeros_like
from gradscope.runtime.optim.optimizer import SUPPORTED, Optimizer
from gradscope.runtime.optim.options import WAYS, Group, checked, count, number, scalar


class Adadelta(Optimizer):
    """Adadelta: the gradient times RMS of past steps over RMS of gradients."""

    capturable_devices = SUPPORTED[:-1]
    added_since = WAYS

    def __init__(
        self,
        params: Any,
        lr: Any = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        checked(lr=lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        checked(eps=eps, weight_decay=weight_decay)
        super().__init__(
            params,
            {
                "lr": lr,
                "rho": rho,
                "eps": eps,
                "weight_decay": weight_decay,
                "maximize": maximize,
                "capturable": capturable,
                "foreach": foreach,
                "differentiable": differentiable,
            },
        )

    def _begin(self, state: dict[str, Any], param: Any, group: Group) -> None:
        state["step"] = count(0.0)
        state["square_avg"] = zeros_like(param)
        state["acc_delta"] = zeros_like(param)

    def _update(self, param: Any, grad: Any, state: dict[str, Any], group: Group) -> None:
        state["step"] += 1
        if group["weight_decay"] != 0:
            grad = grad.add(param, alpha=group["weight_decay"])
        rho, square, moved = group["rho"], state["square_avg"], state["acc_delta"]
        square.mul_(rho).addcmul_(grad, grad, value=1 - rho)
        root = square.add(group["eps"]).sqrt_()
        delta = moved.add(group["eps"]).sqrt_()
        if group["differentiable"]:
            delta = delta.clone()
        delta.div_(root).mul_(grad)
        moved.mul_(rho).addcmul_(delta, delta, value=1 - rho)
        param.add_(delta, alpha=number(-scalar(group["lr"])))
