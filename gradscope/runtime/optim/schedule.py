"""What all schedulers of learning rates share."""

from __future__ import annotations

import warnings
from typing import Any

from gradscope.runtime.optim.optimizer import Optimizer
from gradscope.runtime.optim.options import number

EPOCH_DEPRECATION = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where "
    "possible. Please use `scheduler.step()` to step the scheduler."
)


class LRScheduler:
    """Sets the learning rates of an optimizer's groups, once an epoch.

    A subclass says in `get_lr` what the rates are now; the optimizer holds those of before.
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        for nr, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise KeyError(
                    "param 'initial_lr' is not specified in param_groups"
                    f"[{nr}] when resuming scheduler with last_epoch >= 0"
                )
        self.base_lrs = [number(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._step_count = 0
        self._last_lr: list[float] = []
        self.step()

    def get_lr(self) -> list[float]:
        raise NotImplementedError

    def closed_form(self) -> list[float]:
        """The rates of `last_epoch`, whatever they were before; for those who jump there."""
        return self.get_lr()

    def get_last_lr(self) -> list[float]:
        """The rates set last."""
        return self._last_lr

    @property
    def current(self) -> list[float]:
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.__dict__.update(state_dict)

    def step(self, epoch: int | None = None) -> None:
        """Go on by one epoch."""
        if self._step_count == 1 and not self.optimizer.__dict__.get("_opt_called", False):
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch "
                "1.1.0 and later, you should call them in the opposite order: `optimizer.step()` "
                "before `lr_scheduler.step()`.  Failure to do this will result in PyTorch skipping "
                "the first value of the learning rate schedule. See more details at "
                "https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate",
                UserWarning,
                stacklevel=2,
            )
        self._step_count += 1
        if epoch is None:
            self.last_epoch += 1
        else:
            warnings.warn(EPOCH_DEPRECATION, UserWarning, stacklevel=2)
            self.last_epoch = epoch
        rates = self.get_lr() if epoch is None else self.closed_form()
        for group, lr in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = lr
        self._last_lr = self.current
