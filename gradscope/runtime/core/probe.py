"""What the runtime tells a watcher. It tells, never asks; unwatched it costs an `is None` or two.

`watch(watcher)` sets a watcher. From then on every call of an operation and every part of the
engine tells `here`, the watcher, what it does. Tensors, nodes, storages and graph tasks carry a
field `record_nr` (0 at first) for the number a watcher gives them.

# Note [Telling in numbers]
A small operation takes a microsecond, so what is told of each must not take another. A call with
one or two tensors and one result is told by one call of `noted`, which may be a C function; its
node is `made`'s, or None, and `meta` is what such a node knows of the result's shape and dtype. The
run of a node that nobody listens to, and each gradient it hands on, are told in the same way: `ran`
and `sent`. Everything out of the ordinary is told in words, by the methods below.

# Note [Coming and going]
Other threads run while a watcher comes or goes. Who finds a watcher `here` finds its `ran` and
`sent`, too: they come before it, and go after it. Calls are told last, and untold first: a leaf's
node that is made between two calls is told to `here`, and a call told after one that was not would
lead to the node that the leaf had before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, Protocol

from gradscope.program_listener import ProgramListener
from gradscope.runtime.core.kernels import compile_notices
from gradscope.runtime.core.state.array_calls import layout_only


class ValueObserver(Protocol):
    """Who looks at values, where a watcher has one: what is read here may not be kept."""

    def result(self, op: Any, node: Any, number: int, made: Any, state: Any) -> None: ...
    def seed(self, task: Any, node: Any, nr: int, grad: Any) -> None: ...
    def inputs(self, task: Any, node: Any, grads: Sequence[Any]) -> None: ...
    def outputs(self, task: Any, node: Any, grads: Sequence[Any]) -> None: ...
    def sent(
        self,
        task: Any,
        node: Any,
        index: int,
        grad: Any,
        following: Any,
        nr: int,
        how: int,
        summed: Any,
    ) -> None: ...
    def over(self, node: Any) -> None: ...
    def hooked(self, task: Any, node: Any, nr: int, grads: Sequence[Any]) -> None: ...
    def stepped(self, task: Any, node: Any, leaf: Any) -> None: ...
    def grad(self, task: Any, node: Any, leaf: Any) -> None: ...

    # what users get to see, what their backward returned, and memory they may write to untold
    def handed(self, node: Any, grads: Sequence[Any], nr: int = 0) -> None: ...
    def returned(self, node: Any, grads: Sequence[Any]) -> None: ...
    def lent(self, array: Any) -> None: ...


class CallListener(Protocol):
    """Hears of each call of an operation, and of what a program does to tensors besides."""

    look: ValueObserver | None

    # an ordinary call; `call` is for views and while something special is on
    noted: Callable[..., Any]

    def call(
        self,
        op: Any,
        op_number: int,
        node: Any,
        made: Any,
        meta: Any,
        state: Any,
        begin: int,
        frame: FrameType,
        *inputs: Any,
    ) -> None: ...

    # a call with other inputs or results, a write in place, a leaf's node
    def op(self, op: Any, inputs: Any, outputs: Any, node: Any, begin: int, state: Any) -> None: ...
    def wrote(
        self, op: Any, inputs: Any, target: Any, node: Any, begin: int, state: Any
    ) -> None: ...
    # one operation that wrote to many tensors, to some several times
    def fused(self, op: Any, inputs: Any, written: Any, begin: int, state: Any) -> None: ...
    def accumulator(self, node: Any) -> None: ...
    def came_in(self, tensor: Any) -> None: ...  # a leaf that a program has made of numbers
    def touched(self, tensor: Any) -> None: ...  # a write that is no call's
    def placed(self, tensor: Any, device: Any) -> None: ...  # one told before, or yet unknown


class BackwardListener(Protocol):
    """Hears of each part of a backward."""

    # an ordinary run of a node, and each gradient that it hands on
    ran: Callable[..., Any]
    sent: Callable[..., Any]

    def backward_begins(
        self, task: Any, root: Any, length: int, state: Any, *, pool: bool
    ) -> None: ...  # pool: a thread of its own runs it
    def backward_ends(self, task: Any) -> None: ...
    def popped(self, task: Any, node: Any, at: int, length: int) -> None: ...
    def node_begins(self, task: Any, node: Any, inputs: Sequence[Any]) -> None: ...
    def node_ends(self, task: Any, node: Any, outputs: Sequence[Any], released: Any) -> None: ...
    def node_failed(self, task: Any, node: Any, error: BaseException) -> None: ...
    def skipped(self, task: Any, node: Any) -> None: ...
    def capture(self, task: Any, node: Any, nr: int, grad: Any) -> None: ...
    def accumulate(self, task: Any, node: Any, leaf: Any, how: int) -> None: ...
    def called_back(self, task: Any, function: Any) -> None: ...

    # an engine error is about to be raised: who watches adds what it knows of the case to its note,
    # and says that it does
    def refused(self, slug: str, case: Any, lines: list[str]) -> bool: ...

    # several threads at one graph task: what is not told by `ran` and `sent` then
    def queued(self, task: Any, node: Any, queue: Any, length: int) -> None: ...
    def unqueued(self, task: Any, node: Any, queue: Any, length: int) -> None: ...
    def waits(self, queue: Any) -> None: ...
    def wakes(self, queue: Any) -> None: ...
    def handed_on(
        self, task: Any, node: Any, following: Any, index: int, nr: int, how: int, left: int
    ) -> None: ...

    def hook_begins(self, task: Any, node: Any, kind: int, index: int, hook: Any) -> None: ...
    def hook_ends(
        self, task: Any, node: Any, kind: int, index: int, replaced: bool, values: Any
    ) -> None: ...
    def module_hook_begins(
        self, task: Any, node: Any, module: Any, kind: int, index: int, hook: Any
    ) -> None: ...
    # the program reads a saved tensor back; `slot`: where it stands, unless it stands in one only
    def unpacked(self, node: Any, value: Any, slot: int | None) -> None: ...


class Probe(CallListener, BackwardListener, ProgramListener, Protocol):
    """What a watcher has."""

    clock: Callable[[], int]
    replays: Any  # whom captured steps tell of replays (capture/told.py); None: they run as ever


here: Any = None
"""The watcher, or None."""

noted: Any = None
call: Any = None
op: Any = None
wrote: Any = None
"""The watcher's methods that are told of calls, or None: a call looks at one of them, once."""

