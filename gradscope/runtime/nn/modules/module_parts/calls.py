"""A module's call with hooks or a watcher."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from gradscope.runtime.core import probe
from gradscope.runtime.core.errors.engine.module_hooks import forward_pre_hook_result
from gradscope.runtime.core.state.warned import warn
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.nn.modules.module_parts.backward_hook import (
    BACKWARD,
    FORWARD,
    FORWARD_PRE,
    BackwardHook,
    heard,
)
from gradscope.runtime.nn.modules.module_parts.global_hooks import everywhere
from gradscope.runtime.nn.modules.module_parts.hooks import LISTENING, WrappedHook, rest
from gradscope.runtime.nn.modules.module_parts.legacy_backward_hook import warn_of_what_it_misses

Hook = Callable[..., Any]


def attended(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a module, run its hooks and report the call to the watcher."""
    here = probe.here
    if here is None:
        return _result(module, args, kwargs)
    here.module_begins(module)
    try:
        return _result(module, args, kwargs)
    finally:
        here.module_ends()


def _result(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    kinds = [getattr(module, kind) for kind in LISTENING]
    if any(kinds) or everywhere.any():
        return _Call(module, args, kwargs).run()
    rest(module._attended, kinds)
    everywhere.rest()
    return module.forward(*args, **kwargs)


class _Call:
    """One call of a module with hooks: its arguments, and its result so far."""

    __slots__ = ("args", "called", "kwargs", "module", "result")

    def __init__(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.module = module
        self.args, self.kwargs = args, kwargs
        self.result: Any = None
        self.called: set[int] = set()

    def run(self) -> Any:
        try:
            return self._run()
        except Exception:
            self._always()
            raise

    def _run(self) -> Any:
        module = self.module
        pre = [*everywhere.backward_pre.values(), *module._backward_pre_hooks.values()]
        whole, last = self._backward_hooks()
        self._before()
        backward = None
        if whole or pre:
            backward = BackwardHook(module, whole, pre)
            self.args = backward.setup_input_hook(self.args)
        self.result = module.forward(*self.args, **self.kwargs)
        self._after()
        if backward is not None:
            if not isinstance(self.result, Tensor | tuple):
                warn(
                    "For backward hooks to be called, module output should be a Tensor or a tuple "
                    f"of Tensors but received {type(self.result)}"
                )
            self.result = backward.setup_output_hook(self.result)
        if last:
            self._on_last_node(last)
        return self.result

    def _backward_hooks(self) -> tuple[list[Hook], list[Hook]]:
        """Full backward hooks, and deprecated ones, which go on the last node."""
        lists: tuple[list[Hook], list[Hook]] = ([], [])
        for owner, is_full in (
            (everywhere.backward, everywhere.backward_is_full),
            (self.module._backward_hooks, self.module._is_full_backward_hook),
        ):
            if is_full is not None:
                lists[0 if is_full else 1].extend(owner.values())
        return lists

    def _before(self) -> None:
        module = self.module
        with_kwargs = module._forward_pre_hooks_with_kwargs
        hooks = (*everywhere.forward_pre.items(), *module._forward_pre_hooks.items())
        for index, (number, hook) in enumerate(hooks):
            if number not in with_kwargs:
                found = heard(module, FORWARD_PRE, index, hook, module, self.args)
                if found is not None:
                    self.args = found if isinstance(found, tuple) else (found,)
                continue
            found = heard(module, FORWARD_PRE, index, hook, module, self.args, self.kwargs)
            if found is None:
                continue
            if not (isinstance(found, tuple) and len(found) == 2):
                raise forward_pre_hook_result(hook, found)
            self.args, self.kwargs = found

    def _hooks_after(self) -> Iterator[tuple[int, int, Hook, bool]]:
        """Position, number and hook of each forward hook, and whether it is global."""
        own = self.module._forward_hooks
        listed = [(n, h, True) for n, h in everywhere.forward.items()]
        listed += [(n, h, False) for n, h in own.items()]
        for index, (number, hook, of_all) in enumerate(listed):
            yield index, number, hook, of_all

    def _after(self) -> None:
        module = self.module
        for index, number, hook, _ in self._hooks_after():
            self.called.add(number)
            with_kwargs = (
                number in module._forward_hooks_with_kwargs
                or number in everywhere.forward_with_kwargs
            )
            self._call(index, hook, with_kwargs=with_kwargs)

    def _call(self, index: int, hook: Hook, *, with_kwargs: bool) -> None:
        module = self.module
        given = (self.args, self.kwargs) if with_kwargs else (self.args,)
        found = heard(module, FORWARD, index, hook, module, *given, self.result)
        if found is not None:
            self.result = found

    def _always(self) -> None:
        """After an error, call the hooks that were registered with `always_call`."""
        module = self.module
        for index, number, hook, of_all in self._hooks_after():
            asked = (
                everywhere.forward_always_called
                if of_all
                else (module._forward_hooks_always_called)
            )
            if number not in asked or number in self.called:
                continue
            # As in PyTorch, global hooks do not get the keyword arguments here.
            with_kwargs = not of_all and number in module._forward_hooks_with_kwargs
            try:
                self._call(index, hook, with_kwargs=with_kwargs)
            except Exception as error:
                warn(
                    f"{'global ' if of_all else ''}module forward hook with ``always_call=True`` "
                    "raised an exception that was silenced as another error was raised in "
                    f"forward: {error}"
                )

    def _on_last_node(self, hooks: list[Hook]) -> None:
        """Register deprecated backward hooks on the node of the first tensor in the result."""
        module, var = self.module, self.result
        while not isinstance(var, Tensor):
            if isinstance(var, dict):
                var = next(v for v in var.values() if isinstance(v, Tensor))
            else:
                var = var[0]
        node = var.grad_fn
        if node is None:
            return
        for index, hook in enumerate(hooks):
            node.register_hook(WrappedHook(_Heard(index, hook), module))
        warn_of_what_it_misses(self.args, self.result, node)


class _Heard:
    """A deprecated backward hook whose calls are reported to a watcher."""

    def __init__(self, index: int, hook: Hook) -> None:
        functools.update_wrapper(self, hook)  # errors use the hook's name
        self.index = index
        self.hook = hook

    def __call__(self, module: Any, *args: Any) -> Any:
        return heard(module, BACKWARD, self.index, self.hook, module, *args)
