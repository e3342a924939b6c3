"""Level `values`: statistics of what flows, at every place where a NaN or an Inf can be born.

# Note [Looking without touching]
The engine adds into a gradient's memory when nobody else holds it, and `.grad` takes it over. So a
gradient is read where the engine has it at hand, and only numbers are kept of it. What is looked at
belongs to an event; which one is worked out when the trace is read (trace/shorthand/values.py).

# Note [Handed out]
A gradient that users get to see (in a hook, in a custom backward, as `.grad`, from `autograd.grad`)
becomes a tensor of its own. It is noted as a LEAF with the node and the input it comes from (NONE:
it is the `.grad` of the node's leaf), so that what users compute of it is not taken for coming out
of nowhere.
"""

from __future__ import annotations

import threading
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from gradscope.record.log import taken
from gradscope.record.statistics import Statistics, statistics
from gradscope.runtime.autograd.engine import GraphRoot
from gradscope.runtime.autograd.input_buffer import MADE
from gradscope.runtime.state import local
from gradscope.trace.schema import NONE, Finding, Place, Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gradscope.record.session import Session

WHOLE = 256
"""Tensors of at most so many elements are kept whole, where values are wanted."""

SHOWN = {
    Place.OP_OUTPUT: "in the result of a call",
    Place.NODE_INPUT: "in a gradient that a node takes",
    Place.NODE_OUTPUT: "in a gradient that a node returned",
    Place.BUFFER: "in a sum of gradients",
    Place.HOOK: "in what a hook returned",
    Place.GRAD: "in .grad",
    Place.SEED: "in the gradient backward was called with",
    Place.LEAF: "in a tensor that no operation made",
}


def watch_values(session: Session, *, whole: bool) -> None:
    """Let this session's probe look at values too; `whole`: and keep those of small tensors."""
    look = Look(session, whole=whole)
    session.probe.look = look
    session.catalog.on_tensor = look.unknown


class _Handing(threading.local):
    """Where the gradient comes from that a thread is handing out: node, input, graph task."""

    now: tuple[int, int, int] | None = None


