"""Acts as rows on their way into the writer."""

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

    from gradscope.record.acts.kept_graphs import KeptGraphs
    from gradscope.record.notes.positions.contexts import Contexts
    from gradscope.trace.writer import Writer
    from gradscope.watch.in_place.faults import Faults

WATCHERS = str(Path(__file__).parents[2] / "watch")
"""Where functions of ours are that call what they stand for."""

FRAMES = 3
"""So many of the program's own lines are kept of each act."""

MOST_ALIKE = 1000
"""So many acts of a kind are kept of one line, where a program may do them for each number."""

COUNTED = frozenset(
    (
        schema.CutAct,
        schema.WarningAct,
        schema.GradOffAct,
        schema.DataWrittenAct,
        schema.AddedToItselfAct,
        schema.CameInAct,
    )
)
"""Kinds of which that is so."""

UNKNOWN = NONE - 1


class EngineLook(NamedTuple):
    """How an engine's tensors and modules are looked at."""

    tensor: Callable[[Any], int]
    """The number of a leaf."""
    module: Callable[[Any], int | None]
    """The id of a module, if it has one."""
    ids: Callable[[Any], Any]
    """Ids of tensors, of their numbers."""
    unseen: Callable[[], AbstractContextManager[object]]
    """Inside, looks at tensors are seen by no mode of the program's."""
    stands_for: Callable[[Any, Any], object]
    """Is told that a function stands in for one of the engine's; None: no longer does."""
    made: Callable[[Any], int | None]
    """When a node was made, as `mark` counts; None: not known."""
    mark: Callable[[], int]
    """What a node that is made from now on has at least."""
    memory: Callable[[Any], memoryview | None]
    """The bytes from a tensor's first element to its last; None: they cannot be looked at."""
    address: Callable[[Any], int]
    """Where a tensor's first element is; 0: it has no memory of its own."""
    leaves: Callable[[], Iterable[Any]] = tuple
    """Leaves that it has met, those that are alive."""
    hooks_nodes: tuple[tuple[Any, str], ...] = ()
    """Functions, and where they are, by which hooks of nodes are registered."""


def made_at(made_of: Callable[[Any], Any]) -> Callable[[Any], int | None]:
    """When a node was made, by what is kept of its making."""
    return lambda node: getattr(made_of(node), "t", None)


def _none(_: Any) -> int:
    return NONE


NOBODY = EngineLook(
    _none, _none, list, nullcontext, lambda *_: None, lambda _: None, int, lambda _: None,
    lambda _: 0,
)  # fmt: skip

NOTED = "an act was noted"
"""What fails, as a fault says it."""

NAMES = (
    "id", "kind", "of", "tensors", "module", "inside", "stack", "thread", "task", "step", "t",
)  # fmt: skip


def leaves_of(optimizer: Any) -> list[Any]:
    """What an optimizer steps."""
    return [leaf for group in optimizer.param_groups for leaf in group.get("params", ())]


class StopsNews(Protocol):
    """What waits for news of a program that can be stopped."""

    news: set[str]


class ActsSession(Protocol):
    """What acts ask of the session of their recording."""

    start: int
    level: str
    sites: Sites
    contexts: Contexts
    faults: Faults

    @property
    def writer(self) -> Writer: ...

    @property
    def places(self) -> StopsNews | None: ...

    def put(self, row: Any, columns: dict[str, Any]) -> None: ...


