"""Records calls of operations as reported by the runtime: implements `CallListener`."""

from __future__ import annotations

from sys import _getframe
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from gradscope.record.from_runtime.cold.history import odd
from gradscope.record.notes.log import Log
from gradscope.runtime.core.rows.operation import Operation

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from gradscope.record.from_runtime.cold.catalog import Catalog
    from gradscope.record.from_runtime.hot.frees import Frees
    from gradscope.record.notes.layouts import Layouts
    from gradscope.record.notes.positions.contexts import Contexts
    from gradscope.record.session import Session


class CallNotes:
    """Records calls with one or two inputs and one result; passes others to `catalog`."""

    contexts: Contexts
    rest: Callable[[], None]
    """Clears the recorded notes when no numbers are left."""

    def __init__(self, session: Session, catalog: Catalog, layouts: Layouts, frees: Frees) -> None:
        self.numbers = session.numbers
        self.base = session.base
        self.code_sites = session.sites
        self._site: Callable[[FrameType], int] = session.sites.of
        self.catalog = catalog
        self.arguments = catalog.arguments
        self.layouts = layouts
        self.frees = frees
        self.calls_one, self.calls_two = Log(10), Log(11)
        self.look: Any = None
        self.came_in = catalog.leaves.came

    def call(
        self, op: Any, op_number: int, node: Any, made: Any, meta: Any, state: Any, begin: int,
        frame: FrameType, *inputs: Any,
    ) -> None:  # fmt: skip
        """Record a call with one or two inputs and one result."""
        end = perf_counter_ns()
        base, catalog = self.base, self.catalog
        site = self._site(frame)
        if state.special and "wrapped_number" in inputs[-1].__dict__:
            inputs = inputs[:-1]  # the slower path converts numbers to tensors
        if made.record_nr > base:  # a hook saw it during its creation
            context = self.contexts.of(state)
            number = catalog.call(op, inputs, (made,), node, begin, end, site, context, frame)
            if self.look is not None:
                self.look.called(number, (made,), fresh=False)
            return
        taken = [t.record_nr if t.record_nr > base else catalog.tensor(t, frame) for t in inputs]
        try:
            number = self.numbers.next()
        except StopIteration:
            number = self._window()
        context = state.context or self.contexts.at_call(state, node)
        if node is None:
            made.record_nr = number - 1
            sequence, top = -3 if state.inference else state.grad_enabled - 2, -1
        else:
            node.record_nr = made.record_nr = number
            sequence, top = node.sequence_nr, node.topological_nr
        log = self.calls_one if len(taken) == 1 else self.calls_two
        layout = self.layouts.of(meta)
        log.note(number, begin, end, context, op_number, sequence, top, *taken, site, layout)
        if node is not None and self.arguments.seldom.due(op_number, site, layout):
            self.arguments.look(node, number)
        if made._storage is None and made._array.nbytes >= self.frees.smallest:
            self.frees.follow(made._array, number & ~1)
        if made._storage is not None or state.special or any(map(odd, inputs)):
            catalog.irregular(op, node, number, inputs, made)
        if self.look is not None:
            self.look.result(op, node, number, made, state)

    noted: Any = call

    def op(self, op: Any, inputs: Any, outputs: Any, node: Any, begin: int, state: Any) -> None:
        end = perf_counter_ns()
        frame = _getframe(1)
        number = self.catalog.call(
            op, inputs, outputs, node, begin, end,
            self._site(frame), self.contexts.at_call(state, node), frame,
        )  # fmt: skip
        if self.look is not None:
            self.look.called(number, outputs, fresh=op.__class__ is Operation)

    def wrote(self, op: Any, inputs: Any, target: Any, node: Any, begin: int, state: Any) -> None:
        end = perf_counter_ns()
        frame = _getframe(1)
        number = self.catalog.wrote(
            op, inputs, target, node, begin, end,
            self._site(frame), self.contexts.at_call(state, node), frame,
        )  # fmt: skip
        if self.look is not None:
            self.look.wrote(number, target)

    def fused(self, op: Any, inputs: Any, written: Any, begin: int, state: Any) -> None:
        frame, context = _getframe(1), self.contexts.of(state)
        site, enabled = self._site(frame), state.grad_enabled
        catalog, note = self.catalog, self.catalog.fused.note
        number, targets = note(catalog, op, inputs, written, begin, site, context, frame, enabled)
        for target in targets if self.look is not None else ():
            self.look.wrote(number, target)

    def touched(self, tensor: Any) -> None:
        self.catalog.touched(tensor)

    def accumulator(self, node: Any) -> None:
        self.catalog.accumulator(node)

    def _window(self) -> int:
        self.rest()
        self.numbers.renew()
        return self.numbers.take() + 1
