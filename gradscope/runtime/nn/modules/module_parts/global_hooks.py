"""Hooks of all modules at once, for whoever measures or debugs; they run before a module's own."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from types import ModuleType
from typing import Any

from gradscope.runtime.core.errors.engine import module_hooks as errors
from gradscope.runtime.core.state.hook_handles import RemovableHandle
from gradscope.runtime.nn.modules.module_parts.hooks import Hook, Hooks, rest

EVERYWHERE: list[bool] = []
"""Whether there is any hook here. See Note [Who listens to a module]."""


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
        """Let calls of modules be short again, if all hooks have been removed."""
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
"""What PyTorch calls them in `torch.nn.modules.module`, where programs also assign them."""


class _Offering(ModuleType):
    """A module through whose names the hooks of all modules are read and assigned."""

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
    """Let the hooks of all modules be reached under PyTorch's names in this module."""
    module.__class__ = _Offering


def _added(
    hooks: Any, hook: Hook, beside: dict[str, Any] | None = None, *on: str
) -> RemovableHandle:
    """Add a hook; `beside` are the dicts of its options, by name, and `on` those it asks for."""
    known = beside or {}
    handle = RemovableHandle(hooks, extra_dict=list(known.values()))
    for option in on:
        known[option][handle.id] = True
    hooks[handle.id] = hook
    return handle


def replaced(hooks: dict[int, Hook], module: Any, name: str, value: Any) -> Any:
    """What is to be registered, after each of these hooks has had its say."""
    for hook in list(hooks.values()):
        found = hook(module, name, value)
        value = value if found is None else found
    return value


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, buffer)` before a module registers a buffer."""
    return _added(everywhere.buffer_registration, hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, submodule)` before a module gets another as its part."""
    return _added(everywhere.module_registration, hook)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, parameter)` before a module registers a parameter."""
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
    """The old way; see Module.register_backward_hook."""
    if everywhere.backward_is_full is True:
        raise errors.mixed_global_hooks()
    everywhere.backward_is_full = False
    return _added(everywhere.backward, hook)
