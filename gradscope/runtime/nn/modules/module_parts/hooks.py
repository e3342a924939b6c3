"""Hooks of modules: storage and registration."""

from __future__ import annotations

import functools
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

from gradscope.runtime.core.errors.engine import module_hooks as errors
from gradscope.runtime.core.state.hook_handles import RemovableHandle

Hook = Callable[..., Any]


class Hooks(OrderedDict[int, Any]):
    """Hooks by the number of their handle. Adding one fills the list `attended`.

    # Note [Calls without hooks] A module's call must cost no more if there are no hooks, so it
    makes one check, not eight: all kinds of its hooks share one list, `_attended`, as all global
    hooks share EVERYWHERE. Adding a hook fills the list. Removals are not always noticed, so the
    next call that finds no hooks empties it (`rest`).
    """

    def __init__(self, attended: list[bool] | None = None) -> None:
        super().__init__()
        self.attended = [] if attended is None else attended

    def __setitem__(self, number: int, hook: Any) -> None:
        super().__setitem__(number, hook)
        if not self.attended:
            self.attended.append(True)

    def __reduce__(self) -> tuple[Any, ...]:
        return Hooks, (self.attended,), None, None, iter(self.items())


def rest(attended: list[bool], kinds: Iterable[Any]) -> None:
    """Empty the list `attended` if none of these kinds has hooks."""
    held = list(kinds)
    if not any(hooks or not isinstance(hooks, Hooks) for hooks in held):
        attended.clear()
        if any(held):  # another thread added one: it filled the list before it was emptied
            attended.append(True)


FORWARD_PRE, FORWARD = "_forward_pre_hooks", "_forward_hooks"
BACKWARD_PRE, BACKWARD = "_backward_pre_hooks", "_backward_hooks"
LISTENING = (FORWARD_PRE, FORWARD, BACKWARD_PRE, BACKWARD)
ASIDE = (
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks_with_kwargs",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)


def prepare(own: dict[str, Any]) -> None:
    """Give a module the dicts of hooks that it lacks."""
    if "_attended" not in own:
        own["_attended"] = [True] if any(name in own for name in LISTENING) else []
    for name in LISTENING:
        own.setdefault(name, Hooks(own["_attended"]))
    for name in ASIDE:
        own.setdefault(name, OrderedDict())
    own.setdefault("_is_full_backward_hook", None)


class WrappedHook:
    """A hook that gets its module as first argument, by weak reference."""

    def __init__(self, hook: Hook, module: Any = None) -> None:
        functools.update_wrapper(self, hook)  # first: it copies the hook's attributes
        self.hook = hook
        self.with_module = module is not None
        if module is not None:
            self.module: Callable[[], Any] = weakref.ref(module)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.with_module:
            return self.hook(*args, **kwargs)
        module = self.module()
        if module is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        return self.hook(module, *args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        state = {"hook": self.hook, "with_module": self.with_module}
        return {**state, "module": self.module()} if self.with_module else state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.hook = state["hook"]
        self.with_module = state["with_module"]
        if self.with_module:
            if state["module"] is None:
                raise RuntimeError("You are trying to revive the hook of a dead Module!")
            self.module = weakref.ref(state["module"])


class Hooked:
    """The methods of `Module` that register hooks."""

    _is_full_backward_hook: bool | None

    def _registered(
        self, kind: str, hook: Hook, *, prepend: bool, options: Iterable[str] = ()
    ) -> RemovableHandle:
        """Add a hook, last or first. `options` are the names of the option dicts it is added to."""
        own, hooks = self.__dict__, getattr(self, kind)
        beside = [own[name] for name in ASIDE if name.startswith(f"{kind}_")]
        handle = RemovableHandle(hooks, extra_dict=beside)
        for option in options:
            own[f"{kind}_{option}"][handle.id] = True
        hooks[handle.id] = hook
        if prepend:
            hooks.move_to_end(handle.id, last=False)
        return handle

    def register_forward_pre_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args)` before each forward. It may replace the arguments."""
        options = ["with_kwargs"] if with_kwargs else []
        return self._registered(FORWARD_PRE, hook, prepend=prepend, options=options)

    def register_forward_hook(
        self,
        hook: Hook,
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call `hook(module, args, output)` after each forward. It may replace the output."""
        wanted = {"with_kwargs": with_kwargs, "always_called": always_call}
        options = [name for name, on in wanted.items() if on]
        return self._registered(FORWARD, hook, prepend=prepend, options=options)

    def register_full_backward_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_output)` when the gradients of the outputs are complete."""
        return self._registered(BACKWARD_PRE, hook, prepend=prepend)

    def register_full_backward_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` when the inputs' gradients are complete."""
        if self._is_full_backward_hook is False:
            raise errors.mixed_backward_hooks(self)
        self._is_full_backward_hook = True
        return self._registered(BACKWARD, hook, prepend=prepend)

    def register_backward_hook(self, hook: Hook) -> RemovableHandle:
        """Deprecated: call `hook(module, grad_input, grad_output)` after the module's last node."""
        if self._is_full_backward_hook is True:
            raise errors.mixed_backward_hooks(self)
        self._is_full_backward_hook = False
        return self._registered(BACKWARD, hook, prepend=False)
