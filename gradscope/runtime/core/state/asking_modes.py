"""Passes a call to the innermost `__torch_dispatch__` mode, and runs its calls below it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gradscope.runtime.core.state.thread import ThreadState, local


class NotTaken(TypeError):  # noqa: N818
    """No mode handled a call. An operator then lets Python try the other operand."""


def asked(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], state: ThreadState) -> Any:
    """The result of the innermost mode for a function. Calls inside go to the next outer mode."""
    mode = state.dispatch_modes.pop()
    with below(state):
        try:
            result = mode.__torch_dispatch__(func, (), args, kwargs)
        finally:
            state.dispatch_modes.append(mode)
    if result is NotImplemented:
        raise NotTaken(
            f"Multiple dispatch failed for 'torch._ops.{func}'; all __torch_dispatch__ handlers "
            f"returned NotImplemented:\n\n  - mode object {mode}"
        )
    return result


@contextmanager
def below(state: ThreadState) -> Iterator[None]:
    before = (state.grad_enabled, state.grad_wanted, state.below_autograd)
    if not (state.inference or state.below_autograd):
        state.grad_wanted = state.grad_enabled
    state.grad_enabled, state.below_autograd = False, True
    state.refresh()
    try:
        yield
    finally:
        state.grad_enabled, state.grad_wanted, state.below_autograd = before
        state.refresh()


@contextmanager
def from_the_top() -> Iterator[None]:
    """Inside a mode, record calls in the block as if outside of it."""
    state = local.state
    before = (state.grad_enabled, state.below_autograd)
    state.grad_enabled = state.grad_wanted and not state.inference
    state.below_autograd = False
    try:
        yield
    finally:
        state.grad_enabled, state.below_autograd = before
