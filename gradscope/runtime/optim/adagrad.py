"""Adagrad: steps divided by the size of all gradients so far."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.tensors.making.factories import full_like
from gradscope.runtime.optim.optimizer import Optimizer
from gradscope.runtime.optim.options import Group, checked, count, fused_checked, number, scalar


class Adagrad(Optimizer):
    """Divides the gradient by the root of the sum of all past squares."""

    added_since = {  # noqa: RUF012
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "fused": None,
    }

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        checked(
            lr=lr,
            lr_decay=lr_decay,
            weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value,
            eps=eps,
        )
        super().__init__(
            params,
            {
                "lr": lr,
                "lr_decay": lr_decay,
                "eps": eps,
                "weight_decay": weight_decay,
                "initial_accumulator_value": initial_accumulator_value,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "fused": fused,
            },
        )
        if fused:
            self._step_supports_amp_scaling = True
        fused_checked(fused=fused, foreach=foreach, differentiable=differentiable)
        for group in self.param_groups:
            for param in group["params"]:
                self._begin(self.state[param], param, group)

    def share_memory(self) -> None:
        """Do nothing: threads share the states already."""

    def _begin(self, state: dict[str, Any], param: Any, group: Group) -> None:
        first = self.defaults["initial_accumulator_value"]
        state["step"] = count(0.0, fused=bool(group["fused"]))
        state["sum"] = full_like(
            param.detach(), complex(first, first) if param.is_complex() else first
        )

    def _update(self, param: Any, grad: Any, state: dict[str, Any], group: Group) -> None:
        state["step"] += 1
        if group["weight_decay"] != 0:
            grad = grad.add(param, alpha=group["weight_decay"])
        lr = scalar(group["lr"]) / (1 + (state["step"].item() - 1) * group["lr_decay"])
        state["sum"].addcmul_(grad, grad, value=1)
        root = state["sum"].sqrt()
        root = root + group["eps"] if group["differentiable"] else root.add_(group["eps"])
        param.addcdiv_(grad, root, value=number(-lr))
