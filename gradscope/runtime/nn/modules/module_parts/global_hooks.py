"""Global hooks, which run for every module, ahead of the module's own."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from types import ModuleType
from typing import Any

from gradscope.runtime.core.errors.engine import module_hooks as errors
from gradscope.runtime.core.state.hook_handles import RemovableHandle
from gradscope.runtime.nn.modules.module_parts.hooks import Hook, Hooks, rest

EVERYWHERE: list[bool] = []
"""Not empty if any global hook is registered. See Note [Calls without hooks]."""


class GlobalHooks:
    """The hooks of all modules."""

    def __init__(self) -> None:
        self.forward_pre = Hooks(EVERYWHERE)
        self.forward = Hooks(EVERYWHERE)
        self.forward_with_kwargs: OrderedDict[int, bool] = OrderedDict()
        self.forward_always_called: OrderedDict[int, bool] = OrderedDict()
        self.backward_pre = Hooks(EVERYWHERE)
        self.backward = Hooks(EVERYWHERE)
        self.backward_is_full: bool | None = None
        self.buffer_registration: OrderedDict[int, Hook] = OrderedDict()
        self.module_registration: OrderedDict[int, Hook] = OrderedDict()
        self.parameter_registration: OrderedDict[int, Hook] = OrderedDict()

    def listening(self) -> tuple[Hooks, ...]:
        return self.forward_pre, self.forward, self.backward_pre, self.backward

    def any(self) -> bool:
        return any(self.listening())

    def rest(self) -> None:
        """Empty EVERYWHERE if all global hooks were removed: calls take the fast path again."""
        rest(EVERYWHERE, self.listening())


everywhere = GlobalHooks()

LISTENED = {
    "_global_forward_pre_hooks": "forward_pre",
    "_global_forward_hooks": "forward",
    "_global_backward_pre_hooks": "backward_pre",
    "_global_backward_hooks": "backward",
}
NAMES = LISTENED | {
    "_global_forward_hooks_with_kwargs": "forward_with_kwargs",
    "_global_forward_hooks_always_called": "forward_always_called",
    "_global_is_full_backward_hook": "backward_is_full",
    "_global_buffer_registration_hooks": "buffer_registration",
    "_global_module_registration_hooks": "module_registration",
    "_global_parameter_registration_hooks": "parameter_registration",
}
"""PyTorch's names of the hooks in `torch.nn.modules.module`, which programs also assign."""


class _Offering(ModuleType):
    """A module type through which global hooks are read and assigned."""

    def __getattr__(self, name: str) -> Any:
        if name in NAMES:
            return getattr(everywhere, NAMES[name])
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in NAMES:
            super().__setattr__(name, value)
            return
        if name in LISTENED:
            given, value = value, Hooks(EVERYWHERE)
            value.update(given)
        setattr(everywhere, NAMES[name], value)


def offer(module: ModuleType) -> None:
    """Make the global hooks available under PyTorch's names in this module."""
    module.__class__ = _Offering


def _added(
    hooks: Any, hook: Hook, beside: dict[str, Any] | None = None, *on: str
) -> RemovableHandle:
    """Add a hook. `beside` are the dicts of its options by name, `on` the options that are set."""
    known = beside or {}
    handle = RemovableHandle(hooks, extra_dict=list(known.values()))
    for option in on:
        known[option][handle.id] = True
    hooks[handle.id] = hook
    return handle


def replaced(hooks: dict[int, Hook], module: Any, name: str, value: Any) -> Any:
    """The value to register, after each hook could replace it."""
    for hook in list(hooks.values()):
        found = hook(module, name, value)
        value = value if found is None else found
    return value


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, buffer)` when any module registers a buffer."""
    return _added(everywhere.buffer_registration, hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, submodule)` when any module registers a submodule."""
    return _added(everywhere.module_registration, hook)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, parameter)` when any module registers a parameter."""
    return _added(everywhere.parameter_registration, hook)


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, args)` before the forward of every module."""
    return _added(everywhere.forward_pre, hook)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call `hook(module, args, output)` after the forward of every module."""
    beside = {
        "with_kwargs": everywhere.forward_with_kwargs,
        "always_call": everywhere.forward_always_called,
    }
    asked = {"with_kwargs": with_kwargs, "always_call": always_call}
    return _added(everywhere.forward, hook, beside, *[name for name, on in asked.items() if on])


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, grad_output)` before the backward of every module."""
    return _added(everywhere.backward_pre, hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, grad_input, grad_output)` after the backward of every module."""
    if everywhere.backward_is_full is False:
        raise errors.mixed_global_hooks()
    everywhere.backward_is_full = True
    return _added(everywhere.backward, hook)


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Deprecated, see Module.register_backward_hook."""
    if everywhere.backward_is_full is True:
        raise errors.mixed_global_hooks()
    everywhere.backward_is_full = False
    return _added(everywhere.backward, hook)