class ActNotes:
    """Takes notes of acts."""

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
        self._facts: dict[int, ActFacts] = {}  # of acts that are not written yet
        self._kinds = {kind: session.writer.intern(kind.KIND) for kind in schema.ACTS.values()}
        self._optimizers: dict[int, tuple[ref[Any], int]] = {}
        self._unmet: dict[int, int] = {}  # places of modules without an id, by id()
        self._ids_of_met: list[int] = []
        self._waiting = np.zeros((len(NAMES), 0), np.int64)
        self._alike: dict[tuple[type[ActFacts], int], int] = {}
        self.kept: KeptGraphs | None = None
        self.generator: Any = None  # the engine's, where it is looked at

    def caller(self, frame: FrameType) -> FrameType | None:
        """The frame of the program that called, as this one shows it; None: the engine did."""
        sites = self.session.sites
        code = frame.f_code
        known = sites.known_machinery.get(id(code))
        if known is False:  # as nearly always
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
        """An act that is done on this frame, or was on this stack; its id.

        `tensors`: or the place of a list of them, from `listed`. `at`: its time and step, if not
        now.
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
        """The same in numbers: `tensors` from `listed`."""
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
        """Whether no more acts of this kind and line are wanted."""
        many = self._alike[kind, stack] = self._alike.get((kind, stack), 0) + 1
        return many > MOST_ALIKE

    def listed(self, tensors: Sequence[Any]) -> int:
        """The place of a list of tensors; of a thousand parameters there is one for many acts."""
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
        """Its id; below NONE: that of one which has none yet, see `flush`."""
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
        """A module has its id now."""
        place = self._unmet.get(id(module))
        number = self.look.module(module)
        if place is not None and number is not None:
            self._ids_of_met[place] = number

    def built(self, optimizer: Any, frame: FrameType | None, act: schema.OptimizerAct) -> int:
        """An optimizer was built, or is met for the first time; the id of that act."""
        number = self.note(act, frame, leaves_of(optimizer))
        self.session.contexts.steps.is_told = True
        optimizers, key = self._optimizers, id(optimizer)
        optimizers[key] = ref(optimizer, lambda _: optimizers.pop(key, None)), number
        return number

    def has_optimizers(self) -> bool:
        """Whether the program has built any that is alive."""
        return bool(self._optimizers)

    def optimizers(self) -> list[Any]:
        """Those that are alive."""
        held = [weak() for weak, _ in list(self._optimizers.values())]
        return [each for each in held if each is not None]

    def of(self, optimizer: Any) -> int:
        """The act that made this optimizer; NONE: nobody saw that."""
        found = self._optimizers.get(id(optimizer))
        return NONE if found is None else found[1]

    def made(self, tensor: Any) -> int | None:
        """When the node of a tensor was made, as the trace counts: its `t`, or its number."""
        made = self.look.made(node_of(tensor))
        after = made is not None and made > self.session.start
        return made - self.session.start if after else made  # type: ignore[operator]

    def random_state(self) -> int:
        """A digest of what the next random numbers follow from; NONE: it is not looked at.

        Both engines have the same bytes for it; those of other devices are not looked at.
        """
        if self.generator is None:
            return NONE
        state = self.generator.get_state()  # its memory is there as long as it is
        there = self.look.memory(state)
        return NONE if there is None else crc32(there)

    def meet_compilers(self) -> None:
        """PyTorch is imported: its compiler of frames is to leave ours alone."""
        self.faults.meet_compilers()
        for each in (
            ActNotes.guarded, ActNotes.looked, ActNotes.caller, Sites.is_machinery, is_ours,
            ByIdentity.get,
        ):  # fmt: skip
            uncompiled(each)

    def guarded(self, what: Callable[..., object], *given: Any) -> None:
        """Do what looks at tensors; a fault is noted: Note [A fault of ours]."""
        self.faults.guarded(NOTED, self._unseen, what, *given)

    def _unseen(self, what: Callable[..., object], *given: Any) -> None:
        with self.look.unseen():
            what(*given)

    def looked(self, what: Callable[..., Any], *given: Any) -> Any:
        """What this finds, which looks at no tensor; None, and a fault noted, if it cannot."""
        return self.faults.guarded(NOTED, what, *given)

    def flush(self, *, last: bool = False) -> None:
        """Hand new acts to the writer.

        A module has its id, and its path, when the outermost one is first called. Till then, or to
        the `last` time, what was done to it waits.
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
        """Hand what these acts say besides to the writer."""
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
