"""Rprop: uses the sign of a gradient only. Each element has its own step size."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.tensors.making.factories import full_like, zeros_like
from gradscope.runtime.optim.optimizer import Optimizer
from gradscope.runtime.optim.options import WAYS, Group, checked, count, number


class Rprop(Optimizer):
    """Steps whose size grows while the gradient keeps its sign, and shrinks when it changes."""

    added_since = WAYS

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        checked(lr=lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(
            params,
            {
                "lr": lr,
                "etas": etas,
                "step_sizes": step_sizes,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "capturable": capturable,
            },
        )

    def _begin(self, state: dict[str, Any], param: Any, group: Group) -> None:
        lr = number(group["lr"])
        state["step"] = count(0.0)
        state["prev"] = zeros_like(param)
        state["step_size"] = full_like(param.grad, complex(lr, lr) if param.is_complex() else lr)

    def _update(self, param: Any, grad: Any, state: dict[str, Any], group: Group) -> None:
        state["step"] += 1
        shrink, grow = group["etas"]
        least, most = group["step_sizes"]
        before, size = state["prev"], state["step_size"]
        sign = grad.mul(before.clone() if group["differentiable"] else before).sign()
        sign[sign.gt(0)] = grow
        sign[sign.lt(0)] = shrink
        sign[sign.eq(0)] = 1
        size.mul_(sign).clamp_(least, most)
        grad = grad.clone()
        grad[sign.eq(shrink)] = 0  # no update in this step
        param.addcmul_(grad.sign(), size, value=-1)
        before.copy_(grad)
