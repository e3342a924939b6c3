"""Averages of a model's weights during training, and the learning rate for it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

from gradscope.runtime.core.autograd.modes.grad_mode import no_grad
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.rows.offered import FUNCTIONS
from gradscope.runtime.core.tensors.making.factories import tensor
from gradscope.runtime.nn.modules.batchnorm import _BatchNorm
from gradscope.runtime.nn.modules.module import Module
from gradscope.runtime.optim.options import number
from gradscope.runtime.optim.schedules.schedule import LRScheduler, for_each_group

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]


def _check_decay(decay: float) -> None:
    if decay < 0.0 or decay > 1.0:
        raise ValueError(
            f"Invalid decay value {decay} provided. Please provide a value in [0,1] range."
        )


def _has_fractions(param: Any) -> bool:
    return bool(param.is_floating_point() or param.is_complex())


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[..., None]:
    """Returns a function that moves all averages towards the weights by a fixed share."""
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param_list: Any, current_param_list: Any, _: Any) -> None:
        if _has_fractions(ema_param_list[0]):
            FUNCTIONS["_foreach_lerp_"](ema_param_list, current_param_list, 1 - decay)
            return
        for average, current in zip(ema_param_list, current_param_list, strict=True):
            average.copy_(average * decay + current * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn() -> Callable[..., None]:
    """Returns a function that adds the weights to equally weighted averages."""

    @no_grad()
    def swa_update(averaged_param_list: Any, current_param_list: Any, num_averaged: Any) -> None:
        share = 1 / (number(num_averaged) + 1)
        if _has_fractions(averaged_param_list[0]):
            FUNCTIONS["_foreach_lerp_"](averaged_param_list, current_param_list, share)
            return
        for average, current in zip(averaged_param_list, current_param_list, strict=True):
            average.add_(current - average, alpha=share)

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> Callable[..., Any]:
    """Returns a function that moves one average towards a weight by a fixed share."""
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param: Any, current_param: Any, num_averaged: Any) -> Any:
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Callable[..., Any]:
    """Returns a function that adds one weight to an equally weighted average."""

    @no_grad()
    def swa_update(averaged_param: Any, current_param: Any, num_averaged: Any) -> Any:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


class AveragedModel(Module):
    """A model whose weights are averages of another model's."""

    n_averaged: Any

    def __init__(
        self,
        model: Any,
        device: Any = None,
        avg_fn: Any = None,
        multi_avg_fn: Any = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, dtype=dtypes.int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def _averaged(self, model: Any) -> list[tuple[Any, Any]]:
        """Pairs of tensors to average: here and in the model."""
        own, others = self.module.parameters(), model.parameters()
        if self.use_buffers:
            own = itertools.chain(own, self.module.buffers())
            others = itertools.chain(others, model.buffers())
        return [(a.detach(), b.detach().to(a.device)) for a, b in zip(own, others, strict=False)]

    def update_parameters(self, model: Any) -> None:
        """Update the averages with the model's present weights."""
        pairs = self._averaged(model)
        if bool(self.n_averaged == 0):
            for average, current in pairs:
                average.copy_(current)
        elif self.multi_avg_fn is not None:
            kinds: dict[Any, list[tuple[Any, Any]]] = {}
            for pair in pairs:
                kinds.setdefault(pair[0].dtype, []).append(pair)
            for alike in kinds.values():
                averages, currents = (list(column) for column in zip(*alike, strict=True))
                self.multi_avg_fn(averages, currents, self.n_averaged)
        else:
            mean = self.avg_fn or get_swa_avg_fn()
            for average, current in pairs:
                average.copy_(mean(average, current, self.n_averaged))
        if not self.use_buffers:
            for own, other in zip(self.module.buffers(), model.buffers(), strict=True):
                own.detach().copy_(other.detach().to(own.device))
        self.n_averaged += 1


@no_grad()
def update_bn(loader: Iterable[Any], model: Any, device: Any = None) -> None:
    """Recompute the statistics of batch norms in one pass over the data."""
    momenta = {}
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.reset_running_stats()
            momenta[module] = module.momentum
    if not momenta:
        return
    was_training = model.training
    model.train()
    for module in momenta:
        module.momentum = None
    for batch in loader:
        given = batch[0] if isinstance(batch, list | tuple) else batch
        model(given if device is None else given.to(device))
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Move the rate to a fixed one within some epochs, and keep it there."""

    def __init__(
        self,
        optimizer: Any,
        swa_lr: Any,
        anneal_epochs: Any = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        rates = for_each_group("swa_lr", optimizer, swa_lr)
        for rate, group in zip(rates, optimizer.param_groups, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in {"cos", "linear"}:
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._anneal_strategy = anneal_strategy
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def anneal_func(self, share: float) -> float:
        """The share of the way that the rate has moved."""
        return share if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * share)) / 2

    def get_lr(self) -> list[Any]:
        self.asked()
        epochs = self.anneal_epochs
        step = self._step_count - 1
        step = max(1, step) if epochs == 0 else step
        before, now = (
            self.anneal_func(max(0, min(1, at / max(1, epochs)))) for at in (step - 1, step)
        )
        rates = []
        for group in self._groups:
            last = group["swa_lr"]
            first = last if before == 1 else (group["lr"] - before * last) / (1 - before)
            rates.append(last * now + first * (1 - now))
        return rates
