"""NAdam: Adam with Nesterov momentum."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.tensors.making.factories import zeros_like
from gradscope.runtime.optim.optimizer import Optimizer
from gradscope.runtime.optim.options import Group, betas_checked, checked, count, number, scalar


class NAdam(Optimizer):
    """Adam whose step mixes the gradient with its moving mean, as Nesterov momentum does."""

    captured = "params, mu_products and state_steps"
    counts = ("step", "mu_product")
    added_since = {  # noqa: RUF012
        "maximize": False,
        "foreach": None,
        "capturable": False,
        "differentiable": False,
        "decoupled_weight_decay": False,
    }

    def __init__(
        self,
        params: Any,
        lr: Any = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        checked(lr=lr, eps=eps)
        betas_checked(betas)
        checked(weight_decay=weight_decay, momentum_decay=momentum_decay)
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "momentum_decay": momentum_decay,
                "decoupled_weight_decay": decoupled_weight_decay,
                "maximize": maximize,
                "foreach": foreach,
                "capturable": capturable,
                "differentiable": differentiable,
            },
        )

    def _begin(self, state: dict[str, Any], param: Any, group: Group) -> None:
        state["step"] = count(0.0)
        state["mu_product"] = count(1.0)
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
        now, following = (
            beta1 * (1.0 - 0.5 * 0.96 ** (s * group["momentum_decay"])) for s in (step, step + 1)
        )
        state["mu_product"] *= now
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        mean.lerp_(grad, 1 - beta1)
        square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        root = square.div(1 - beta2**step).sqrt()
        if group["differentiable"]:
            root = root.add(group["eps"])
            product = state["mu_product"]
            grad = grad * (-lr * (1.0 - now) / (1.0 - product))
            ahead = mean * (-lr * following / (1.0 - product * following))
            param.addcdiv_(grad, root)
            param.addcdiv_(ahead, root)
            return
        product = state["mu_product"].item()
        root.add_(group["eps"])
        param.addcdiv_(grad, root, value=number(-lr * (1.0 - now) / (1.0 - product)))
        param.addcdiv_(mean, root, value=number(-lr * following / (1.0 - product * following)))
