"""Steps of a program without an optimizer: they end with backwards that are called repeatedly."""

from __future__ import annotations

import dis
import sys
from itertools import pairwise
from types import CodeType, FrameType
from typing import TYPE_CHECKING

from gradscope.record.process.instances import instances

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from gradscope.record.notes.positions.contexts import Contexts

OPTIMIZERS = "torch.optim.optimizer", "gradscope.runtime.optim.optimizer"
NOWHERE = -2
ENDS = ("RETURN_VALUE", "RETURN_CONST", "RAISE", "RERAISE")
"""Beginnings of the names of instructions after which the next does not run."""
UNIT = 2
"""Bytes between two offsets."""

TRANSFORM = "grad_and_value_impl"
"""The function that runs torch.func.grad, which always requests the graph of its backward."""


class Repeated:
    """Whether a line runs repeatedly: it is in a loop, or called from one."""

    def __init__(self, is_machinery: Callable[[CodeType], bool]) -> None:
        self._is_machinery = is_machinery
        self._loops: dict[int, tuple[CodeType, list[frozenset[int]]]] = {}  # by id(): see Sites
        self._met: set[int] = set()
        self._around = dict(_lines(sys._getframe(1)))  # lines running before the recording

    def __call__(self, frame: FrameType | None) -> bool:
        """Whether a running line of the program is in a loop, or has been seen before."""
        line = None
        while frame is not None:
            code, at = frame.f_code, frame.f_lasti
            if not self._is_machinery(code):
                if line is None:
                    line = id(code) + at
                outside = self._around.get(code, NOWHERE)
                if any(at in loop and outside not in loop for loop in self._loops_of(code)):
                    return True
                if code.co_name == "<module>" and frame.f_globals.get("__name__") == "__main__":
                    break  # the callers of the script are not part of it
            frame = frame.f_back
        if line is None or line in self._met:
            return line is not None
        self._met.add(line)
        return False

    def _loops_of(self, code: CodeType) -> list[frozenset[int]]:
        known = self._loops.get(id(code))
        if known is None:
            known = self._loops[id(code)] = code, loops_of(code)
        return known[1]


def loops_of(code: CodeType) -> list[frozenset[int]]:
    """The offsets of the instructions of each loop.

    A jump back closes a loop if every way to it leads over its target. Other jumps back end a
    handler of errors: Python puts these behind the rest of the code.
    """
    instructions = list(dis.get_instructions(code))
    before = _before(code, instructions)
    bodies = [
        _body(int(each.argval), each.offset, before)
        for each in instructions
        if "JUMP_BACKWARD" in each.opname and "NO_INTERRUPT" not in each.opname
    ]
    return [body for body in bodies if body]


def _before(code: CodeType, instructions: list[dis.Instruction]) -> dict[int, set[int]]:
    """For each offset, those that may run just before it; an instruction may have several."""
    before: dict[int, set[int]] = {at: set() for at in range(0, len(code.co_code), UNIT)}
    for each, following in pairwise(instructions):
        *rest, last = range(each.offset, following.offset, UNIT)
        for at in rest:
            before[at + UNIT].add(at)
        name = each.opname
        if each.opcode in dis.hasjrel:
            before[int(each.argval)].add(each.offset)
        if not name.startswith(ENDS) and not (name.startswith("JUMP_") and "_IF_" not in name):
            before[following.offset].add(last)
    for entry in getattr(dis.Bytecode(code), "exception_entries", ()):
        before[entry.target].update(range(entry.start, entry.end, UNIT))
    return before


def _body(target: int, source: int, before: Mapping[int, set[int]]) -> frozenset[int]:
    """The instructions of the loop that this jump closes; none: it closes no loop."""
    body, pending = {target}, [source]
    while pending:
        at = pending.pop()
        if at < target:
            return frozenset()
        if at not in body:
            body.add(at)
            pending += before[at]
    return frozenset(body)


def _lines(frame: FrameType | None) -> Iterator[tuple[CodeType, int]]:
    while frame is not None:
        yield frame.f_code, frame.f_lasti
        frame = frame.f_back


class StepsByBackward:
    """Reports steps to contexts if no optimizer does."""

    def __init__(self, contexts: Contexts, is_machinery: Callable[[CodeType], bool]) -> None:
        self._contexts = contexts
        self._repeated = Repeated(is_machinery)
        self._looked = False  # whether existing optimizers were searched for
        self.first: Callable[[], None] | None = None  # called when there is one

    def ended(self, frame: FrameType, *, creates: bool) -> None:
        """Called at the end of an outermost backward. `creates`: with create_graph.

        Such a gradient becomes part of a loss, unless a transform requested it.
        """
        contexts = self._contexts
        if contexts.steps.is_told or (creates and not _of_a_transform(frame)):
            return
        if not self._repeated(frame):
            return
        if not self._looked:
            self._looked = True
            if has_optimizers():
                contexts.steps.is_told = True
                return
        if self.first is not None:
            self.first()
            self.first = None
        contexts.backward_ended()


def has_optimizers() -> bool:
    """Whether any optimizer is alive."""
    modules = [sys.modules[name] for name in OPTIMIZERS if name in sys.modules]
    return any(instances(each.Optimizer) for each in modules)


def _of_a_transform(frame: FrameType | None) -> bool:
    """Whether the outermost gradient of a function transform is being computed."""
    many = 0
    while frame is not None:
        many += frame.f_code.co_name == TRANSFORM
        frame = frame.f_back
    return many == 1
