"""Collects acts and writes them as rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import count
from pathlib import Path
from threading import Lock
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from weakref import finalize, ref
from zlib import crc32

import numpy as np

from gradscope.record.notes.local_names import node_of
from gradscope.record.notes.log import Log
from gradscope.record.notes.sites import Sites, is_ours
from gradscope.trace import schema
from gradscope.trace.ragged import Ragged
from gradscope.trace.schema import NONE, Act, ActFacts, Column, columns
from gradscope.watch.in_place.by_identity import ByIdentity
from gradscope.watch.in_place.compilers import uncompiled

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import FrameType

    from gradscope.record.acts.kept.kept_graphs import KeptGraphs
    from gradscope.record.notes.own_time import OwnTimeClock
    from gradscope.record.notes.positions.contexts import Contexts
    from gradscope.trace.writer import Writer
    from gradscope.watch.called.made_calls import MadeCalls
    from gradscope.watch.in_place.faults import Faults

WATCHERS = str(Path(__file__).parents[2] / "watch")
"""Files of our functions that call the originals they replace."""

FRAMES = 3
"""Number of lines of the program that are stored per act."""

MOST_ALIKE = 1000
"""Largest number of acts per kind and line, for kinds that a program may do for each value."""

COUNTED = frozenset(
    (
        schema.CutAct,
        schema.WarningAct,
        schema.GradOffAct,
        schema.DataWrittenAct,
        schema.AddedToItselfAct,
        schema.CameInAct,
        schema.BatchAct,
        schema.DrewAct,
    )
)
"""Kinds to which that limit applies."""

UNKNOWN = NONE - 1


class ObservedCalls(Protocol):
    """The calls of an engine, as they are observed."""

    def count(self) -> int:
        """The number of calls so far."""
        ...

    def made_since(self, count: int) -> MadeCalls | None:
        """The calls of this thread since then that created nodes; None: some are lost."""
        ...


class EngineLook(NamedTuple):
    """Access to the tensors and modules of an engine."""

    tensor: Callable[[Any], int]
    """The number of a leaf."""
    module: Callable[[Any], int | None]
    """The id of a module, if it has one."""
    ids: Callable[[Any], Any]
    """The ids of tensors with these numbers."""
    unseen: Callable[[], AbstractContextManager[object]]
    """A context in which reads of tensors are invisible to modes of the program."""
    stands_for: Callable[[Any, Any], object]
    """Called when a function replaces one of the engine; None: it no longer does."""
    made: Callable[[Any], int | None]
    """When a node was created, as counted by `mark`; None: not known."""
    mark: Callable[[], int]
    """A lower bound for nodes created from now on."""
    memory: Callable[[Any], memoryview | None]
    """The bytes from the first element of a tensor to its last; None: not readable."""
    address: Callable[[Any], int]
    """The address of a tensor's first element; 0: it has no memory of its own."""
    leaves: Callable[[], Iterable[Any]] = tuple
    """The known leaves that are alive."""
    hooks_nodes: tuple[tuple[Any, str], ...] = ()
    """The functions that register hooks of nodes, and where they are."""
    calls: ObservedCalls | None = None
    """The observed calls; None: not observed, or in the trace anyway."""


def made_at(made_of: Callable[[Any], Any]) -> Callable[[Any], int | None]:
    """The creation time of a node, from its record."""
    return lambda node: getattr(made_of(node), "t", None)


def _none(_: Any) -> int:
    return NONE


NOBODY = EngineLook(
    _none, _none, list, nullcontext, lambda *_: None, lambda _: None, int, lambda _: None,
    lambda _: 0,
)  # fmt: skip

NOTED = "an act was noted"
"""The description of this activity in faults."""

NAMES = (
    "id", "kind", "of", "tensors", "module", "inside", "stack", "thread", "task", "step", "t",
)  # fmt: skip


def leaves_of(optimizer: Any) -> list[Any]:
    """The parameters of an optimizer."""
    return [leaf for group in optimizer.param_groups for leaf in group.get("params", ())]


class StopsNews(Protocol):
    """Listener for acts of a program that can be stopped."""

    news: set[str]


class ActsSession(Protocol):
    """The part of a recording's session that acts use."""

    start: int
    level: str
    sites: Sites
    contexts: Contexts
    faults: Faults
    own_time: OwnTimeClock

    @property
    def writer(self) -> Writer: ...

    @property
    def places(self) -> StopsNews | None: ...

    def put(self, row: Any, columns: dict[str, Any]) -> None: ...


