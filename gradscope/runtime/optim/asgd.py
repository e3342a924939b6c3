"""ASGD: gradient descent with averaged parameters."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.tensors.making.factories import as_tensor, zeros_like
from gradscope.runtime.optim.optimizer import Optimizer
from gradscope.runtime.optim.options import WAYS, Group, checked, count, number, scalar


class ASGD(Optimizer):
    """Gradient descent with a decaying rate. `ax` in the state is the mean of the parameters."""

    captured = "params, mus, etas, and state_steps"
    counts = ("step", "eta", "mu")
    added_since = WAYS

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        checked(lr=lr, weight_decay=weight_decay)
        super().__init__(
            params,
            {
                "lr": lr,
                "lambd": lambd,
                "alpha": alpha,
                "t0": t0,
                "weight_decay": weight_decay,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "capturable": capturable,
            },
        )

    def _begin(self, state: dict[str, Any], param: Any, group: Group) -> None:
        state["step"] = count(0.0)
        state["eta"] = count(number(group["lr"]))
        state["mu"] = count(1.0)
        state["ax"] = zeros_like(param)

    def _update(self, param: Any, grad: Any, state: dict[str, Any], group: Group) -> None:
        state["step"] += 1
        if group["weight_decay"] != 0:
            grad = grad.add(param, alpha=group["weight_decay"])
        lr, lambd = scalar(group["lr"]), group["lambd"]
        eta, mean = state["eta"].item(), state["ax"]
        param.mul_(1 - lambd * eta)
        param.add_(grad, alpha=-eta)
        if state["mu"].item() != 1:
            mean.add_(param.sub(mean).mul_(state["mu"]))
        else:
            mean.copy_(param)
        step = state["step"].item()
        state["eta"].copy_(as_tensor(lr / ((1 + lambd * lr * step) ** group["alpha"])))
        state["mu"].copy_(as_tensor(1 / max(1, step - group["t0"])))