class Look:
    """Notes the statistics of every tensor it is shown."""

    def __init__(self, session: Session, *, whole: bool) -> None:
        self._session = session
        self._base = session.base
        self._whole = whole
        self._notes: list[tuple[Any, ...]] = []
        self.paths: list[tuple[int, str]] = []  # the dispatch keys each call went through
        self._written = 0
        self._findings: list[tuple[Any, ...]] = []
        self._missing = {"nan", "inf"}  # what has not been found yet
        self._handing = _Handing()
        self._returned: dict[Any, list[int]] = {}
        self._sent: set[Any] = set()  # nodes whose outputs were looked at before their hooks
        self._grads: dict[int, int] = {}  # leaf → the tensor its .grad was

    # -- what is shown ----------------------------------------------------------------------------

    def made(self, op: Any, node: Any, number: int, made: Any, state: Any) -> None:
        """The result of a call."""
        call = number & ~1
        if self._whole:
            self.paths.append((call, state.path))
        self._note(Place.OP_OUTPUT, made._array, call, self._base, 0, call, state.task)

    def called(self, number: int, outputs: Sequence[Any]) -> None:
        """The results of a call that was written out in full; those known before were looked at."""
        task = local.state.task
        if self._whole:
            self.paths.append((number, local.state.path))
        for index, made in enumerate(outputs):
            if made is not None and made.seen >= number:
                tensor = made.seen & ~1
                self._note(Place.OP_OUTPUT, made._array, number, self._base, index, tensor, task)

    def wrote(self, number: int, target: Any) -> None:
        """What a call wrote into a tensor."""
        if self._whole:
            self.paths.append((number, local.state.path))
        task, tensor = local.state.task, target.seen & ~1
        self._note(Place.OP_OUTPUT, target._array, number, self._base, 0, tensor, task)

    def unknown(self, tensor: Any, number: int) -> None:
        """A tensor that no call made is used for the first time."""
        node, nr, task = self._handing.now or (self._base, 0, self._base)
        self._row(Place.LEAF, tensor._array, self._base, node, nr, number, task)

    def seed(self, task: Any, node: Any, nr: int, grad: Any) -> None:
        """A gradient that backward starts from."""
        self._at(Place.SEED, task, node, nr, grad)

    def inputs(self, task: Any, node: Any, grads: Sequence[Any]) -> None:
        """The gradients a node takes, just before it runs."""
        for nr, grad in enumerate(grads):
            self._at(Place.NODE_INPUT, task, node, nr, grad)

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
    ) -> None:
        """A gradient a node returned, as it goes on, and what it was added to."""
        if grad is None:
            return
        if node.__class__ is not GraphRoot and node not in self._sent:  # a root's are the seeds
            self._sent_on(task, node, index, grad)
        if how != MADE:
            self._at(Place.BUFFER, task, following, nr, summed)

    def _sent_on(self, task: Any, node: Any, index: int, grad: Any) -> None:
        returned = self._returned.get(node)
        tensor = self._base if returned is None or index >= len(returned) else returned[index]
        array = grad._array if hasattr(grad, "_array") else grad
        number = self._session.catalog.number_of_node(node)
        self._row(Place.NODE_OUTPUT, array, self._base, number, index, tensor, task.seen)

    def outputs(self, task: Any, node: Any, grads: Sequence[Any]) -> None:
        """All gradients a node returned, where hooks are going to change them."""
        for index, grad in enumerate(grads):
            if grad is not None:
                self._sent_on(task, node, index, grad)
        self._sent.add(node)

    def over(self, node: Any) -> None:
        """All a node returned has gone on."""
        self._returned.pop(node, None)
        self._sent.discard(node)

    def hooked(self, task: Any, node: Any, nr: int, grads: Sequence[Any]) -> None:
        """The gradients after a hook; `nr` is the first one's place."""
        for place, grad in enumerate(grads):
            if grad is not None:
                self._at(Place.HOOK, task, node, nr + place, grad, self._known(grad))

    def stepped(self, task: Any, node: Any, leaf: Any) -> None:
        """A leaf's `.grad` after a hook that is told of it."""
        grad = leaf._meta.grad
        if grad is not None:
            self._at(Place.HOOK, task, node, 0, grad, self._session.catalog.number_of(leaf))

    def grad(self, task: Any, node: Any, leaf: Any) -> None:
        """A leaf's `.grad` after a gradient arrived in it."""
        catalog, grad = self._session.catalog, leaf._meta.grad
        number = catalog.number_of(leaf)
        self._at(Place.GRAD, task, node, 0, grad, number)
        if self._grads.get(number) != grad.seen & ~1 or grad.seen <= self._base:
            self.handed(node, (grad,), NONE)
            self._grads[number] = grad.seen & ~1

    def handed(self, node: Any, grads: Sequence[Any], nr: int = 0) -> None:
        """Gradients that a user is about to see. See Note [Handed out]."""
        catalog, task = self._session.catalog, local.state.task
        from_node = catalog.number_of_node(node)
        for place, grad in enumerate(grads):
            if grad is None or grad.seen > self._base:
                continue
            self._handing.now = (from_node, nr + place, self._base if task is None else task.seen)
            try:
                catalog.number_of(grad)
            finally:
                self._handing.now = None

    def returned(self, node: Any, grads: Sequence[Any]) -> None:
        """The gradients that a user's backward returned."""
        self._returned[node] = [self._known(grad) for grad in grads]

    # -- notes ------------------------------------------------------------------------------------

    def _known(self, tensor: Any) -> int:
        """A tensor's number, if it has one."""
        seen = 0 if tensor is None else tensor.seen
        return int(seen & ~1) if seen > self._base else self._base

    def _at(
        self, place: Place, task: Any, node: Any, nr: int, grad: Any, tensor: int | None = None
    ) -> None:
        """A gradient, array or tensor, at an input or output of a node."""
        if grad is None:
            return
        array = grad._array if hasattr(grad, "_array") else grad
        number = self._session.catalog.number_of_node(node)
        known = self._base if tensor is None else tensor
        self._row(place, array, self._base, number, nr, known, task.seen)

    def _note(
        self, place: Place, array: Any, op: int, node: int, index: int, tensor: int, task: Any
    ) -> None:
        self._row(place, array, op, node, index, tensor, self._base if task is None else task.seen)

    def _row(
        self, place: Place, array: Any, op: int, node: int, index: int, tensor: int, task: int
    ) -> None:
        found = statistics(array)
        session = self._session
        now = perf_counter_ns() - session.start
        data = _json(array) if self._whole and array.size <= WHOLE else ""
        step = session.contexts.step
        task = max(task, self._base)  # one that began before the recording is unknown
        self._notes.append((place, op, node, index, tensor, task, step, now, found, data))
        if found.bad and self._missing:
            self._found(place, op, node, now, found)

    def _found(self, place: Place, op: int, node: int, now: int, found: Statistics) -> None:
        """The first NaN or Inf of the recording."""
        intern = self._session.writer.intern
        for kind, count in (("nan", found.nan), ("inf", found.posinf + found.neginf)):
            if count and kind in self._missing:
                self._missing.discard(kind)
                name = {"nan": "NaN", "inf": "Inf"}[kind]
                message = f"the first {name} is {SHOWN[place]}: {count} of {found.size} elements"
                stack = self._session.sites.here(2)
                self._findings.append((
                    len(self._missing), intern(kind), intern(message), int(place), op, node, stack,
                    now,
                ))  # fmt: skip

    # -- rows -------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Hand all notes so far to the writer."""
        notes = taken(self._notes)
        if notes:
            self._values(notes)
        findings = taken(self._findings)
        if findings:
            id, kind, message, place, op, node, stack, t = map(list, zip(*findings, strict=True))
            ids = self._session.ids
            self._session.writer.block(Finding, {
                "id": id, "kind": kind, "message": message, "place": place, "op": ids(op),
                "node": ids(node), "seq": [NONE] * len(id), "stack": stack, "t": t,
            })  # fmt: skip

    def _values(self, notes: list[tuple[Any, ...]]) -> None:
        place, op, node, index, tensor, task, step, t, found, data = zip(*notes, strict=True)
        first, self._written = self._written, self._written + len(notes)
        ids, intern = self._session.ids, self._session.writer.intern
        names = Statistics._fields
        counts = dict(zip(names, map(list, zip(*found, strict=True)), strict=True))
        self._session.writer.block(Value, {
            "id": list(range(first, self._written)), "place": list(map(int, place)),
            "op": ids(op), "node": ids(node), "index": list(index), "tensor": ids(tensor),
            "task": ids(task), "step": list(step), "seq": [NONE] * len(notes), "t": list(t),
            "count": counts["size"],
            **{name: np.array(counts[name]) for name in names if name not in {"size", "bad"}},
            "bad": counts["bad"], "data": [intern(text) if text else 0 for text in data],
        })  # fmt: skip


def _json(array: Any) -> str:
    """The values as nested lists; what JSON has no number for as text."""
    if array.dtype.kind == "c":
        array = array.view(array.real.dtype).reshape(*array.shape, 2)
    if array.dtype.kind in "fV":
        array = array.astype(np.float64)
    values = array.tolist()
    return orjson.dumps(values if np.isfinite(array).all() else _spelled(values)).decode()


def _spelled(value: Any) -> Any:
    if isinstance(value, list):
        return [_spelled(each) for each in value]
    return value if np.isfinite(value) else str(value)
