"""RMSprop: steps divided by the size of recent gradients."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.tensors.making.factories import zeros_like
from gradscope.runtime.optim.optimizer import Optimizer
from gradscope.runtime.optim.options import WAYS, Group, checked, count, number, scalar
from gradscope.runtime.optim.quick import QuickRMSprop


class RMSprop(Optimizer):
    """Divides the gradient by the root of a moving mean of its square."""

    quick = QuickRMSprop()
    added_since = {  # noqa: RUF012
        "momentum": 0,
        "centered": False,
        **WAYS,
    }

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        checked(lr=lr, eps=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "alpha": alpha,
                "eps": eps,
                "centered": centered,
                "weight_decay": weight_decay,
                "capturable": capturable,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
            },
        )

    def _begin(self, state: dict[str, Any], param: Any, group: Group) -> None:
        state["step"] = count(0.0)
        state["square_avg"] = zeros_like(param)
        if group["momentum"] > 0:
            state["momentum_buffer"] = zeros_like(param)
        if group["centered"]:
            state["grad_avg"] = zeros_like(param)

    def _update(self, param: Any, grad: Any, state: dict[str, Any], group: Group) -> None:
        state["step"] += 1
        if group["weight_decay"] != 0:
            grad = grad.add(param, alpha=group["weight_decay"])
        alpha, square, lr = group["alpha"], state["square_avg"], scalar(group["lr"])
        square.mul_(alpha).addcmul_(grad, grad, value=1 - alpha)
        if group["centered"]:
            mean = state["grad_avg"]
            mean.lerp_(grad, 1 - alpha)
            root = square.addcmul(mean, mean, value=-1).sqrt_()
        else:
            root = square.sqrt()
        root = root.add(group["eps"]) if group["differentiable"] else root.add_(group["eps"])
        if group["momentum"] > 0:
            moving = state["momentum_buffer"]
            moving.mul_(group["momentum"]).addcdiv_(grad, root)
            param.add_(moving, alpha=number(-lr))
        else:
            param.addcdiv_(grad, root, value=number(-lr))
