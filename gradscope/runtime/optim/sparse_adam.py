"""SparseAdam, which needs sparse gradients; this runtime makes none."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.optim.optimizer import Optimizer
from gradscope.runtime.optim.options import Group, betas_checked, number
from gradscope.runtime.tensor import Tensor


class SparseAdam(Optimizer):
    """Adam for gradients of which few rows are there. A dense one is refused, as in PyTorch."""

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
        raise RuntimeError(
            "SparseAdam does not support dense gradients, please consider Adam instead"
        )

    def _update(self, param: Any, grad: Any, state: dict[str, Any], group: Group) -> None:
        self._state(param, group)
