"""Base of all schedulers of learning rates."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any
from weakref import ref

from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.optim.optimizer import Optimizer
from gradscope.runtime.optim.options import scalar

EPOCH_DEPRECATION = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where "
    "possible. Please use `scheduler.step()` to step the scheduler. During the deprecation, if "
    "epoch is different from None, the closed form is used instead of the new chainable form, "
    "where available. Please open an issue if you are unable to replicate your use case: "
    "https://github.com/pytorch/pytorch/issues/new/choose."
)
ADJUST = "https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"
OVERRIDDEN = (
    "Seems like `optimizer.step()` has been overridden after learning rate scheduler "
    "initialization. Please, make sure to call `optimizer.step()` before `lr_scheduler.step()`. "
    f"See more details at {ADJUST}"
)
TOO_EARLY = (
    "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, "
    "you should call them in the opposite order: `optimizer.step()` before `lr_scheduler.step()`.  "
    "Failure to do this will result in PyTorch skipping the first value of the learning rate "
    f"schedule. See more details at {ADJUST}"
)
ASK_LAST = "To get the last learning rate computed by the scheduler, please use `get_last_lr()`."
RESUMED = (
    "when resuming scheduler with last_epoch >= 0.\n"
    "This typically happens when:\n"
    "1. You're trying to resume training from a checkpoint but haven't properly loaded the "
    "optimizer state\n"
    "2. You're using last_epoch >= 0 for a fresh training run (not recommended)"
)


def kept(value: Any) -> Any:
    """A copy of an option that later writes to the optimizer do not change."""
    return value.clone() if isinstance(value, Tensor) else value


def values_of(optimizer: Any, name: str) -> list[Any]:
    """The value of an option in each group."""
    return [kept(group[name]) for group in optimizer.param_groups]


def set_value(group: dict[str, Any], name: str, value: Any) -> None:
    """Set an option of a group. A tensor is overwritten, not replaced."""
    if isinstance(group[name], Tensor):
        group[name].fill_(scalar(value))
    else:
        group[name] = value


def for_each_group(name: str, optimizer: Any, value: Any) -> list[Any]:
    """A list with one value per group, from one value for all or from a list."""
    count = len(optimizer.param_groups)
    if not isinstance(value, list | tuple):
        return [kept(value) for _ in range(count)]
    if len(value) != count:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. "
            f"{name} has {len(value)} values, param_groups has {count}."
        )
    return [kept(one) for one in value]


def check_optimizer(optimizer: Any) -> None:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


class LRScheduler:
    """Sets the learning rates of an optimizer's groups, once an epoch.

    A subclass defines `get_lr`, which returns the new rates; the optimizer still has the previous
    ones. It may define `_get_closed_form_lr`, which does not depend on the previous rates.
    """

    _get_lr_called_within_step = False
    _is_initial = False
    last_epoch: int
    base_lrs: list[Any]
    _last_lr: list[Any]

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for nr, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", kept(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{nr}] {RESUMED}"
                )
        self.base_lrs = values_of(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        _notice_steps(optimizer)
        self._initial_step()

    def _initial_step(self) -> None:
        """Set the rates of the first epoch."""
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """The last rates that were set."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        raise NotImplementedError

    def asked(self) -> None:
        """Warn a program that calls `get_lr` where it means `get_last_lr`."""
        if not self._get_lr_called_within_step:
            warnings.warn(ASK_LAST, UserWarning, stacklevel=3)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        self._get_lr_called_within_step = True
        try:
            yield
        finally:
            self._get_lr_called_within_step = False

    @property
    def _groups(self) -> list[dict[str, Any]]:
        return self.optimizer.param_groups

    def _current(self) -> list[Any]:
        return values_of(self.optimizer, "lr")

    def _times(self, factor: Any) -> list[Any]:
        """The present rates times a factor."""
        return [group["lr"] * factor for group in self._groups]

    def step(self, epoch: int | None = None) -> None:
        """Advance by one epoch."""
        if self._step_count == 1:
            if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
                warnings.warn(OVERRIDDEN, UserWarning, stacklevel=2)
            elif not getattr(self.optimizer, "_opt_called", False):
                warnings.warn(TOO_EARLY, UserWarning, stacklevel=2)
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        with self._asking():
            self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
            closed = None if epoch is None else getattr(self, "_get_closed_form_lr", None)
            self._set(self.get_lr() if closed is None else closed())

    def _set(self, rates: list[Any]) -> None:
        for group, lr in zip(self._groups, rates, strict=True):
            set_value(group, "lr", lr)
        self._last_lr = self._current()


def _notice_steps(optimizer: Any) -> None:
    """Wrap the optimizer's `step` so that it records that it was called."""
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return
    function: Callable[..., Any] = optimizer.step.__func__
    known = ref(optimizer)

    @wraps(function)
    def step(*args: Any, **kwargs: Any) -> Any:
        owner: Any = known()
        owner._opt_called = True
        return function.__get__(owner, type(owner))(*args, **kwargs)

    step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    optimizer.step = step
