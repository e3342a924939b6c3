"""The probe over gradscope's own runtime: notes what it is told, with as little as it can.

See Note [Numbers] in record/notes/numbers.py.
"""

from __future__ import annotations

from sys import _getframe
from threading import get_ident
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.record.from_runtime.cold.catalog import Catalog
from gradscope.record.from_runtime.cold.history import odd, place_of_saved
from gradscope.record.from_runtime.hot.own_hooks import OwnHook, running
from gradscope.record.from_runtime.hot.threads import ThreadNotes
from gradscope.record.notes.log import Log
from gradscope.record.notes.numbers import RecordNumbers
from gradscope.record.notes.sites import Sites
from gradscope.runtime.core import probe
from gradscope.runtime.core.autograd.engine.graph_task import GraphTask
from gradscope.runtime.core.graph.node import Node
from gradscope.runtime.core.rows.operation import Operation
from gradscope.runtime.core.state.thread import ThreadState, local
from gradscope.runtime.core.tensors.memory.storage import VersionCounter
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.trace.schema import NONE, events
from gradscope.trace.shorthand.runs import MODULE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

    from gradscope.record.from_runtime.c_functions.functions import Functions
    from gradscope.record.from_runtime.c_functions.parts import Follower
    from gradscope.record.from_runtime.error_lines.added import Answers
    from gradscope.record.from_runtime.hot.frees import Frees
    from gradscope.record.notes.contexts import Contexts
    from gradscope.record.notes.layouts import Layouts
    from gradscope.record.notes.log import Ints
    from gradscope.trace.schema import Event

PACE = 8_000_000
"""After so many nanoseconds of a backward there is a rest, too."""

TAKEN, BEGUN, ENDED = "taken", "begun", "ended"
"""How far a node has come that a thread attends to."""

SLOTS = (
    (Node, "record_nr"), (Node, "sequence_nr"), (Node, "topological_nr"), (Tensor, "record_nr"),
    (Tensor, "_edge"), (Tensor, "_versions"), (VersionCounter, "value"), (ThreadState, "context"),
    (ThreadState, "grad_enabled"),
)  # fmt: skip
"""Where C functions look; see from_runtime/c_functions/functions.py for the order."""

FOLLOWED = ((Node, "record_nr"), (GraphTask, "record_nr"), (GraphTask, "last_told"))


