"""What the runtime reports to a watcher. Without a watcher, this costs one or two `is None` tests.

`watch(watcher)` sets a watcher. From then on every call of an operation and every part of the
engine reports to `here`, the watcher, which never changes what they do. Tensors, nodes, storages
and graph tasks have a field `record_nr` (0 at first) for the number that a watcher assigns.

# Note [Telling in numbers]
A small operation takes a microsecond, so reporting it must not take another. A call with one or two
tensors and one result is reported by one call of `noted`, which may be a C function. Its node is
that of `made`, or None; `meta` is what such a node knows of the result's shape and dtype. The run
of a node without hooks, and each gradient that it sends, are reported in the same way: `ran` and
`sent`. All other events are reported by the methods below.

# Note [Coming and going]
Other threads run while a watcher is set or removed. A thread that finds a watcher in `here` also
finds its `ran` and `sent`: they are set before it and removed after it. Calls are switched on last
and off first: a leaf's node created between two calls is reported to `here`, and a call reported
after an unreported one would refer to the leaf's earlier node.
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
    """Observes values for a watcher. It must not keep the arrays it reads."""

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

    # values that users can access, results of their backward, and memory they may write to
    # unreported
    def handed(self, node: Any, grads: Sequence[Any], nr: int = 0) -> None: ...
    def returned(self, node: Any, grads: Sequence[Any]) -> None: ...
    def lent(self, array: Any) -> None: ...


class CallListener(Protocol):
    """Receives each call of an operation, and other changes of tensors by the program."""

    look: ValueObserver | None

    # an ordinary call; `call` is for views and for special modes
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

    # a call with other inputs or results, an in-place write, a leaf's node
    def op(self, op: Any, inputs: Any, outputs: Any, node: Any, begin: int, state: Any) -> None: ...
    def wrote(
        self, op: Any, inputs: Any, target: Any, node: Any, begin: int, state: Any
    ) -> None: ...
    # one operation that wrote to many tensors, to some several times
    def fused(self, op: Any, inputs: Any, written: Any, begin: int, state: Any) -> None: ...
    def accumulator(self, node: Any) -> None: ...
    def came_in(self, tensor: Any) -> None: ...  # a leaf created from data
    def touched(self, tensor: Any) -> None: ...  # a write outside of any call
    def placed(self, tensor: Any, device: Any) -> None: ...  # reported before, or unknown


class BackwardListener(Protocol):
    """Receives each event of a backward."""

    # an ordinary run of a node, and each gradient that it sends
    ran: Callable[..., Any]
    sent: Callable[..., Any]

    def differentiates(self, roots: Sequence[Any]) -> None: ...  # an outermost one is requested
    def backward_begins(
        self, task: Any, root: Any, length: int, state: Any, *, pool: bool
    ) -> None: ...  # pool: a pool thread runs it
    def backward_ends(self, task: Any) -> None: ...
    def popped(self, task: Any, node: Any, at: int, length: int) -> None: ...
    def node_begins(self, task: Any, node: Any, inputs: Sequence[Any]) -> None: ...
    def node_ends(self, task: Any, node: Any, outputs: Sequence[Any], released: Any) -> None: ...
    def node_failed(self, task: Any, node: Any, error: BaseException) -> None: ...
    def skipped(self, task: Any, node: Any) -> None: ...
    def capture(self, task: Any, node: Any, nr: int, grad: Any) -> None: ...
    def accumulate(self, task: Any, node: Any, leaf: Any, how: int) -> None: ...
    def called_back(self, task: Any, function: Any) -> None: ...

    # an engine error is about to be raised: the watcher adds what it knows of the case to its note,
    # and returns True
    def refused(self, slug: str, case: Any, lines: list[str]) -> bool: ...

    # several threads run one graph task: events that `ran` and `sent` do not report
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
    # the program reads a saved tensor; `slot`: its slot, if the node has several
    def unpacked(self, node: Any, value: Any, slot: int | None) -> None: ...


class RankListener(Protocol):
    """Receives what this process does together with other ranks.

    A group is its name, its description, and its ranks by their numbers in the whole program.
    """

    # the collective whose span has this token began
    def exchanges(
        self, token: Any, group: Any, shape: Sequence[int], dtype: Any, frame: FrameType,
        name: str, caller: str, makes: tuple[int, ...],
    ) -> None: ...  # fmt: skip
    # DistributedDataParallel keeps parameters equal
    def replicated(self, group: Any, parameters: Sequence[Any]) -> None: ...
    # all gradients of a bucket have arrived; returns what the other two, on any thread, are given
    def bucket_ready(
        self, number: int, group: Any, flat: Any, parameters: Sequence[Any], reduces: bool,
        frame: FrameType,
    ) -> Any: ...  # fmt: skip
    def bucket_reduce_begins(self, token: Any) -> None: ...
    def bucket_reduce_ends(self, token: Any) -> None: ...


class Probe(CallListener, BackwardListener, RankListener, ProgramListener, Protocol):
    """The interface of a watcher."""

    clock: Callable[[], int]
    replays: Any  # receives replays (capture/told.py); None: steps run uncaptured


here: Any = None
"""The watcher, or None."""

noted: Any = None
call: Any = None
op: Any = None
wrote: Any = None
"""The watcher's methods for calls, or None. A call reads one of them, once."""

ran: Any = None
sent: Any = None
"""The methods that are called for every node."""


def watch(watcher: Any, *, calls: bool = True) -> None:
    """Report everything to `watcher` from now on, calls only if `calls`; None: report nothing.

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
    """Stop reporting calls and runs. `stand_in`, or None, receives all other events."""
    global here, noted, call, op, wrote, ran, sent  # noqa: PLW0603
    noted = call = op = wrote = None
    here = compile_notices.watcher = stand_in
    ran = sent = _nobody  # threads that just found a watcher may still call these


@layout_only
def _nobody(*told: Any) -> None:
    """Ignore the run of a node whose watcher was just removed."""


def take_callables(watcher: Any) -> None:
    """Use the watcher's present methods, and report calls from now on."""
    global noted, call, op, wrote, ran, sent
    ran, sent = watcher.ran, watcher.sent
    noted, call, op, wrote = watcher.noted, watcher.call, watcher.op, watcher.wrote


def lend(array: Any) -> None:
    """Report that the program gets access to a tensor's memory."""
    if here is not None and here.look is not None:
        here.look.lent(array)


@contextmanager
def watching(watcher: Probe) -> Iterator[None]:
    """Report everything to `watcher` inside the block."""
    before = here
    watch(watcher)
    try:
        yield
    finally:
        watch(before)
