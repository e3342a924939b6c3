"""A module's call when somebody listens: hooks before and after, and the probe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradscope.runtime import probe
from gradscope.runtime.autograd.hooks import RemovableHandle


def registered(
    module: Any, kind: str, hook: Callable[..., Any], prepend: bool, with_kwargs: bool
) -> RemovableHandle:
    """Add a hook to the module's of this kind, last or first."""
    hooks = module.__dict__[kind]
    handle = RemovableHandle.added(hooks, hook)
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    if with_kwargs:
        module.__dict__[f"{kind}_with_kwargs"][handle.id] = True
    return handle


def attended(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The module's result, after telling whoever wants to know."""
    here = probe.here
    if here is not None:
        here.module_begin(module)
    try:
        return _hooked(module, args, kwargs)
    finally:
        if here is not None:
            here.module_end(module)


def _hooked(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    called: set[int] = set()
    try:
        args, kwargs = _before(module, args, kwargs)
        result = module.forward(*args, **kwargs)
        return _after(module, args, kwargs, result, called)
    except BaseException:
        _always(module, args, kwargs, called)
        raise


def _before(
    module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    with_kwargs = module._forward_pre_hooks_with_kwargs
    for number, hook in list(module._forward_pre_hooks.items()):
        if number not in with_kwargs:
            found = hook(module, args)
            if found is not None:
                args = found if isinstance(found, tuple) else (found,)
            continue
        found = hook(module, args, kwargs)
        if found is None:
            continue
        if not (isinstance(found, tuple) and len(found) == 2):
            raise RuntimeError(
                "forward pre-hook must return None or a tuple "
                f"of (new_args, new_kwargs), but got {found}."
            )
        args, kwargs = found
    return args, kwargs


def _after(
    module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, called: set[int]
) -> Any:
    for number, hook in list(module._forward_hooks.items()):
        called.add(number)
        found = _call(module, number, hook, args, kwargs, result)
        if found is not None:
            result = found
    return result


def _call(
    module: Any,
    number: int,
    hook: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    result: Any,
) -> Any:
    if number in module._forward_hooks_with_kwargs:
        return hook(module, args, kwargs, result)
    return hook(module, args, result)


def _always(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], called: set[int]) -> None:
    """After an error, call the hooks that asked to be called in any case."""
    for number, hook in list(module._forward_hooks.items()):
        if number in module._forward_hooks_always_called and number not in called:
            _call(module, number, hook, args, kwargs, None)
