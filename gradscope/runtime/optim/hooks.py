"""Hooks of optimizers: around steps, saving and loading."""

from __future__ import annotations

import functools
import sys
from collections import OrderedDict
from collections.abc import Callable
from itertools import chain
from typing import Any

from gradscope.program_listener import is_nested
from gradscope.runtime.core import probe
from gradscope.runtime.core.state.hook_handles import RemovableHandle
from gradscope.runtime.core.state.thread import local

_before_every: OrderedDict[int, Any] = OrderedDict()
_after_every: OrderedDict[int, Any] = OrderedDict()

BEFORE, AFTER = 12, 13
"""Kinds of hooks, as reported to a watcher."""

KINDS = (
    "_optimizer_step_pre_hooks",
    "_optimizer_step_post_hooks",
    "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks",
    "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` before each step of any optimizer."""
    return RemovableHandle.added(_before_every, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` after each step of any optimizer."""
    return RemovableHandle.added(_after_every, hook)


def with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a step: run its hooks, and report its begin and end to the watcher."""

    @functools.wraps(step)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        here = probe.here
        if here is not None:
            here.step_begins(self)
        try:
            own = _own(self, KINDS[0])
            hooks = list(chain(_before_every.values(), own)) if own or _before_every else ()
            for index, before in enumerate(hooks):
                replaced = _heard(BEFORE, index, before, self, args, kwargs)
                if replaced is None:
                    continue
                if not (isinstance(replaced, tuple) and len(replaced) == 2):
                    raise RuntimeError(
                        f"{step} must return None or a tuple of (new_args, new_kwargs), "
                        f"but got {replaced}."
                    )
                args, kwargs = replaced
            result = step(self, *args, **kwargs)
            if here is not None:
                here.step_written(self, sys._getframe())
            own = _own(self, KINDS[1])
            hooks = list(chain(own, _after_every.values())) if own or _after_every else ()
            for index, after in enumerate(hooks):
                _heard(AFTER, index, after, self, args, kwargs)
        finally:
            if here is not None:
                here.step_ends(nested=is_nested(sys._getframe()))
        return result

    wrapper.hooked = True  # type: ignore[attr-defined]
    return wrapper


def _heard(kind: int, index: int, hook: Callable[..., Any], *given: Any) -> Any:
    """Call a hook and report it to the watcher if there is one."""
    here, state = probe.here, local.state
    if here is None:
        return hook(*given)
    here.hook_begins(state.task, None, kind, index, hook)
    found = None
    try:
        found = hook(*given)
    finally:
        here.hook_ends(state.task, None, kind, index, found is not None, ())
    return found


def _own(optimizer: Any, kind: str) -> Any:
    return optimizer.__dict__.get(kind, {}).values()


class Hooked:
    """The hooks of one optimizer."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__ and not getattr(cls.__dict__["step"], "hooked", False):
            cls.step = with_hooks(cls.__dict__["step"])  # type: ignore[attr-defined]

    def _prepare(self) -> None:
        """Create a dict for each kind of hook."""
        for kind in KINDS:
            self.__dict__.setdefault(kind, OrderedDict())

    def _added(
        self, kind: str, hook: Callable[..., Any], *, first: bool = False
    ) -> RemovableHandle:
        hooks = self.__dict__[kind]
        handle = RemovableHandle.added(hooks, hook)
        if first:
            hooks.move_to_end(handle.id, last=False)
        return handle

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step. It may return other arguments."""
        return self._added(KINDS[0], hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        return self._added(KINDS[1], hook)

    def register_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer)` before `state_dict` collects the state."""
        return self._added(KINDS[2], hook, first=prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before `state_dict` returns. It may replace it."""
        return self._added(KINDS[3], hook, first=prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before a state is loaded; it may replace it."""
        return self._added(KINDS[4], hook, first=prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer)` after a state was loaded."""
        return self._added(KINDS[5], hook, first=prepend)
