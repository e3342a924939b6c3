"""Adam, and AdamW, which lets weights decay apart from the gradient."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.factories import tensor
from gradscope.runtime.optim.optimizer import (
    Group,
    Optimizer,
    betas_checked,
    checked,
    zeros_like,
)


class Adam(Optimizer):
    """Against a moving mean of the gradient, over the root of a moving mean of its square."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
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
                "amsgrad": amsgrad,
                "maximize": maximize,
                "foreach": foreach,
                "capturable": capturable,
                "differentiable": differentiable,
                "fused": fused,
                "decoupled_weight_decay": decoupled_weight_decay,
            },
        )

    def _update(self, param: Any, grad: Any, state: dict[str, Any], group: Group) -> None:
        if not state:
            state["step"] = tensor(0.0)
            state["exp_avg"] = zeros_like(param)
            state["exp_avg_sq"] = zeros_like(param)
            if group["amsgrad"]:
                state["max_exp_avg_sq"] = zeros_like(param)
        state["step"] += 1
        step, lr, decay = state["step"].item(), group["lr"], group["weight_decay"]
        if decay != 0 and group["decoupled_weight_decay"]:
            param.mul_(1 - lr * decay)
        elif decay != 0:
            grad = grad.add(param, alpha=decay)
        beta1, beta2 = group["betas"]
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        mean.lerp_(grad, 1 - beta1)
        square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        if group["amsgrad"]:
            square = _greatest(state, square)
        # Both means start at zero; the corrections undo what that takes from them.
        root = (square.sqrt() / (1 - beta2**step) ** 0.5).add_(group["eps"])
        param.addcdiv_(mean, root, value=-lr / (1 - beta1**step))


def _greatest(state: dict[str, Any], square: Any) -> Any:
    """The greatest mean square so far, which this one may raise."""
    so_far = state["max_exp_avg_sq"]
    so_far.copy_(so_far.maximum(square))
    return so_far


class AdamW(Adam):
    """Adam whose weights decay on their own, not through the gradient."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            decoupled_weight_decay=True,
            **options,
        )