ran: Any = None
sent: Any = None
"""Those that are called for every node."""


def watch(watcher: Any, *, calls: bool = True) -> None:
    """Tell `watcher` everything from now on, or all but the calls of operations; None: nobody.

    See Note [Coming and going].
    """
    global here, noted, call, op, wrote, ran, sent  # noqa: PLW0603
    if watcher is None:
        leave(None)
        return
    noted = call = op = wrote = None
    ran, sent = watcher.ran, watcher.sent
    here = compile_notices.watcher = watcher
    if calls:
        take_callables(watcher)


def leave(stand_in: Any) -> None:
    """Tell nobody of calls and runs any more; another, or None, is told of all else."""
    global here, noted, call, op, wrote, ran, sent  # noqa: PLW0603
    noted = call = op = wrote = None
    here = compile_notices.watcher = stand_in
    ran = sent = _nobody  # a thread that found a watcher just now calls these yet


@layout_only
def _nobody(*told: Any) -> None:
    """Whom a run that nobody watches any more is told."""


def take_callables(watcher: Any) -> None:
    """The watcher has other methods now, or is told of calls from now on."""
    global noted, call, op, wrote, ran, sent
    ran, sent = watcher.ran, watcher.sent
    noted, call, op, wrote = watcher.noted, watcher.call, watcher.op, watcher.wrote


def lend(array: Any) -> None:
    """The program gets hold of a tensor's memory."""
    if here is not None and here.look is not None:
        here.look.lent(array)


@contextmanager
def watching(watcher: Probe) -> Iterator[None]:
    """Tell `watcher` everything until the end of the block."""
    before = here
    watch(watcher)
    try:
        yield
    finally:
        watch(before)
