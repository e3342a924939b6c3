"""Stochastic gradient descent with optional momentum."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.optim.optimizer import Optimizer
from gradscope.runtime.optim.options import Group, checked, fused_checked, number, scalar
from gradscope.runtime.optim.quick import QuickSGD


class SGD(Optimizer):
    """Steps against the gradient, or against a decaying sum of gradients."""

    quick = QuickSGD()
    by_parts = False
    added_since = {  # noqa: RUF012
        "nesterov": False,
        "maximize": False,
        "foreach": None,
        "differentiable": False,
        "fused": False,
    }
    counts = ()

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: Any = 0,
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
        if fused:
            self._step_supports_amp_scaling = True
        fused_checked(fused=fused, foreach=foreach, differentiable=differentiable)

    def _state(self, param: Any, group: Group) -> dict[str, Any]:
        state: dict[str, Any] = self.state[param] if group["momentum"] != 0 else {}
        return state

    def _update(self, param: Any, grad: Any, state: dict[str, Any], group: Group) -> None:
        momentum, lr, decay = group["momentum"], scalar(group["lr"]), group["weight_decay"]
        if isinstance(decay, Tensor) and decay.requires_grad:
            grad = grad.addcmul_(param.clone(), decay)
        elif decay != 0:
            grad = grad.add(param, alpha=number(decay))
        if momentum != 0:
            moving = state.get("momentum_buffer")
            if moving is None:
                moving = state["momentum_buffer"] = grad.detach().clone()
            else:
                moving.mul_(momentum).add_(grad, alpha=1 - group["dampening"])
            grad = grad.add(moving, alpha=momentum) if group["nesterov"] else moving
        if isinstance(lr, Tensor) and lr.requires_grad:
            param.addcmul_(grad, lr, value=-1)
        else:
            param.add_(grad, alpha=number(-lr))
