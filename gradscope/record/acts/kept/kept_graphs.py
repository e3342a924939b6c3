"""Graphs of earlier steps that still exist, and what in the program holds them.

# Note [Looking for graphs]
At the ends of some steps (seldom, and for at most a hundredth of the time) the names of the program
are searched: the variables of the running functions, the globals of the script, and in them lists,
dicts, modules, objects of the script's classes, and the closures and defaults of its functions.
Nothing is kept alive.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from inspect import CO_OPTIMIZED
from threading import get_ident
from time import perf_counter_ns
from types import CellType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, NamedTuple

from gradscope.record.acts.source.source_lines import (
    Stored,
    lines_that_call,
    lines_that_fill,
    lines_that_store,
)
from gradscope.record.notes.local_names import node_of, variables_of
from gradscope.record.notes.sites import caller_of, is_installed
from gradscope.record.script.tracebacks import described
from gradscope.trace.schema import NONE, KeptAct
from gradscope.watch.in_place.by_identity import attributes, held_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import CodeType, FrameType

    from gradscope.record.acts.notes import ActNotes

FIRST = 6
"""Number of searches that are made in any case."""

SHARE = 100
"""Share of the elapsed time that searches may take: one part in this many."""

MOST, WIDEST, DEEPEST = 20_000, 500, 6
"""Limits of a search: number of objects, items of a list, and depth."""

NODES, AT_END = 2_000, 100_000
"""Number of nodes of a graph whose time of creation is read, at a step and at the end."""

FREED = "backward through the graph a second time"
"""Part of the error message that a graph of an earlier step may cause."""

OFTEN = 20
"""Number of times one holder is recorded."""

OF_MODULES = frozenset(("_parameters", "training"))
LISTS = (list, tuple, deque, set, frozenset)


class HoldingName(NamedTuple):
    """The last name in the program on the path to an object."""

    text: str
    file: str
    within: CodeType | None  # the function whose variable it is
    attribute: bool = False
    container: str = ""  # type of the object with that name, if it is a container


@dataclass
class HeldGraph:
    """The graphs that one name keeps alive."""

    tensors: int = 0
    steps: set[int] = field(default_factory=set)
    longest: int = 0  # largest number of steps in the graph of one tensor


class KeptGraphs:
    """Searches for graphs of earlier steps."""

    def __init__(self, torch: Any, acts: ActNotes) -> None:
        self._tensor, self._module = torch.Tensor, torch.nn.Module
        self._acts = acts
        self._ends = array("q")  # of steps: the engine's mark then
        self._threads: set[int] = set()  # that ended them; of several, steps overlap
        self._looks = 0
        self._next = 2
        self._spent = 0
        self._began = perf_counter_ns()
        self._told: dict[HoldingName, int] = {}
        self._evaluates: int | None = None  # since this mark
        self._lines: set[int] = set()  # that have called backward since the last step

    def step_ended(self, frame: FrameType) -> None:
        """Called when a step ends: an optimizer stepped, or there is none."""
        self._ends.append(self._acts.look.mark())
        self._threads.add(get_ident())
        steps = len(self._ends)
        if steps >= self._next:
            self._next = steps + 1 if steps < 4 else steps * 3 // 2
            passed = perf_counter_ns() - self._began
            if self._looks < FIRST or self._spent * SHARE < passed:
                self._look(frame, "step")

    def backward_ended(self, frame: FrameType) -> None:
        """Without an optimizer, a line that calls backward again has begun another step."""
        line = self._acts.session.sites.of(frame)
        if line in self._lines:
            self._lines.clear()
            self.step_ended(frame)
        self._lines.add(line)

    def mode_set(self, frame: FrameType, *, training: bool) -> None:
        """Called when a module was set to training or evaluation mode."""
        if not training:
            if self._evaluates is None:
                self._evaluates = self._acts.look.mark()
        elif self._evaluates is not None:
            if self._looks < FIRST:
                self._look(frame, "evaluation")
            self._evaluates = None

    def ended(self, error: BaseException | None = None) -> None:
        """Called at the end of the program."""
        if len(self._ends) > 1:
            self._look(sys._getframe(1), "end")
        if error is not None and FREED in described(error):
            self._look(_innermost(error), "error")

    def _look(self, frame: FrameType | None, when: str) -> None:
        if len(self._threads) > 1:
            return
        began = perf_counter_ns()
        found: dict[HoldingName, HeldGraph] = {}
        for name, tensor in GraphWalk(self._tensor, self._module, self._acts).of(frame):
            since = self._evaluates if when == "evaluation" else None
            steps = self._steps_of(tensor, since, AT_END if when == "end" else NODES)
            if steps:
                held = found.setdefault(name, HeldGraph())
                if when == "end":  # what followed the last step belongs to it
                    steps = {min(step, len(self._ends) - 1) for step in steps}
                held.tensors += 1
                held.steps |= steps
                held.longest = max(held.longest, len(steps))
        for name, held in found.items():
            old = when == "error" and min(held.steps) < len(self._ends)
            if len(held.steps) > 1 or old or when == "evaluation":
                self._tell(name, held, when)
        self._looks += 1
        self._spent += perf_counter_ns() - began

    def _steps_of(self, tensor: Any, since: int | None, most: int) -> set[int]:
        """The steps in which the nodes of a tensor's graph, `most` of them, were created."""
        made, found = self._acts.look.made, set()
        node = node_of(tensor)
        if since is not None:
            at = made(node)
            if at is None or at < since:
                return set()
        waiting, seen = deque([node]), {node}
        while waiting:
            node = waiting.popleft()
            at = None if hasattr(node, "variable") else made(node)  # a leaf's stays as long as it
            if at is not None:
                found.add(bisect_right(self._ends, at))
            if len(seen) < most:
                for following, _ in node.next_functions:
                    if following is not None and following not in seen:
                        seen.add(following)
                        waiting.append(following)
        return found

    def _tell(self, name: HoldingName, held: HeldGraph, when: str) -> None:
        times = self._told[name] = self._told.get(name, 0) + 1
        if times > OFTEN:
            return
        stack = NONE
        sites = self._acts.session.sites
        lines = lines_that_store(
            Stored(name.text, name.attribute, bool(name.container)), name.file, name.within
        )
        lines += [each for line in [*lines] for each in lines_that_fill(line, name.file)]
        for line in reversed(lines):
            function = "<module>" if name.within is None else name.within.co_qualname
            stack = sites.of_line(name.file, line, function, stack)
        callers = lines_that_call(lines[0], name.file) if lines else []
        act = KeptAct(
            name=name.text, container=name.container, attribute=name.attribute, when=when,
            many=held.tensors, steps=len(held.steps), longest=held.longest, callers=tuple(callers),
        )  # fmt: skip
        self._acts.note(act, None, stack=stack)


