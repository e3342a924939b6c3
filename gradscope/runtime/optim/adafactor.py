"""Adafactor: stores mean squares of a matrix's rows and columns only."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.dtypes.limits import finfo
from gradscope.runtime.core.tensors.making.factories import zeros_like
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.optim.optimizer import Optimizer
from gradscope.runtime.optim.options import Group, count, number, scalar


class Adafactor(Optimizer):
    """Adam's step with a mean square factored into a row and a column."""

    added_since = {"foreach": None}  # noqa: RUF012

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not number(lr) >= 0.0:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not beta2_decay <= 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None and not eps[0] >= 0.0:
            raise ValueError(f"epsilon1 should be >= 0 but is: {eps[0]}")
        if not eps[1] >= 0.0:
            raise ValueError(f"epsilon2 should be >= 0 but is: {eps[1]}")
        if not d >= 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight_decay should be >= 0 but is: {weight_decay}")
        super().__init__(
            params,
            {
                "lr": lr,
                "beta2_decay": beta2_decay,
                "eps": eps,
                "d": d,
                "weight_decay": weight_decay,
                "foreach": foreach,
                "maximize": maximize,
            },
        )

    def _begin(self, state: dict[str, Any], param: Any, group: Group) -> None:
        if param.is_complex():
            raise RuntimeError("Adafactor does not support complex parameters")
        state["step"] = count(0.0)
        shape = list(param.grad.shape)
        if len(shape) > 1:
            state["row_var"] = param.grad.new_zeros([*shape[:-1], 1])
            state["col_var"] = param.grad.new_zeros([*shape[:-2], 1, shape[-1]])
        else:
            state["variance"] = zeros_like(param.grad)

    def _update(self, param: Any, grad: Any, state: dict[str, Any], group: Group) -> None:
        state["step"] += 1
        step, lr = state["step"].item(), number(scalar(group["lr"]))
        least, least_size = group["eps"]
        least = finfo(param.dtype).eps if least is None else least
        size = max(least_size, param.norm(2).item() / param.numel() ** 0.5)
        alpha = size * min(lr, 1 / step**0.5)
        if group["weight_decay"] != 0:
            param.mul_(1 - lr * group["weight_decay"])
        square = _mean_square(grad, state, step ** group["beta2_decay"], least)
        update = square.clamp_(min=least * least).rsqrt_()
        update.mul_(grad)
        clip = max(1.0, update.norm(2).item() / (update.numel() ** 0.5 * group["d"]))
        param.add_(update, alpha=-alpha / clip)


def _mean_square(grad: Any, state: dict[str, Any], weight: float, least: float) -> Any:
    """The estimated mean square of each element."""
    if grad.dim() <= 1:
        state["variance"].lerp_(grad * grad, weight)
        return state["variance"].clone()
    rows, columns = state["row_var"], state["col_var"]
    for kept, dim in ((rows, -1), (columns, -2)):
        kept.lerp_(grad.norm(dim=dim, keepdim=True).square_().div_(grad.size(dim)), weight)
    estimate = rows @ columns
    return estimate.div_(rows.mean(dim=-2, keepdim=True).clamp_(min=least))
