"""The probe over gradscope's own runtime: notes what it is told, with as little as it can.

# Note [Numbers]
One counter numbers everything, in steps of two. A call with one result takes one number for the
call, its node, its result and the result's storage. A tensor's `seen` is its number, plus one if
its gradient goes to the node of that number: so that an input's number says where its gradient
goes. Numbers start above those of earlier recordings (`base`), which is how a tensor last seen then
is known to be new. In the trace they are halved and count from 0.
"""

from __future__ import annotations

from sys import _getframe
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from gradscope.record.catalog import Catalog
from gradscope.record.log import Log
from gradscope.record.sites import Sites
from gradscope.runtime.autograd.accumulate_grad import IN_PLACE
from gradscope.runtime.state import local

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gradscope.record.contexts import Contexts
    from gradscope.record.layouts import Layouts

(
    POP, NODE_BEGIN, NODE_END, PUSH, TASK_BEGIN, TASK_END, SKIPPED, HOOK_BEGIN, HOOK_END, CAPTURE,
    ACCUMULATE, RELEASED, CALLBACK, ENTER, LEAVE, ERROR,
) = range(16)  # fmt: skip
"""Codes of single events; see trace/shorthand/runs.CODES."""

WINDOW = 1 << 13
"""How many numbers are given out between two flushes."""


class Numbers:
    """Gives out even numbers, never the same twice in a process, a window at a time."""

    _last = 0

    def __init__(self) -> None:
        self.base = Numbers._last
        self.next: Any = None
        self.renew()

    def renew(self) -> None:
        """Begin a new window."""
        first = Numbers._last + 2
        Numbers._last += 2 * WINDOW
        self.next = iter(range(first, Numbers._last + 2, 2)).__next__

    def take(self) -> int:
        """The next number, whatever window it is in."""
        try:
            return self.next()
        except StopIteration:
            self.renew()
            return self.next()


