"""SparseAdam: Adam for tables, which updates only rows that have a gradient."""

from __future__ import annotations

import math
from typing import Any

from gradscope.runtime.core.ops.index.sparse_tables import has_sparse_gradient
from gradscope.runtime.core.tensors.making.factories import zeros_like
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.optim.optimizer import Optimizer
from gradscope.runtime.optim.options import Group, betas_checked, number


class SparseAdam(Optimizer):
    """Adam for tables used with `sparse=True`. Refuses other parameters, as PyTorch does.

    A row has a gradient if any value in it is not zero.
    """

    counts = ()

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not number(lr) > 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps > 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        betas_checked(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        complex_at = [
            [nr, place]
            for nr, group in enumerate(self.param_groups)
            for place, param in enumerate(group["params"])
            if param.is_complex()
        ]
        if complex_at:
            raise ValueError(
                f"Complex params at indices {complex_at}: SparseAdam does not support complex "
                "parameters"
            )

    def _state(self, param: Any, group: Group) -> dict[str, Any]:
        if not has_sparse_gradient(param):
            raise RuntimeError(
                "SparseAdam does not support dense gradients, please consider Adam instead"
            )
        return super()._state(param, group)

    def _begin(self, state: dict[str, Any], param: Any, group: Group) -> None:
        state["step"] = 0
        state["exp_avg"] = zeros_like(param)
        state["exp_avg_sq"] = zeros_like(param)

    def _update(self, param: Any, grad: Any, state: dict[str, Any], group: Group) -> None:
        state["step"] += 1
        mean, square = group["betas"]
        rows = grad.ne(0).any(1).nonzero().squeeze(1)
        if not rows.numel():
            return
        there = grad[rows]
        averaged = _averaged(state["exp_avg"], rows, there, mean)
        squared = _averaged(state["exp_avg_sq"], rows, there * there, square)
        size = number(group["lr"]) * math.sqrt(1 - square ** state["step"])
        size /= 1 - mean ** state["step"]
        param.index_add_(0, rows, averaged.div_(squared.sqrt_().add_(group["eps"])).mul_(-size))


def _averaged(average: Any, rows: Any, new: Any, keep: float) -> Any:
    """The rows of a running average, after adding new values."""
    before = average[rows]
    moved = new.sub(before).mul_(1 - keep)
    average.index_add_(0, rows, moved)
    return moved.add_(before)
