"""Counts hooks that were registered before the recording, because their calls are not recorded.

In a notebook, modules, leaves and optimizers may already have hooks when a recording begins. Each
object is checked once, when it first occurs in the recording.
"""

from __future__ import annotations

from itertools import chain
from typing import Any
from weakref import ref

from torch import Tensor
from torch.nn.modules import module as modules
from torch.optim import optimizer as optimizers

from gradscope.watch.hooks.watched import HookedCalls, WatchedHook, is_watched
from gradscope.watch.in_place.by_identity import ByIdentity, attributes, is_a
from gradscope.watch.unseen import unseen

OF_MODULES = (
    "_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks",
)  # fmt: skip
OF_OPTIMIZERS = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")
OF_LEAVES = ("_backward_hooks", "_post_accumulate_grad_hooks")
DISTRIBUTED = "DistributedDataParallel"
FORMER = "hooks that were registered before the recording began, or copied"
OF_CPP = "hooks written in C++, with which DistributedDataParallel averages gradients"


class EarlierHooks:
    """Counts these hooks for one recording."""

    def __init__(self, calls: HookedCalls) -> None:
        self._calls = calls
        self._leaves: set[int] = set()
        self._optimizers: ByIdentity[bool] = ByIdentity()
        self._last: ref[Any] | None = None  # optimizer
        self._hooks = self._distributed = 0

    @property
    def left_out(self) -> dict[str, int]:
        """Descriptions of the hooks that are not recorded, with their counts."""
        many = {FORMER: self._hooks, OF_CPP: self._distributed}
        return {text: number for text, number in many.items() if number}

    def start(self) -> None:
        """Count the global hooks of modules and optimizers."""
        everywhere = (
            modules._global_forward_pre_hooks, modules._global_forward_hooks,
            modules._global_backward_pre_hooks, modules._global_backward_hooks,
            optimizers._global_optimizer_pre_hooks, optimizers._global_optimizer_post_hooks,
        )  # fmt: skip
        self._count(chain.from_iterable(each.values() for each in everywhere))

    def module(self, module: Any) -> None:
        """Called for each module, once."""
        self._look(module, OF_MODULES)
        self._distributed += type(module).__name__ == DISTRIBUTED

    def leaf(self, tensor: Any, number: int) -> None:
        """Called for each leaf, possibly more than once."""
        if number not in self._leaves:
            self._leaves.add(number)
            with unseen():
                self._look(tensor, OF_LEAVES)

    def optimizer(self, optimizer: Any) -> None:
        """Called after a step of an optimizer."""
        if self._last is None or self._last() is not optimizer:
            self._last = ref(optimizer)
            if optimizer not in self._optimizers:
                self._optimizers[optimizer] = True
                self._look(optimizer, OF_OPTIMIZERS)

    def _look(self, owner: Any, names: tuple[str, ...]) -> None:
        for name in names:
            is_tensor = is_a(owner, Tensor)
            hooks = getattr(owner, name, None) if is_tensor else attributes(owner).get(name)
            self._count((hooks or {}).values())

    def _count(self, hooks: Any) -> None:
        self._hooks += sum(not self._is_seen(hook) for hook in hooks)

    def _is_seen(self, hook: Any) -> bool:
        ours = is_watched(hook)
        return ours and (not issubclass(type(hook), WatchedHook) or hook._calls is self._calls)