def _innermost(error: BaseException | None) -> FrameType | None:
    """The frame in which it was raised."""
    trace = None if error is None else error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return None if trace is None else trace.tb_frame


class GraphWalk:
    """One search through the names of the program."""

    def __init__(self, tensor: Any, module: type, acts: ActNotes) -> None:
        self._tensor, self._module = tensor, module
        self._is_machinery = acts.session.sites.is_machinery
        self._seen: dict[int, int] = {}  # by id(), the depth: another path may be shorter
        self._told: set[tuple[HoldingName, int]] = set()
        self._own: dict[type, str] = {}  # the files of the program's classes; "" for others

    def of(self, frame: FrameType | None) -> Iterator[tuple[HoldingName, Any]]:
        """Tensors with a graph, and the names that lead to them."""
        main = getattr(sys.modules.get("__main__"), "__dict__", {})
        spaces = {id(main): (main, main.get("__file__"))}
        while frame is not None:
            code = frame.f_code
            if not self._is_machinery(code) and not is_installed(code.co_filename):
                space = frame.f_globals
                if code.co_flags & CO_OPTIMIZED:
                    spaces.setdefault(id(space), (space, space.get("__file__")))
                    yield from self._named(variables_of(frame).items(), code.co_filename, code)
                else:
                    spaces[id(space)] = space, code.co_filename
            frame = caller_of(frame)
        for space, file in spaces.values():
            if isinstance(file, str):
                yield from self._named(space.items(), file, None)

    def _named(
        self, pairs: Iterable[tuple[str, Any]], file: str, within: CodeType | None
    ) -> Iterator[tuple[HoldingName, Any]]:
        for text, value in list(pairs):
            if not text.startswith("__"):
                yield from self._inside(HoldingName(text, file, within), value, 0)

    def _inside(
        self, name: HoldingName, value: Any, depth: int
    ) -> Iterator[tuple[HoldingName, Any]]:
        kind = type(value)
        if issubclass(kind, self._tensor):
            if (name, id(value)) not in self._told and node_of(value) is not None:
                self._told.add((name, id(value)))
                yield name, value
            return
        if kind in _PLAIN or depth > min(DEEPEST, self._seen.get(id(value), DEEPEST + 1) - 1):
            return
        if len(self._seen) > MOST:
            return
        if issubclass(kind, (*LISTS, dict)):
            self._seen[id(value)] = depth
            held = held_in(value)
            if len(held) > WIDEST:
                held = held[: WIDEST // 2] + held[-WIDEST // 2 :]
            inner = name if name.container else name._replace(container=kind.__name__)
            for each in held:
                yield from self._inside(inner, each, depth + 1)
        elif kind in _CALLABLES:
            self._seen[id(value)] = depth
            yield from self._behind(name, value, depth)
        elif file := self._file_of(kind):
            self._seen[id(value)] = depth
            for text, each in list(attributes(value).items()):
                if text not in OF_MODULES:
                    yield from self._inside(_of_object(name, text, file), each, depth + 1)

    def _behind(
        self, name: HoldingName, value: Any, depth: int
    ) -> Iterator[tuple[HoldingName, Any]]:
        """The closure and defaults of a function of the program."""
        if isinstance(value, partial):
            yield from self._inside(name, [value.func, value.args, value.keywords], depth)
        elif isinstance(value, MethodType):
            yield from self._inside(name, value.__self__, depth + 1)
        elif not is_installed(value.__code__.co_filename):
            file, code = value.__code__.co_filename, value.__code__
            for text, cell in zip(code.co_freevars, value.__closure__ or (), strict=False):
                if cell != _EMPTY:
                    yield from self._inside(
                        HoldingName(text, file, None), cell.cell_contents, depth + 1
                    )
            for each in value.__defaults__ or ():
                yield from self._inside(name, each, depth + 1)

    def _file_of(self, kind: type) -> str:
        """The file of a class, if its objects are searched."""
        found = self._own.get(kind)
        if found is None:
            module = sys.modules.get(getattr(kind, "__module__", ""), None)
            file = getattr(module, "__file__", None) or ""
            own = isinstance(file, str) and not is_installed(file)
            if not own and issubclass(kind, self._module):
                file, own = "nobody", True
            self._own[kind] = found = file if own else ""
        return found


def _of_object(name: HoldingName, text: str, file: str) -> HoldingName:
    if text in {"_modules", "_buffers"}:  # of a module: they stand for attributes
        return name
    return HoldingName(text, file, None, attribute=True)


_CALLABLES = frozenset((FunctionType, MethodType, partial))
_EMPTY = CellType()
_PLAIN = frozenset((int, float, str, bytes, bool, type(None), complex, type(sys), type(len), type))
