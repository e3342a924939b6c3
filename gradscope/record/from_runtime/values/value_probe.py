"""Level `values`: statistics at every place where a NaN or an Inf can first be produced.

# Note [Reading gradients]
The engine adds into a gradient's memory if there is no other reference to it, and moves it into
`.grad`. So a gradient is read where the engine has it available, and only statistics are stored.
Each value belongs to an event, which is determined when the trace is read
(trace/shorthand/values.py).

# Note [Passed to users]
A gradient that is passed to users (in a hook, in a custom backward, as `.grad`, from
`autograd.grad`) becomes a separate tensor. It is recorded as a LEAF with its node and input (NONE:
it is the `.grad` of the node's leaf), so that the origin of what users compute from it is known.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.record.from_runtime.cold.history import version_of
from gradscope.record.from_runtime.hot.own_hooks import running
from gradscope.record.from_runtime.values.measured import Measured
from gradscope.record.from_runtime.values.value_notes import ValueNotes
from gradscope.runtime.core.autograd.engine.accumulate_grad import owns
from gradscope.runtime.core.autograd.engine.engine import GraphRoot
from gradscope.runtime.core.graph.input_buffer import MADE
from gradscope.runtime.core.state.thread import local
from gradscope.trace.schema import NONE, Place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gradscope.record.from_runtime.cold.catalog import Catalog
    from gradscope.record.session import Session

ndarray = np.ndarray


class _Handing(threading.local):
    """Origin of the gradient that a thread is passing to users: node, input, graph task."""

    now: tuple[int, int, int] | None = None


class ValueLook:
    """Records statistics of tensors; `whole`: small tensors are stored completely."""

    def __init__(self, session: Session, catalog: Catalog, *, whole: bool) -> None:
        self._catalog = catalog
        self._base = session.base
        self._whole = whole
        self._measured = Measured()
        notes = ValueNotes(session, self._measured, whole=whole)
        self._row, self.flush = notes.note, notes.flush
        self.paths: list[tuple[int, str]] = []  # the dispatch keys of each call
        self._handing = _Handing()
        self._returned: dict[Any, list[int]] = {}
        self._sent: set[Any] = set()  # nodes whose outputs were measured before their hooks
        self._grads: dict[int, int] = {}  # leaf → the tensor that was its .grad

    # -- reports ----------------------------------------------------------------------------------

    def result(self, op: Any, node: Any, number: int, made: Any, state: Any) -> None:
        """The result of a call."""
        call = number & ~1
        if self._whole:
            self.paths.append((call, state.path))
        self._result(call, 0, made, self._row_of(made), call, state.task)

    def called(self, number: int, outputs: Sequence[Any], *, fresh: bool) -> None:
        """The results of a call that was written in full; those known before were measured.

        `fresh`: they were created by the runtime, not by users' functions.
        """
        state = local.state
        if self._whole:
            self.paths.append((number, state.path))
        for index, made in enumerate(outputs):
            if made is not None and made.record_nr >= number:
                row = self._row_of(made) if fresh else self._measured.row(made._array)
                self._result(number, index, made, row, made.record_nr & ~1, state.task)

    def wrote(self, number: int, target: Any) -> None:
        """The new values of a tensor that a call wrote to."""
        state = local.state
        if self._whole:
            self.paths.append((number, state.path))
        self._measured.forget()
        row = self._measured.row(target._array)
        self._result(number, 0, target, row, target.record_nr & ~1, state.task)

    def _row_of(self, made: Any) -> tuple[int, bool]:
        """The row of the result of an operation of the runtime."""
        array, storage = made._array, made._storage
        if storage is None:
            return self._measured.of_made(array) if owns(array) else self._measured.row(array)
        versions = made._versions
        if storage.device is not None or (versions is not None and versions.value):
            return self._measured.row(array)
        return self._measured.of_view(array)

    def _result(
        self, call: int, index: int, made: Any, row: tuple[int, bool], tensor: int, task: Any
    ) -> None:
        nr = self._base if task is None else task.record_nr
        self._row(Place.OP_OUTPUT, made._array, row, call, self._base, index, tensor, nr)

    def lent(self, array: Any) -> None:
        """Called when the program gets access to memory."""
        self._measured.lent(array)

    def forget(self) -> None:
        """Called when the following changes are not observed."""
        self._measured.forget()

    def unknown(self, tensor: Any, number: int) -> None:
        """A tensor that no recorded call created is used for the first time."""
        array = tensor._array
        handing = self._handing.now
        if handing is None:
            row, node, nr, task = self._measured.row(array), self._base, 0, self._base
        else:
            node, nr, task = handing
            row = self._measured.of_gradient(array)
        self._row(Place.LEAF, array, row, self._base, node, nr, number, task)

    def seed(self, task: Any, node: Any, nr: int, grad: Any) -> None:
        """A gradient with which a backward begins."""
        self._measured.forget()
        self._at(Place.SEED, task, node, nr, grad)

    def inputs(self, task: Any, node: Any, grads: Sequence[Any]) -> None:
        """The gradients that a node receives, just before it runs."""
        for nr, grad in enumerate(grads):
            if grad is not None:
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
        """A gradient that a node returned, when it is passed on, and the sum it was added to."""
        if grad is None:
            return
        if node.__class__ is not GraphRoot and node not in self._sent:  # the root's are the seeds
            self._sent_on(task, node, index, grad)
        if how != MADE:
            self._at(Place.BUFFER, task, following, nr, summed, written=True)

    def _sent_on(self, task: Any, node: Any, index: int, grad: Any) -> None:
        returned = self._returned.get(node, ())
        tensor = returned[index] if index < len(returned) else None
        self._at(Place.NODE_OUTPUT, task, node, index, grad, tensor)

    def outputs(self, task: Any, node: Any, grads: Sequence[Any]) -> None:
        """All gradients that a node returned, before hooks change them."""
        for index, grad in enumerate(grads):
            if grad is not None:
                self._sent_on(task, node, index, grad)
        self._sent.add(node)

    def over(self, node: Any) -> None:
        """All gradients that a node returned have been passed on."""
        self._returned.pop(node, None)
        self._sent.discard(node)

    def hooked(self, task: Any, node: Any, nr: int, grads: Sequence[Any]) -> None:
        """The gradients after a hook; `nr` is the index of the first one."""
        if running.ours:
            return
        self._measured.forget()
        for place, grad in enumerate(grads):
            if grad is not None:
                self._at(Place.HOOK, task, node, nr + place, grad, self._known(grad))

    def stepped(self, task: Any, node: Any, leaf: Any) -> None:
        """A leaf's `.grad` after a hook that runs after accumulation."""
        self._measured.forget()
        grad = leaf._meta.grad
        if grad is not None:
            self._at(Place.HOOK, task, node, 0, grad, self._catalog.number_of(leaf))

    def grad(self, task: Any, node: Any, leaf: Any) -> None:
        """A leaf's `.grad` after a gradient was accumulated into it."""
        catalog, grad = self._catalog, leaf._meta.grad
        number = catalog.number_of(leaf)
        written = version_of(grad) > 0  # otherwise it is the received gradient, or a copy
        self._at(Place.GRAD, task, node, 0, grad._array, number, written=written)
        if self._grads.get(number) != grad.record_nr & ~1 or grad.record_nr <= self._base:
            self._hand(node, (grad,), NONE)
            self._grads[number] = grad.record_nr & ~1
        self._measured.lent(grad._array)

    def handed(self, node: Any, grads: Sequence[Any], nr: int = 0) -> None:
        """Gradients that are passed to users. See Note [Passed to users]."""
        self._hand(node, grads, nr)
        self._measured.forget()

    def _hand(self, node: Any, grads: Sequence[Any], nr: int) -> None:
        catalog, task = self._catalog, local.state.task
        from_node = catalog.number_of_node(node)
        for place, grad in enumerate(grads):
            if grad is None or grad.record_nr > self._base:
                continue
            self._handing.now = (
                from_node,
                nr + place,
                self._base if task is None else task.record_nr,
            )
            try:
                catalog.number_of(grad)
            finally:
                self._handing.now = None

    def returned(self, node: Any, grads: Sequence[Any]) -> None:
        """The gradients that a user's backward returned."""
        self._measured.forget()
        self._returned[node] = [self._known(grad) for grad in grads]

    # -- notes ------------------------------------------------------------------------------------

    def _known(self, tensor: Any) -> int:
        """The number of a tensor, if it has one."""
        seen = 0 if tensor is None else tensor.record_nr
        return int(seen & ~1) if seen > self._base else self._base

    def _at(
        self,
        place: Place,
        task: Any,
        node: Any,
        nr: int,
        grad: Any,
        tensor: int | None = None,
        *,
        written: bool = False,
    ) -> None:
        """Record a gradient, array or tensor, at an input or output of a node."""
        if grad.__class__ is ndarray:
            array, look = grad, self._measured
            row = look.of_made(array) if written else look.of_gradient(array)
        else:
            array = grad._array
            row = self._measured.row(array)
        number = node.record_nr
        if number <= self._base:
            number = self._catalog.number_of_node(node)
        known = self._base if tensor is None else tensor
        self._row(place, array, row, self._base, number, nr, known, task.record_nr)