class RuntimeProbe(ThreadNotes):
    """Takes notes. `catalog` knows the rare things, `contexts` where each thread is."""

    def __init__(
        self,
        numbers: RecordNumbers,
        sites: Sites,
        layouts: Layouts,
        contexts: Contexts,
        catalog: Catalog,
        frees: Frees,
    ) -> None:
        self.numbers = numbers
        self.base = numbers.base
        self.code_sites = sites
        self._site: Callable[[FrameType], int] = sites.of
        self.contexts = contexts
        self.phase_begin, self.phase_end = contexts.enter_phase, contexts.leave_phase
        self.span_begin, self.span_end = contexts.begin_span, contexts.end_span
        self.own_work_begin, self.own_work_end = contexts.begin_own_work, contexts.end_span
        self.catalog = catalog
        self.arguments = catalog.arguments
        self.layouts = layouts
        self.frees = frees
        self.clock = perf_counter_ns
        self.calls_one = Log(10)
        self.calls_two = Log(11)
        self.runs = Log(6)
        self.moves = Log(7)
        self.events = Log(9)
        self.logs = (self.calls_one, self.calls_two, self.runs, self.moves, self.events)
        self.event = self.events.note
        self.look: Any = None
        self.replays: Any = None  # whom captured steps tell of replays
        self.hooked: Callable[[Any, int], None] | None = None  # a hook is about to be called
        self.called: Callable[[Any, int], None] = _nothing  # a module
        self.stepping: Callable[[Any], None] = _nothing  # an optimizer is about to
        self.stepped: Callable[[Any], None] = _nothing  # write its parameters; and has
        self.came_in: Callable[[Any], None] = _nothing  # a leaf that the program has made
        self.module_id: Any = None  # the id of a module that runs inside another
        self.answers: Answers | None = None  # what can be said of an error
        self.on_rest: Any = None  # called when there is something to clear away
        self._due = 0  # when the next rest is, if a backward runs
        self._follower: Follower | None = None
        self._attended: dict[Any, dict[int, tuple[Any, str]]] = {}  # each task's last, by thread

    def without_events(self) -> None:
        """Note the graph only: what backward does to it is left out."""
        self.ran = self.sent = _nothing  # type: ignore[method-assign]
        self.note = _nothing  # type: ignore[method-assign]

    def compile(self, functions: Functions, *, unused: bool) -> None:
        """From now on, note by C functions. See Note [Numbers without objects]."""
        from gradscope.record.from_runtime.c_functions.parts import Follower, Teller

        one, two, runs, moves, _ = (log.compile(functions) for log in self.logs)
        self.event = self.events.note
        table = self.code_sites.compile(functions)
        self._site = table.site
        teller = Teller(
            functions, (one, two), table,
            self.numbers.compile(functions, unused=unused), self.base, self.layouts.known, SLOTS,
            self.arguments, self.call,
        )  # fmt: skip
        self.noted = teller.noted
        if self.ran is not _nothing:
            follower = self._follower = Follower(
                functions, (runs, moves), FOLLOWED, (self.ran, self.sent), self.rest
            )
            self.ran, self.sent = follower.ran, follower.sent  # type: ignore[method-assign]
            self.counted = follower.counted  # type: ignore[method-assign]
        if probe.here is self:  # and not somebody who stands in for it during a pause
            probe.take_callables(self)

    def finish(self) -> None:
        """The recording is over, and nobody reads what is noted: hold nobody who holds this.

        A call that is under way in another thread holds the callable it found, and that all it
        needs; whoever looks for one now finds its twin in Python.
        """
        self.on_rest = self.catalog.on_task_end = _nothing
        self.answers = self.catalog.on_tensor = self.replays = None
        for log in self.logs:
            log.finish()
        self.event = self.events.note
        self.code_sites.finish()
        self._site = self.code_sites.of
        twins = ("noted",) if self._follower is None else ("noted", "ran", "sent", "counted")
        for name in twins:
            self.__dict__.pop(name, None)
        self._follower = None

    # -- forward --------------------------------------------------------------------------------

    def call(
        self, op: Any, op_number: int, node: Any, made: Any, meta: Any, state: Any, begin: int,
        frame: FrameType, *inputs: Any,
    ) -> None:  # fmt: skip
        """Note a call with one or two inputs and one result."""
        end = perf_counter_ns()
        base, catalog = self.base, self.catalog
        site = self._site(frame)
        if state.special and "wrapped_number" in inputs[-1].__dict__:
            inputs = inputs[:-1]  # the long way round makes tensors of numbers
        if made.record_nr > base:  # a hook has seen it while it was made
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

    def _window(self) -> int:
        self.rest()
        self.numbers.renew()
        return self.numbers.take() + 1

    def rest(self) -> None:
        """Clear the lists, and perhaps write what was in them."""
        self.on_rest()
        self._due = perf_counter_ns() + PACE
        follower = self._follower
        if follower is not None:
            follower.rest_after(self._due)

    def clear(self) -> int:
        """Clear the lists. Returns how many records wait to be written."""
        for log in self.logs:
            log.rest()
        return sum(map(len, self.logs))

    def accumulator(self, node: Any) -> None:
        self.catalog.accumulator(node)

    # -- backward -------------------------------------------------------------------------------

    def ran(self, begin: int, end: int, task: Any, node: Any, popped: int, released: int) -> None:
        self.runs.note(begin, end, task.record_nr, node.record_nr, popped, released)
        task.last_told = node.record_nr

    def sent(
        self, begin: int, target: Any, index: int, nr: int, how: int, left: int, heap: Any
    ) -> None:
        self.moves.note(begin, target.record_nr, index, nr, how, left, len(heap))

    def counted(self, counts: dict[Node, int]) -> Ints:
        """The numbers of nodes, and beside them their counts."""
        return np.array([[node.record_nr for node in counts], list(counts.values())], np.int64)

    def note(
        self, kind: type[Event], task: Any, node: Any, a: int = 0, b: int = 0, c: int = 0,
        d: int = 0, at: int = 0,
    ) -> int:  # fmt: skip
        """One event by itself: a, b, c, d are what its latest code says. Returns its time."""
        if task is not None and task.record_nr <= self.base:  # it began before the recording did
            return at
        number = self.base if node is None else node.record_nr
        if number <= self.base and node is not None:
            number = self.catalog.node(node)
        at = at or perf_counter_ns()
        self.event(
            at, kind.CODE, self.contexts.thread(), self.base if task is None else task.record_nr,
            number, a, b, c, d,
        )  # fmt: skip
        return at

    def _attend(self, task: Any, node: Any, stage: str) -> None:
        """Remember how far this thread has come with the node it attends to."""
        self._attended.setdefault(task, {})[get_ident()] = node, stage

    def popped(self, task: Any, node: Any, at: int, length: int) -> None:
        self._attend(task, node, TAKEN)
        if length >= 0:  # else it is told already
            self.note(events.Pop, task, node, length, self.contexts.thread(), at=at)

    def begin(self, task: Any, node: Any, inputs: Sequence[Any]) -> None:
        self._attend(task, node, BEGUN)
        self.note(events.NodeBegin, task, node)

    def end(self, task: Any, node: Any, outputs: Sequence[Any], released: Any) -> None:
        self._attend(task, node, ENDED)
        self.note(events.NodeEnd, task, node)
        if released:
            self.note(events.SavedReleased, task, node)

    def failed(self, task: Any, node: Any, error: BaseException) -> None:
        type, message = self.catalog.raised(error)
        self.fail(task, node)
        self.note(events.Error, task, node, type, message)

    def refused(self, slug: str, case: Any, lines: list[str]) -> bool:
        answers = self.answers
        if answers is not None:
            answers.complete(case, lines)
        return True

    def fail(self, task: Any, node: Any) -> None:
        """Something raised at a node: in its function, before it, or after."""
        attended, stage = self._attended.get(task, {}).get(get_ident(), (None, TAKEN))
        if task.last_told == node.record_nr > self.base:
            return  # its run has been told: this comes from a signal
        begin, popped, taken = task.taken
        if attended is not node:
            begun = taken is node
            length = popped if begun else len(local.state.queue)
            queue = self.contexts.thread()
            self.note(events.Pop, task, node, length, queue, at=begin if begun else 0)
            info = task.exec_info
            if begun and (info is None or info[node].needed):
                self.note(events.NodeBegin, task, node, at=begin)
                stage = BEGUN
        if stage is BEGUN:
            self.note(events.NodeEnd, task, node, 1)
        if taken is node and stage is not TAKEN:  # else a hook raised before it began
            self.runs.note(begin, perf_counter_ns(), task.record_nr, node.record_nr, 0, -1)

    def skipped(self, task: Any, node: Any) -> None:
        self.note(events.Skipped, task, node)

    def task_begin(
        self, task: Any, root: Any, length: int, state: Any, *, pool: bool = False
    ) -> None:
        counts = self.counted(task.dependencies)
        self.catalog.task_begin(self.note, task, root, counts, length, pool=pool)

    def task_end(self, task: Any) -> None:
        self._attended.pop(task, None)
        self.catalog.task_end(self.note, task)

    def hook_begin(self, task: Any, node: Any, kind: int, index: int, hook: Any) -> None:
        running.ours = hook.__class__ is OwnHook
        if running.ours:
            return
        place, name = self.catalog.hook(hook)
        self.note(events.HookBegin, task, node, kind, index, place, name)
        if self.hooked is not None:
            self.hooked(hook, kind)

    def module_hook_begin(
        self, task: Any, node: Any, module: Any, kind: int, index: int, hook: Any
    ) -> None:
        running.ours = False
        place, name = self.catalog.hook(hook)
        told = kind
        if hasattr(module, "_modules"):  # a BackwardHook set up by hand may belong to anything
            told += MODULE * (self.module_id(module, NONE) + 1)
        self.note(events.HookBegin, task, node, told, index, place, name)
        if self.hooked is not None:
            self.hooked(hook, kind)

    def hook_end(
        self, task: Any, node: Any, kind: int, index: int, replaced: bool, values: Any
    ) -> None:
        if running.ours:
            return
        self.note(events.HookEnd, task, node, kind, index, int(replaced))

    def capture(self, task: Any, node: Any, nr: int, grad: Any) -> None:
        self.note(events.Capture, task, node, nr)

    def accumulate(self, task: Any, node: Any, leaf: Any, how: int) -> None:
        self.note(events.Accumulate, task, node, self.catalog.id_of(leaf), how)

    def unpacked(self, node: Any, value: Any, slot: int | None) -> None:
        if node is not None:
            place = place_of_saved(node, value, slot)
            self.note(events.SavedUnpacked, local.state.task, node, place)

    def callback(self, task: Any, function: Any) -> None:
        self.note(events.Callback, task, None, self.catalog.hook(function)[1])

    # -- around ---------------------------------------------------------------------------------

    def module_begin(self, module: Any) -> None:
        number = self.module_id(module, self.contexts.module())
        self.called(module, number)
        self.contexts.enter_module(number)

    def module_end(self, module: Any) -> None:
        self.contexts.leave_module()


def _nothing(*told: Any, **more: Any) -> Any:
    """What is done with what is not to be noted."""
    return 0