class NativeProbe:
    """Takes notes. `catalog` knows the rare things, `contexts` where each thread is."""

    def __init__(
        self,
        numbers: Numbers,
        sites: Sites,
        layouts: Layouts,
        contexts: Contexts,
        catalog: Catalog,
    ) -> None:
        self.numbers = numbers
        self.base = numbers.base
        self.code_sites = sites
        self.contexts = contexts
        self.catalog = catalog
        self.sites = sites.known
        self.site = sites.of
        self.layouts = layouts.known
        self.layout = layouts.of
        self.number = numbers.next
        self.clock = perf_counter_ns
        self.calls_one = Log(10)
        self.calls_two = Log(11)
        self.runs = Log(6)
        self.moves = Log(7)
        self.events = Log(9)
        self.one = self.calls_one.extend
        self.two = self.calls_two.extend
        self.run = self.runs.extend
        self.move = self.moves.extend
        self.look: Any = None
        self.context = contexts.of
        self.unknown = catalog.tensor
        self.irregular = catalog.irregular
        self.module_id: Any = None  # the id of a module that runs inside another
        self.on_window: Any = None  # called when a window of numbers is used up
        self._attended: dict[Any, tuple[Any, bool]] = {}  # each task's last: its node, and begun?

    def without_events(self) -> None:
        """Note the graph only: what backward does to it is left out."""
        self.run = self.move = _nothing
        self.note = _nothing  # type: ignore[method-assign]

    # -- forward --------------------------------------------------------------------------------

    def op(self, op: Any, inputs: Any, outputs: Any, node: Any, begin: int, state: Any) -> None:
        end = perf_counter_ns()
        frame = _getframe(1)
        number = self.catalog.call(
            op, inputs, outputs, node, begin, end,
            self.code_sites.of(frame), self.contexts.of(state), frame,
        )  # fmt: skip
        if self.look is not None:
            self.look.called(number, outputs)

    def wrote(self, op: Any, inputs: Any, target: Any, node: Any, begin: int, state: Any) -> None:
        end = perf_counter_ns()
        frame = _getframe(1)
        number = self.catalog.wrote(
            op, inputs, target, node, begin, end,
            self.code_sites.of(frame), self.contexts.of(state), frame,
        )  # fmt: skip
        if self.look is not None:
            self.look.wrote(number, target)

    def window(self) -> int:
        self.on_window()
        self.numbers.renew()
        self.number = self.numbers.next
        return self.number()

    def made(self, node: Any) -> None:
        self.catalog.accumulator(node)

    # -- backward -------------------------------------------------------------------------------

    def note(
        self, code: int, task: Any, node: Any, a: int = 0, b: int = 0, c: int = 0, d: int = 0,
        at: int = 0,
    ) -> int:  # fmt: skip
        """One event by itself. Returns its time."""
        if task is not None and task.seen <= self.base:  # it began before the recording did
            return at
        number = self.base if node is None else node.seen
        if number <= self.base and node is not None:
            number = self.catalog.node(node)
        at = at or perf_counter_ns()
        self.events.extend((
            at, code, self.contexts.thread(), self.base if task is None else task.seen, number,
            a, b, c, d,
        ))  # fmt: skip
        return at

    def popped(self, task: Any, node: Any, at: int, length: int) -> None:
        self._attended[task] = node, False
        self.note(POP, task, node, length, at=at)

    def begin(self, task: Any, node: Any, inputs: Sequence[Any]) -> None:
        self._attended[task] = node, True
        self.note(NODE_BEGIN, task, node)

    def end(self, task: Any, node: Any, outputs: Sequence[Any], released: Any) -> None:
        self._attended.pop(task, None)
        self.note(NODE_END, task, node)
        if released:
            self.note(RELEASED, task, node)

    def failed(self, task: Any, node: Any, error: BaseException) -> None:
        self.catalog.failed(self, task, node, error)

    def fail(self, task: Any, node: Any) -> None:
        """A node raised: it began, and it ended."""
        attended, begun = self._attended.pop(task, (None, False))
        now = perf_counter_ns()
        if attended is not node:
            self.note(POP, task, node, len(local.state.queue), at=now)
        if attended is not node or not begun:
            self.note(NODE_BEGIN, task, node, at=now)
        self.note(NODE_END, task, node, 1)

    def skipped(self, task: Any, node: Any) -> None:
        self._attended.pop(task, None)
        self.note(SKIPPED, task, node)

    def task_begin(self, task: Any, root: Any, length: int, state: Any) -> None:
        self.catalog.task_begin(self, task, root, length, state)

    def task_end(self, task: Any) -> None:
        self.catalog.task_end(self, task)

    def hook_begin(self, task: Any, node: Any, kind: int, index: int, hook: Any) -> None:
        place, name = self.catalog.hook(hook)
        self.note(HOOK_BEGIN, task, node, kind, index, place, name)

    def hook_end(
        self, task: Any, node: Any, kind: int, index: int, replaced: bool, values: Any
    ) -> None:
        self.note(HOOK_END, task, node, kind, index, int(replaced))

    def capture(self, task: Any, node: Any, nr: int, grad: Any) -> None:
        self.note(CAPTURE, task, node, nr)

    def accumulate(self, task: Any, node: Any, leaf: Any, how: int) -> None:
        self.note(ACCUMULATE, task, node, self.catalog.id_of(leaf), how)
        if how == IN_PLACE:
            self.catalog.added_to(leaf._meta.grad)

    def callback(self, task: Any, function: Any) -> None:
        self.note(CALLBACK, task, None, self.catalog.hook(function)[1])

    # -- around ---------------------------------------------------------------------------------

    def module_begin(self, module: Any) -> None:
        self.contexts.enter_module(self.module_id(module, self.contexts.module()))

    def module_end(self, module: Any) -> None:
        self.contexts.leave_module()

    def phase_begin(self, phase: str, name: str) -> None:
        self.contexts.enter_phase(phase, name)

    def phase_end(self) -> None:
        self.contexts.leave_phase()


def _nothing(*told: Any, **more: Any) -> Any:
    """What is done with what is not to be noted."""
    return 0
