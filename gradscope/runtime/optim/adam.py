"""Adam: a moving mean of the gradient, divided by the root of that of its square."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.tensors.making.factories import zeros_like
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.optim.optimizer import Optimizer
from gradscope.runtime.optim.options import (
    Group,
    betas_checked,
    checked,
    count,
    fused_checked,
    number,
    scalar,
    tensors_checked,
)
from gradscope.runtime.optim.quick import QuickAdam


class Adam(Optimizer):
    """Steps along a moving mean of the gradient, over the root of a moving mean of its square."""

    quick = QuickAdam()
    added_since = {  # noqa: RUF012
        "amsgrad": False,
        "maximize": False,
        "foreach": None,
        "capturable": False,
        "differentiable": False,
        "decoupled_weight_decay": False,
        "fused": None,
    }

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: Any = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        if isinstance(lr, Tensor):
            tensors_checked(lr, (), foreach=foreach, capturable=capturable)
        checked(lr=lr, eps=eps)
        betas_checked(betas)
        checked(weight_decay=weight_decay)
        tensors_checked(None, betas, foreach=foreach, capturable=capturable)
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": tuple(scalar(beta) for beta in betas),
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
        if fused:
            self._step_supports_amp_scaling = True
        fused_checked(fused=fused, foreach=foreach, differentiable=differentiable)

    def _begin(self, state: dict[str, Any], param: Any, group: Group) -> None:
        state["step"] = count(0.0, fused=bool(group["fused"]))
        state["exp_avg"] = zeros_like(param)
        state["exp_avg_sq"] = zeros_like(param)
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = zeros_like(param)

    def _state(self, param: Any, group: Group) -> dict[str, Any]:
        state = super()._state(param, group)
        if group["differentiable"] and state["step"].requires_grad:
            raise RuntimeError("`requires_grad` is not supported for `step` in differentiable mode")
        return state

    def _update(self, param: Any, grad: Any, state: dict[str, Any], group: Group) -> None:
        state["step"] += 1
        lr, decay = scalar(group["lr"]), group["weight_decay"]
        beta1, beta2 = map(scalar, group["betas"])
        if decay != 0:
            grad = _decayed(param, grad, lr, decay, group)
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        first: Any = beta1.to(param.dtype) if isinstance(beta1, Tensor) else beta1
        mean.lerp_(grad, 1 - first)
        if group["differentiable"] and getattr(beta2, "requires_grad", False):
            square.lerp_(grad.square(), weight=1 - beta2)
        else:
            square.mul_(beta2).addcmul_(grad, grad, value=number(1 - beta2))
        if group["differentiable"]:
            _step_as_tensors(param, state, group, lr, beta1, beta2)
            return
        step = state["step"].item()
        correction = 1 - beta1**step
        if group["amsgrad"]:
            greatest = state["max_exp_avg_sq"]
            square = greatest.copy_(greatest.maximum(square))
        # Both means start at zero. The bias corrections compensate for that.
        root = (square.sqrt() / (1 - beta2**step) ** 0.5).add_(group["eps"])
        param.addcdiv_(mean, root, value=number(-(lr / correction)))


def _decayed(param: Any, grad: Any, lr: Any, decay: Any, group: Group) -> Any:
    """Apply weight decay: to the parameter itself (decoupled), or to its gradient."""
    if group["decoupled_weight_decay"]:
        param.mul_(1 - lr * decay)
        return grad
    if isinstance(decay, Tensor) and decay.requires_grad and group["differentiable"]:
        return grad.addcmul_(param.clone(), decay)
    return grad.add(param, alpha=number(decay))


def _step_as_tensors(
    param: Any, state: dict[str, Any], group: Group, lr: Any, beta1: Any, beta2: Any
) -> None:
    """One step in differentiable operations: gradients reach the rate and the decays, too."""
    step = state["step"]
    grown = isinstance(beta1, Tensor) and beta1.requires_grad
    correction1 = 1 - beta1 ** (step.clone() if grown else step)
    grown = isinstance(beta2, Tensor) and beta2.requires_grad
    correction2 = 1 - beta2 ** (step.clone() if grown else step)
    size = (lr / correction1).neg()
    root = correction2.sqrt()
    square = state["exp_avg_sq"]
    if group["amsgrad"]:
        greatest = state["max_exp_avg_sq"]
        square = greatest.copy_(greatest.clone().maximum(square))
    denominator = (square.sqrt() / (root * size)).add_(group["eps"] / size)
    param.addcdiv_(state["exp_avg"].clone(), denominator)