class ActNotes:
    """Records acts."""

    def __init__(self, session: ActsSession) -> None:
        self.session = session
        self.on = False
        self.look = NOBODY
        self.faults = session.faults
        self.next_id = count().__next__
        self._lock = Lock()
        self._log = Log(len(NAMES))
        self._places: dict[tuple[int, ...], int] = {(): 0}
        self._lists: list[tuple[int, ...]] = [()]
        self._facts: dict[int, ActFacts] = {}  # of acts not written yet
        self._kinds = {kind: session.writer.intern(kind.KIND) for kind in schema.ACTS.values()}
        self._optimizers: dict[int, tuple[ref[Any], int]] = {}
        self._unmet: dict[int, int] = {}  # indices of modules without an id, by id()
        self._ids_of_met: list[int] = []
        self._waiting = np.zeros((len(NAMES), 0), np.int64)
        self._alike: dict[tuple[type[ActFacts], int], int] = {}
        self.kept: KeptGraphs | None = None
        self.generator: Any = None  # of the engine, if its state is read

    def caller(self, frame: FrameType) -> FrameType | None:
        """The calling frame of the program, seen from this one; None: the engine called."""
        sites = self.session.sites
        code = frame.f_code
        known = sites.known_machinery.get(id(code))
        if known is False:  # the usual case
            return frame
        if known is None and not sites.is_machinery(code):
            return frame
        above = frame.f_back
        if not code.co_filename.startswith(WATCHERS) or above is None:
            return None
        return None if sites.is_machinery(above.f_code) else above

    def is_inside(self) -> bool:
        """Whether the forward of a module is running."""
        return bool(self.session.contexts.threads.here().modules)

    def note(
        self,
        act: ActFacts,
        frame: FrameType | None,
        tensors: Sequence[Any] | int = (),
        module: Any = None,
        of: int = NONE,
        stack: int = NONE,
        at: tuple[int, int] | None = None,
    ) -> int:
        """Record an act on this frame or stack. Returns its id.

        `tensors`: the tensors, or the index of a list of them, from `listed`. `at`: time and step,
        if not now.
        """
        if frame is not None:
            stack = self.session.sites.of_several(frame, FRAMES)
        kind = type(act)
        if kind in COUNTED and self.is_too_many(kind, stack):
            return NONE
        return self.put(
            act, stack, of, tensors if isinstance(tensors, int) else self.listed(tensors),
            NONE if module is None else self._id_of(module), at,
        )  # fmt: skip

    def put(
        self,
        act: ActFacts,
        stack: int,
        of: int,
        tensors: int = 0,
        module: int = NONE,
        at: tuple[int, int] | None = None,
    ) -> int:
        """Like `note`, with numbers instead of objects: `tensors` from `listed`."""
        session = self.session
        contexts = session.contexts
        state = contexts.threads.local.state
        place = contexts.threads.of(state)
        if session.places is not None:
            session.places.news.add(act.KIND)
        number = self.next_id()
        t, step = at or (perf_counter_ns() - session.start, contexts.steps.id)
        if act.TABLE:
            self._facts[number] = act
        self._log.note(
            number, self._kinds[type(act)], of, tensors, module,
            place.module, stack, place.id, contexts.task_of(state), step, t,
        )  # fmt: skip
        return number

    def is_too_many(self, kind: type[ActFacts], stack: int) -> bool:
        """Whether the limit for acts of this kind and line is reached."""
        many = self._alike[kind, stack] = self._alike.get((kind, stack), 0) + 1
        return many > MOST_ALIKE

    def listed(self, tensors: Sequence[Any]) -> int:
        """The index of a list of tensors, which many acts share."""
        if not tensors:
            return 0
        number = self.look.tensor
        numbers = tuple([found for each in tensors if (found := number(each)) != NONE])
        place = self._places.get(numbers)
        if place is None:
            with self._lock:
                place = self._places.setdefault(numbers, len(self._lists))
                if place == len(self._lists):
                    self._lists.append(numbers)
        return place

    def _id_of(self, module: Any) -> int:
        """The id of a module; below NONE: a module without an id yet, see `flush`."""
        number = self.look.module(module)
        if number is not None:
            return number
        place = self._unmet.get(id(module))
        if place is None:
            self._ids_of_met.append(UNKNOWN)
            place = self._unmet[id(module)] = len(self._ids_of_met) - 1
            finalize(module, self._unmet.pop, id(module), None).atexit = False
        return UNKNOWN - place

    def met(self, module: Any) -> None:
        """Called when a module gets its id."""
        place = self._unmet.get(id(module))
        number = self.look.module(module)
        if place is not None and number is not None:
            self._ids_of_met[place] = number

    def built(self, optimizer: Any, frame: FrameType | None, act: schema.OptimizerAct) -> int:
        """Record that an optimizer was created or first seen. Returns the id of the act."""
        number = self.note(act, frame, leaves_of(optimizer))
        self.session.contexts.steps.is_told = True
        optimizers, key = self._optimizers, id(optimizer)
        optimizers[key] = ref(optimizer, lambda _: optimizers.pop(key, None)), number
        return number

    def has_optimizers(self) -> bool:
        """Whether any optimizer of the program is alive."""
        return bool(self._optimizers)

    def optimizers(self) -> list[Any]:
        """The optimizers that are alive."""
        held = [weak() for weak, _ in list(self._optimizers.values())]
        return [each for each in held if each is not None]

    def of(self, optimizer: Any) -> int:
        """The act that created this optimizer; NONE: not recorded."""
        found = self._optimizers.get(id(optimizer))
        return NONE if found is None else found[1]

    def made(self, tensor: Any) -> int | None:
        """When the node of a tensor was created, as in the trace: its `t`, or its number."""
        node = node_of(tensor)
        made = None if node is None else self.look.made(node)  # PyTorch may refuse to return it
        after = made is not None and made > self.session.start
        return made - self.session.start if after else made  # type: ignore[operator]

    def random_state(self) -> int:
        """A digest of the state of the random generator; NONE: not read.

        Both engines have the same bytes for it. Generators of other devices are not read.
        """
        if self.generator is None:
            return NONE
        state = self.generator.get_state()  # its memory lives as long as it does
        there = self.look.memory(state)
        return NONE if there is None else crc32(there)

    def meet_compilers(self) -> None:
        """Called when PyTorch is imported: its compiler must not compile our frames."""
        self.faults.meet_compilers()
        for each in (
            ActNotes.guarded, ActNotes.looked, ActNotes.caller, Sites.is_machinery, is_ours,
            ByIdentity.get,
        ):  # fmt: skip
            uncompiled(each)

    def guarded(self, what: Callable[..., object], *given: Any) -> None:
        """Call a function that reads tensors; faults are counted: Note [A fault of ours]."""
        self.faults.guarded(NOTED, self._unseen, what, *given)

    def _unseen(self, what: Callable[..., object], *given: Any) -> None:
        with self.look.unseen():
            what(*given)

    def looked(self, what: Callable[..., Any], *given: Any) -> Any:
        """The result of a function that reads no tensors; if it raises, None and a fault."""
        return self.faults.guarded(NOTED, what, *given)

    def flush(self, *, last: bool = False) -> None:
        """Pass new acts to the writer.

        A module gets its id and its path when the outermost module is first called. Its acts wait
        until then, or until the `last` flush.
        """
        table = np.concatenate([self._waiting, self._log.take()], axis=1)
        modules = table[NAMES.index("module")]
        for place in np.flatnonzero(modules < NONE).tolist():
            number = self._ids_of_met[UNKNOWN - modules[place]]
            if number != UNKNOWN or last:
                modules[place] = max(number, NONE)
        waits = modules < NONE
        self._waiting, table = table[:, waits], table[:, ~waits]
        if not table.shape[1]:
            return
        data: dict[str, Any] = dict(zip(NAMES, table, strict=True))
        ragged = Ragged.of([self._lists[place] for place in data["tensors"].tolist()])
        numbers = np.asarray(self.look.ids(ragged.values), np.int64)
        data["tensors"] = Ragged(ragged.offsets, numbers)
        self.session.put(Act, data)
        self._put_facts(data["id"].tolist())

    def _put_facts(self, numbers: list[int]) -> None:
        """Pass the kind-specific columns of these acts to the writer."""
        found: defaultdict[type[ActFacts], dict[int, ActFacts]] = defaultdict(dict)
        for number in numbers:
            act = self._facts.pop(number, None)
            if act is not None:
                found[type(act)][number] = act
        for kind, acts in found.items():
            data = {each.name: self._cells(each, acts.values()) for each in columns(kind)}
            self.session.writer.block(kind, {**data, "id": list(acts)})

    def _cells(self, column: Column, acts: Iterable[ActFacts]) -> list[Any]:
        cells = [getattr(act, column.name) for act in acts]
        intern = self.session.writer.intern
        if not column.interned:
            return cells
        return [[*map(intern, each)] for each in cells] if column.many else [*map(intern, cells)]
