"""Hooks on tensors and on nodes."""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd import Function

from gradscope.errors import leave_no_frame
from gradscope.watch.hooks.watched import (
    HookedCalls,
    Own,
    WatchedHook,
    is_watched,
    keep_ours_last,
    unknown,
)
from gradscope.watch.in_place.by_identity import is_a
from gradscope.watch.in_place.standing_in import Replaced, passed_over
from gradscope.watch.unseen import stands_for, unseen

if TYPE_CHECKING:
    from collections.abc import Callable

    from gradscope.watch.python_walk import GraphWalker

TENSOR, POST_ACCUMULATE = "register_hook", "register_post_accumulate_grad_hook"
PRE, POST = "register_prehook", "register_hook of a node"
NODE = "_register_hook"  # nodes register hooks before and after their run with it
_LISTS = {TENSOR: "_backward_hooks", POST_ACCUMULATE: "_post_accumulate_grad_hooks"}


class WatchedTensorHook(WatchedHook):
    """A hook on a tensor or node."""

    __slots__ = ("_at", "_node", "_nr")

    def __init__(
        self,
        hook: Any,
        kind: str,
        calls: HookedCalls,
        site: int,
        node: Callable[[], int],
        at: int,
        nr: int = 0,
    ) -> None:
        super().__init__(hook, kind, calls, site)
        self._node = node
        self._at = at  # its index among hooks of its kind
        self._nr = nr  # the input of its node that receives the tensor's gradient

    @passed_over
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return self.hook(*args, **kwargs)
        calls, kind = self._calls, self._kind
        if kind == NODE:  # a hook after the run has two arguments: outputs and inputs of the node
            kind = PRE if len(args) == 1 else POST
        if kind == POST:
            calls.has_run(args[0])
        token = calls.begins(kind, self._node, lambda: self._at, self.hook, self._site)
        leaf = args[0] if args and kind == POST_ACCUMULATE else None
        if leaf is not None:
            calls.accumulated(leaf)
        if args and kind == TENSOR:
            calls.is_given(token, args[0], self._nr)
        if args and kind in {TENSOR, PRE}:
            calls.shows(self._node, args[0] if kind == PRE else args[:1], self._nr)
        try:
            result = self.hook(*args, **kwargs)
        except BaseException as error:  # then its backward fails, which is recorded
            leave_no_frame(error)
            raise
        replaced = result is not None and kind != POST_ACCUMULATE
        calls.ends(token, replaced=replaced)
        if replaced:
            self._compare(kind, args[0], result)
        if leaf is not None or (replaced and kind == TENSOR):
            calls.looks_at(token, leaf, result, self._nr)
        return result

    def _compare(self, kind: str, given: Any, result: Any) -> None:
        """Compare the gradients that a hook returned with those that it replaces."""
        if kind == TENSOR:
            self._calls.changed(kind, self._site, given, result)
        elif isinstance(result, tuple):
            for before, after in zip(given, result, strict=False):
                if after is not before and before is not None and after is not None:
                    self._calls.changed(kind, self._site, before, after)


class TensorHooks:
    """Replaces the methods with which programs register hooks on tensors and nodes."""

    def __init__(self, calls: HookedCalls, graph: GraphWalker) -> None:
        self._calls = calls
        self._guarded: Any = calls.faults.guarded
        self._graph = graph
        self._replaced = Replaced(stands_for)

    def start(self) -> None:
        """Start."""
        for name in (TENSOR, POST_ACCUMULATE):
            own = torch.Tensor.__dict__[name]
            self._replaced.put(torch.Tensor, name, self._registering(own, name))
        self._replaced.put(Function, NODE, self._registering_on_nodes(Function._register_hook))

    def stop(self) -> None:
        """Stop."""
        self._replaced.take_back()

    def _registering(self, own: Any, name: str) -> Any:
        @passed_over
        def register(self_: Any, hook: Any) -> Any:
            try:
                ours = self._guarded("a hook was registered", self._watched, self_, hook, name)
                return own(self_, hook if ours is None else ours)
            except BaseException as error:
                leave_no_frame(error)
                raise

        return register

    def _registering_on_nodes(self, own: Any) -> Any:
        @passed_over
        def _register_hook(backward_hooks: Any, hook: Any) -> Any:
            try:
                ours = self._guarded(
                    "a hook was registered", self._watched_on_node, backward_hooks, hook
                )
                made = own(backward_hooks, hook if ours is None else ours)
            except BaseException as error:
                leave_no_frame(error)
                raise
            if ours is not None:
                self._guarded("a hook was registered", keep_ours_last, made[0])
            return made

        return _register_hook

    def _watched_on_node(self, there: Any, hook: Any) -> WatchedHook | None:
        if is_watched(hook):
            return None
        site = self._calls.listener.site(sys._getframe(3))
        index = sum(not is_a(other, Own) for other in (there or {}).values())
        return WatchedTensorHook(hook, NODE, self._calls, site, unknown, index)

    def _watched(self, tensor: Any, hook: Any, kind: str) -> WatchedHook | None:
        if torch.compiler.is_compiling() or is_watched(hook):
            return None
        site = self._calls.listener.site(sys._getframe(3))
        with unseen():
            index = len(getattr(tensor, _LISTS[kind], None) or ())
            nr = tensor.output_nr if kind == TENSOR else 0
            try:
                node = self._node_of(tensor)
            except RuntimeError:  # for such a view, PyTorch refuses to return the node
                return None
            return WatchedTensorHook(hook, kind, self._calls, site, node, index, nr)

    def _node_of(self, tensor: Any) -> Callable[[], int]:
        """Returns a function that finds the hook's node later: a leaf may not have one yet."""
        tensor_then, graph = weakref.ref(tensor), self._graph
        record = None if tensor.grad_fn is None else graph.record_of(tensor.grad_fn)

        def number() -> int:
            if record is not None and record.topological >= 0:  # a backward has reached it
                return record.number
            found = tensor_then()  # a leaf, or its node was created later
            return 0 if found is None else graph.number_of_leaf(found)

        return number
