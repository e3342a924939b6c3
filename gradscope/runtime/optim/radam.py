"""RAdam: Adam that divides by the mean square once its variance is low enough."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.tensors.making.factories import zeros_like
from gradscope.runtime.optim.optimizer import Optimizer
from gradscope.runtime.optim.options import Group, betas_checked, checked, count, scalar


class RAdam(Optimizer):
    """Steps along the mean at first, later divided by the rectified root of the mean square."""

    added_since = {  # noqa: RUF012
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "decoupled_weight_decay": False,
        "capturable": False,
    }

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
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
                "maximize": maximize,
                "foreach": foreach,
                "capturable": capturable,
                "decoupled_weight_decay": decoupled_weight_decay,
                "differentiable": differentiable,
            },
        )

    def _begin(self, state: dict[str, Any], param: Any, group: Group) -> None:
        state["step"] = count(0.0)
        state["exp_avg"] = zeros_like(param)
        state["exp_avg_sq"] = zeros_like(param)

    def _update(self, param: Any, grad: Any, state: dict[str, Any], group: Group) -> None:
        state["step"] += 1
        step, lr, decay = state["step"].item(), scalar(group["lr"]), group["weight_decay"]
        if decay != 0 and group["decoupled_weight_decay"]:
            param.mul_(1 - lr * decay)
        elif decay != 0:
            grad = grad.add(param, alpha=decay)
        beta1, beta2 = group["betas"]
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        mean.lerp_(grad, 1 - beta1)
        square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        correction = 1 - beta2**step
        move = mean / (1 - beta1**step) * lr
        # Length of the mean square's average: at most `longest`, `length` at this step.
        longest = 2 / (1 - beta2) - 1
        length = longest - 2 * step * beta2**step / correction
        if length > 5.0:
            root = square.sqrt()
            root = root.add(group["eps"]) if group["differentiable"] else root.add_(group["eps"])
            sureness = (length - 4) * (length - 2) * longest
            sureness /= (longest - 4) * (longest - 2) * length
            move = move * (correction**0.5 / root) * sureness**0.5
        param.add_(move, alpha=-1.0)
