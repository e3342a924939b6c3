"""Wraps hooks of the program, to report their calls; and marks hooks of our own.

# Note [A hook in place of another]
The hooks of an object may be inspected: PyTorch checks the class of a hook
(`remove_spectral_norm`), compilers read its code, modules are copied and pickled. So our wrapper
behaves like the hook it replaces, and is equal to it; compilers see the original hook.
"""

from __future__ import annotations

import operator
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch._guards import TracingContext

from gradscope.errors import leave_no_frame
from gradscope.watch.in_place.by_identity import CallableWrapper, is_a
from gradscope.watch.in_place.compilers import aside, uncompiled
from gradscope.watch.in_place.standing_in import passed_over

if TYPE_CHECKING:
    from collections.abc import Callable

    from gradscope.watch.called.writes import WatchedWrites
    from gradscope.watch.in_place.faults import Faults
    from gradscope.watch.listener import Listener
    from gradscope.watch.public.hooked_runs import HookedRunObserver


class Own(partial[Any]):
    """A hook of gradscope."""


class OwnLast(Own):
    """A hook of gradscope on a node that is called after all hooks of the program."""


def keep_ours_last(hooks: dict[int, Any]) -> None:
    """Move such hooks to the end of a node's hooks, because the program has registered one."""
    for id_ in [id_ for id_, hook in hooks.items() if type(hook) is OwnLast]:
        hooks[id_] = hooks.pop(id_)  # PyTorch does not see what `move_to_end` does


class HookedCalls:
    """Reports calls of hooks to a listener, from `start` to `stop`."""

    def __init__(self, listener: Listener, faults: Faults) -> None:
        self.listener = listener
        self.faults = faults
        self.writes: WatchedWrites | None = None  # if writes of hooks are observed
        self.runs: HookedRunObserver | None = None  # if gradients are observed by hooks
        self._on = False

    def start(self) -> None:
        """Start."""
        self._on = True

    def stop(self) -> None:
        """Stop: registered hooks stay registered, and their calls are no longer reported."""
        self._on = False

    @aside
    def begins(
        self,
        kind: str,
        node: Callable[[], int],
        index: Callable[[], int],
        hook: Any,
        site: int,
        attended: Any = None,
    ) -> Any:
        """Called before a hook. Returns the token that is passed to `ends`."""
        if not self._on:
            return None
        if self.writes is not None:
            self.writes.hook_begins()
        return self.faults.guarded(
            "a hook was called",
            lambda: self.listener.hook_begins(kind, node(), index(), hook, site, attended),
        )

    @aside
    def ends(self, token: Any, *, replaced: bool) -> None:
        """Called after the hook."""
        if self.writes is not None:
            self.writes.hook_ends()
        if replaced and self.runs is not None:
            self.runs.replaced()
        if token is not None:
            self.faults.guarded(
                "a hook returned", lambda: self.listener.hook_ends(token, replaced=replaced)
            )

    @uncompiled
    def shows(self, node: Callable[[], int], grads: Any, nr: int) -> None:
        """Called before a hook that receives gradients for a node, from this input on."""
        if self._on and self.runs is not None:
            self.faults.guarded("a hook was called", self.runs.shows, node, grads, nr)

    @uncompiled
    def has_run(self, returned: Any) -> None:
        """Called before a hook that is called after the run of a node, which returned this."""
        if self._on and self.runs is not None:
            self.faults.guarded("a node has run", self.runs.has_run, returned)

    @uncompiled
    def changed(self, kind: str, site: int, given: Any, result: Any) -> None:
        """Called after a hook of a tensor that replaced a gradient, if nodes are computed again."""
        samples = None if self.runs is None else self.runs.samples
        if self._on and samples is not None:
            self.faults.guarded("a hook returned", samples.hooked, kind, site, given, result)

    @uncompiled
    def accumulated(self, leaf: Any) -> None:
        """Called before a hook that runs after the accumulation of a gradient into a leaf."""
        if self._on and self.runs is not None:
            self.faults.guarded("a gradient was accumulated", self.runs.accumulated, leaf)

    @uncompiled
    def is_given(self, token: Any, grad: Any, nr: int) -> None:
        """Report the gradient that a hook is about to receive."""
        if token is not None:
            self.faults.guarded("a hook was called", self.listener.hook_given, token, grad, nr)

    @uncompiled
    def looks_at(self, token: Any, leaf: Any, result: Any = None, nr: int = 0) -> None:
        """Report the result of a hook, or the leaf after it."""
        if token is not None:
            self.faults.guarded(
                "a hook was looked at", self.listener.hook_looked, token, leaf, result, nr
            )


class WatchedHook(CallableWrapper):
    """A hook of the program. See Note [A hook in place of another]."""

    __slots__ = ("__weakref__", "_calls", "_kind", "_site", "hook")

    def __init__(self, hook: Any, kind: str, calls: HookedCalls, site: int) -> None:
        self.hook = hook
        self._kind = kind
        self._calls = calls
        self._site = site

    @passed_over
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return self.hook(*args, **kwargs)
        calls = self._calls
        attended = args[0] if args and self._is_of_first else None
        token = calls.begins(
            self._kind, unknown, lambda: self._index(attended), self.hook, self._site, attended
        )
        result = None
        try:
            result = self.hook(*args, **kwargs)
        except BaseException as error:
            leave_no_frame(error)
            raise
        finally:
            calls.ends(token, replaced=self._replaces and result is not None)
        return result

    _replaces = True
    """Whether its result replaces a value."""

    _is_of_first = False
    """Whether its first argument is the module or optimizer that it is registered on."""

    def _index(self, attended: Any) -> int:  # noqa: ARG002 -- likewise
        """Its index among hooks of its kind."""
        return 0

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self) if _is_traced() else type(self.hook)

    # A property and not a method: a frame of a method would appear in tracebacks of errors raised
    # by attributes of the hook. Compilers may read an instance without a `hook`.
    __getattr__ = property(lambda self: partial(*_looked_up(self)))  # type: ignore[misc]

    def __repr__(self) -> str:
        return repr(self.hook)

    def __eq__(self, other: object) -> bool:
        return self.hook == (other.hook if type(other) in _OF_OURS else other)  # type: ignore[attr-defined,no-any-return]

    def __hash__(self) -> int:
        return hash(self.hook)

    def __init_subclass__(cls) -> None:
        _OF_OURS.add(cls)

    def __reduce__(self) -> Any:
        return operator.getitem, ((self.hook,), 0)  # a pickle then contains nothing of gradscope

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return deepcopy(self.hook, memo)


_OF_OURS: set[type] = {WatchedHook}


def _looked_up(hook: Any) -> tuple[Callable[..., Any], Any]:
    """What returns an attribute that the wrapper does not have, and of what."""
    if _is_traced():
        return object.__getattribute__, hook
    return getattr, object.__getattribute__(hook, "hook")


_is_traced = TracingContext.try_get
"""Whether a compiler traces in this thread: what it takes for a function, it expects to be one."""


def is_watched(hook: Any) -> bool:
    """Whether it is already wrapped, or is a hook of gradscope, or cannot be called."""
    return type(hook) in _OF_OURS or is_a(hook, Own) or not callable(hook)


def unknown() -> int:
    """The node is not known at registration: it follows from the time of the call."""
    return 0
