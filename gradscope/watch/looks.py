"""What nodes take and return, seen by hooks on each node; nothing of it is kept."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from gradscope.watch.hooks import Own

if TYPE_CHECKING:
    from gradscope.watch.listener import Faults, Listener


class Looks:
    """Hooks before and after every node that a walk finds."""

    def __init__(self, listener: Listener, faults: Faults) -> None:
        self._listener = listener
        self._guarded = faults.guarded
        self._on = False

    def start(self) -> None:
        self._on = True

    def stop(self) -> None:
        self._on = False

    def attend(self, node: Any, number: int) -> None:
        """A walk has found this node."""
        leaf = getattr(node, "variable", None)
        node.register_prehook(Own(self._takes, number))
        if leaf is None:
            node.register_hook(Own(self._returned, number))
        else:
            node.register_hook(Own(self._accumulated, number, weakref.ref(leaf)))

    def _takes(self, number: int, grads: Any) -> None:
        if self._on:
            self._guarded("a node took gradients", self._listener.node_takes, number, grads)

    def _returned(self, number: int, results: Any, _grads: Any) -> None:
        if self._on:
            self._guarded(
                "a node returned gradients", self._listener.node_returned, number, results
            )

    def _accumulated(self, number: int, leaf: Any, _results: Any, _grads: Any) -> None:
        if self._on:
            there = leaf()
            if there is not None:
                self._guarded("a gradient was gathered", self._listener.accumulated, number, there)
