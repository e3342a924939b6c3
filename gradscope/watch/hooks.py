"""Hooks of the program's: each is wrapped as it is registered, so that its calls are told."""

from __future__ import annotations

import sys
import weakref
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd import Function

from gradscope.watch.unseen import unseen

if TYPE_CHECKING:
    from collections.abc import Callable

    from gradscope.watch.listener import Faults, Listener
    from gradscope.watch.walk import Graph

TENSOR, POST_ACCUMULATE = "register_hook", "register_post_accumulate_grad_hook"
PRE, POST = "register_prehook", "register_hook of a node"
NODE = "_register_hook"  # by which nodes of every kind register theirs, before and after their run
_LISTS = {TENSOR: "_backward_hooks", POST_ACCUMULATE: "_post_accumulate_grad_hooks"}


class Own(partial[Any]):
    """A hook of ours."""


class Watched:
    """A hook of the program's, told before and after. Copies and pickles are the hook itself."""

    def __init__(
        self,
        hook: Any,
        kind: str,
        teller: Hooks,
        site: int,
        node: Callable[[], int],
        index: int,
        nr: int = 0,
    ) -> None:
        self.hook = hook
        self._kind = kind
        self._teller = teller
        self._site = site
        self._node = node
        self._index = index
        self._nr = nr  # which of its node's inputs the tensor's gradient is
        self.__name__ = getattr(hook, "__name__", type(hook).__name__)
        self.__wrapped__ = hook

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        teller = self._teller
        kind = self._kind
        if kind == NODE:  # one after the run is given what the node returned, and what it took
            kind = PRE if len(args) == 1 else POST
        token = teller.begins(kind, self._node, self._index, self.hook, self._site)
        leaf = args[0] if args and self._kind == POST_ACCUMULATE else None
        if args and self._kind == TENSOR:
            teller.is_given(token, args[0], self._nr)
        result = self.hook(*args, **kwargs)
        replaced = result is not None and self._kind != POST_ACCUMULATE
        teller.ends(token, replaced=replaced)
        if leaf is not None or (replaced and self._kind == TENSOR):
            teller.looks_at(token, leaf, result, self._nr)
        return result

    def __reduce__(self) -> Any:
        return _same, (self.hook,)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return deepcopy(self.hook, memo)


def _unknown() -> int:
    """Which node it is on follows from when it is called."""
    return 0


def _same(hook: Any) -> Any:
    return hook


class Hooks:
    """Stands in for the methods by which programs register hooks on tensors."""

    def __init__(self, listener: Listener, graph: Graph, faults: Faults) -> None:
        self._listener = listener
        self._graph = graph
        self._faults = faults
        self._own: dict[str, Any] = {}
        self._ours: dict[str, Any] = {}
        self._on = False

    def start(self) -> None:
        self._on = True
        for name in (TENSOR, POST_ACCUMULATE):
            self._own[name] = torch.Tensor.__dict__[name]
            self._ours[name] = self._registering(name, self._own[name])
            setattr(torch.Tensor, name, self._ours[name])
        self._of_nodes = Function._register_hook
        self._ours[NODE] = self._registering_on_nodes(self._of_nodes)
        setattr(Function, NODE, staticmethod(self._ours[NODE]))

    def stop(self) -> None:
        self._on = False
        for name, own in self._own.items():
            if torch.Tensor.__dict__[name] is self._ours[name]:
                setattr(torch.Tensor, name, own)
        if Function.__dict__.get(NODE) is not None and Function._register_hook is self._ours[NODE]:
            delattr(Function, NODE)  # it has it from its base

    def _registering(self, name: str, own: Any) -> Any:
        def register(self_: Any, hook: Any) -> Any:
            made = self._faults.guarded("a hook was registered", self._watched, self_, hook, name)
            return own(self_, hook if made is None else made)

        register.__name__, register.__qualname__ = name, f"Tensor.{name}"
        register.__doc__ = own.__doc__
        register.__wrapped__ = own  # type: ignore[attr-defined]
        return register

    def _registering_on_nodes(self, own: Any) -> Any:
        def _register_hook(backward_hooks: Any, hook: Any) -> Any:
            made = self._faults.guarded(
                "a hook was registered", self._watched_on_node, backward_hooks, hook
            )
            return own(backward_hooks, hook if made is None else made)

        return _register_hook

    def _watched_on_node(self, there: Any, hook: Any) -> Watched | None:
        if not callable(hook) or isinstance(hook, Own | Watched):
            return None
        site = self._listener.site(sys._getframe(3))
        return Watched(hook, NODE, self, site, _unknown, len(there or ()))

    def _watched(self, tensor: Any, hook: Any, kind: str) -> Watched | None:
        if torch.compiler.is_compiling() or not callable(hook) or isinstance(hook, Watched):
            return None
        site = self._listener.site(sys._getframe(3))
        with unseen():
            index = len(getattr(tensor, _LISTS[kind], None) or ())
            nr = tensor.output_nr if kind == TENSOR else 0
            return Watched(hook, kind, self, site, self._node_of(tensor), index, nr)

    def _node_of(self, tensor: Any) -> Callable[[], int]:
        """How to find, later, the node on which the hook is: a leaf's may not be there yet."""
        if tensor.grad_fn is not None:
            number = self._graph.number_of(tensor.grad_fn)
            return lambda: number
        leaf, graph = weakref.ref(tensor), self._graph
        return lambda: 0 if (found := leaf()) is None else graph.number_of_leaf(found)

    def begins(self, kind: str, node: Callable[[], int], index: int, hook: Any, site: int) -> Any:
        """A hook is called; what `ends` is to be given."""
        if not self._on:
            return None
        return self._faults.guarded(
            "a hook was called", lambda: self._listener.hook_begins(kind, node(), index, hook, site)
        )

    def ends(self, token: Any, *, replaced: bool) -> None:
        """It returned; of one that raised nothing is told, as its backward fails."""
        if token is not None:
            self._faults.guarded(
                "a hook returned", lambda: self._listener.hook_ends(token, replaced=replaced)
            )

    def is_given(self, token: Any, grad: Any, nr: int) -> None:
        """What it is about to be told of."""
        if token is not None:
            self._faults.guarded("a hook was called", self._listener.hook_given, token, grad, nr)

    def looks_at(self, token: Any, leaf: Any, result: Any = None, nr: int = 0) -> None:
        """What it returned; or what is there after it."""
        if token is not None:
            self._faults.guarded(
                "a hook was looked at", self._listener.hook_looked, token, leaf, result, nr
            )
