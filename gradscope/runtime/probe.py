"""What the runtime tells a watcher. It tells, never asks; unwatched it costs one `is None`.

A watcher is set with `watching(watcher)`. While it is set, every call of an operation and every part
of the engine calls the method of the same name on `here`. Tensors, nodes, storages and graph tasks
carry a field `seen` (0 at first) in which a watcher may keep its own number for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol


class Probe(Protocol):
    """The methods the runtime calls on its watcher."""

    def clock(self) -> int: ...

    # forward: a call with one or two tensors and one result, any other call, a write in place
    def op1(self, op: Any, first: Any, made: Any, node: Any, begin: int, state: Any) -> None: ...
    def op2(
        self, op: Any, first: Any, second: Any, made: Any, node: Any, begin: int, state: Any
    ) -> None: ...
    def op(
        self, op: Any, inputs: Any, outputs: Any, node: Any, begin: int, state: Any
    ) -> None: ...
    def wrote(
        self, op: Any, inputs: Any, target: Any, node: Any, begin: int, state: Any
    ) -> None: ...
    def made(self, node: Any) -> None: ...

    # a node that nobody listens to is told in one call, when its gradients have been handed on
    def ran(
        self,
        task: Any,
        node: Any,
        begin: int,
        ended: int,
        popped: int,
        released: Any,
        moves: Sequence[Any],
        inputs: Sequence[Any],
        outputs: Sequence[Any],
    ) -> None: ...

    # any other node in these
    def popped(self, task: Any, node: Any, at: int, length: int) -> None: ...
    def begin(self, task: Any, node: Any, inputs: Sequence[Any]) -> None: ...
    def end(self, task: Any, node: Any, outputs: Sequence[Any], released: Any) -> None: ...
    def failed(self, task: Any, node: Any, error: BaseException) -> None: ...
    def skipped(self, task: Any, node: Any) -> None: ...

    def task_begin(self, task: Any, root: Any, length: int, state: Any) -> None: ...
    def task_end(self, task: Any) -> None: ...
    def hook_begin(self, task: Any, node: Any, kind: int, index: int, hook: Any) -> None: ...
    def hook_end(
        self, task: Any, node: Any, kind: int, index: int, replaced: bool, values: Any
    ) -> None: ...
    def capture(self, task: Any, node: Any, nr: int, grad: Any) -> None: ...
    def accumulate(self, task: Any, node: Any, leaf: Any, how: int) -> None: ...
    def callback(self, task: Any, function: Any) -> None: ...

    def phase_begin(self, phase: str, name: str) -> None: ...
    def phase_end(self) -> None: ...
    def module_begin(self, module: Any) -> None: ...
    def module_end(self, module: Any) -> None: ...


here: Any = None
"""The watcher, or None."""


@contextmanager
def watching(watcher: Probe) -> Iterator[None]:
    """Tell `watcher` everything until the end of the block."""
    global here  # noqa: PLW0603  (the one switch every call reads; restored below)
    before = here
    here = watcher
    try:
        yield
    finally:
        here = before
