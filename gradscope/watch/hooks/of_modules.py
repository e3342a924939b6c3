"""Hooks of a single module or of all modules, and of optimizers."""

from __future__ import annotations

import sys
from itertools import chain
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.modules import module as modules
from torch.nn.modules.module import Module
from torch.optim import optimizer as optimizers
from torch.optim.optimizer import Optimizer

from gradscope.errors import leave_no_frame
from gradscope.watch.hooks.watched import HookedCalls, WatchedHook, is_watched
from gradscope.watch.in_place.by_identity import attributes
from gradscope.watch.in_place.standing_in import Replaced, passed_over
from gradscope.watch.unseen import stands_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

BEFORE_FORWARD, AFTER_FORWARD = "register_forward_pre_hook", "register_forward_hook"
BEFORE_BACKWARD, AFTER_BACKWARD = "register_full_backward_pre_hook", "register_full_backward_hook"
BEFORE_STEP, AFTER_STEP = "register_step_pre_hook", "register_step_post_hook"

REGISTERING: tuple[tuple[Any, str, str], ...] = (
    (Module, "register_forward_pre_hook", BEFORE_FORWARD),
    (Module, "register_forward_hook", AFTER_FORWARD),
    (Module, "register_full_backward_pre_hook", BEFORE_BACKWARD),
    (Module, "register_full_backward_hook", AFTER_BACKWARD),
    (Module, "register_backward_hook", AFTER_BACKWARD),
    (modules, "register_module_forward_pre_hook", BEFORE_FORWARD),
    (modules, "register_module_forward_hook", AFTER_FORWARD),
    (modules, "register_module_full_backward_pre_hook", BEFORE_BACKWARD),
    (modules, "register_module_full_backward_hook", AFTER_BACKWARD),
    (modules, "register_module_backward_hook", AFTER_BACKWARD),
    (Optimizer, "register_step_pre_hook", BEFORE_STEP),
    (Optimizer, "register_step_post_hook", AFTER_STEP),
    (optimizers, "register_optimizer_step_pre_hook", BEFORE_STEP),
    (optimizers, "register_optimizer_step_post_hook", AFTER_STEP),
)
"""Functions with which programs register hooks: the class or module, the name, and the kind."""


def _all(kind: str, owner: Any) -> Iterable[Any]:
    """The hooks of this kind of a module or optimizer, in order."""
    everywhere, own = {
        BEFORE_FORWARD: (modules._global_forward_pre_hooks, "_forward_pre_hooks"),
        AFTER_FORWARD: (modules._global_forward_hooks, "_forward_hooks"),
        BEFORE_BACKWARD: (modules._global_backward_pre_hooks, "_backward_pre_hooks"),
        AFTER_BACKWARD: (modules._global_backward_hooks, "_backward_hooks"),
        BEFORE_STEP: (optimizers._global_optimizer_pre_hooks, "_optimizer_step_pre_hooks"),
        AFTER_STEP: (optimizers._global_optimizer_post_hooks, "_optimizer_step_post_hooks"),
    }[kind]
    both = everywhere.values(), attributes(owner).get(own, {}).values()
    return chain(*(reversed(both) if kind == AFTER_STEP else both))


class WatchedModuleHook(WatchedHook):
    """A hook of a module or optimizer, which is its first argument."""

    __slots__ = ()

    _is_of_first = True

    def _index(self, attended: Any) -> int:
        place = 0
        for hook in _all(self._kind, attended):
            if hook is self:
                return place
            place += not _is_ours(hook)
        return 0


def _is_ours(hook: Any) -> bool:
    return str(getattr(hook, "__module__", "")).startswith("gradscope.watch") and not (
        isinstance(hook, WatchedModuleHook)
    )


class ModuleHooks:
    """Replaces the methods and functions with which programs register such hooks."""

    def __init__(self, calls: HookedCalls) -> None:
        self._calls = calls
        self._replaced = Replaced(stands_for)

    def start(self) -> None:
        """Start."""
        for home, name, kind in REGISTERING:
            own = home.__dict__.get(name)
            if own is not None:
                ours = self._registering(own, kind, method=isinstance(home, type))
                self._replaced.put(home, name, ours)

    def stop(self) -> None:
        """Stop."""
        self._replaced.take_back()

    def _registering(self, own: Any, kind: str, *, method: bool) -> Callable[..., Any]:
        guarded, watched = self._calls.faults.guarded, self._watched

        @passed_over
        def register(*given: Any, **more: Any) -> Any:
            try:
                place = int(method)  # of the hook
                hook = given[place] if len(given) > place else more.get("hook")
                made = guarded("a hook was registered", watched, hook, kind)
                if made is None:
                    return own(*given, **more)
                if len(given) > place:
                    return own(*given[:place], made, *given[place + 1 :], **more)
                return own(*given, **{**more, "hook": made})
            except BaseException as error:
                leave_no_frame(error)
                raise

        return register

    def _watched(self, hook: Any, kind: str) -> WatchedHook | None:
        if torch.compiler.is_compiling() or is_watched(hook):
            return None
        return WatchedModuleHook(
            hook, kind, self._calls, self._calls.listener.site(sys._getframe(3))
        )
