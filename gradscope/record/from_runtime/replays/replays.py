"""Records replays of captured steps. See Note [A replay is reported like the step].

Incorrect rows are avoided: if something was used for the first time, if another thread ran, or if
something was used that cannot be found again, there is no template, and the step runs uncaptured
until there is one.
"""

from __future__ import annotations

from itertools import count, pairwise
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from gradscope.record.from_runtime.paused import others
from gradscope.record.from_runtime.replays.plans import Plans
from gradscope.record.from_runtime.replays.replay_columns import (
    WRITTEN_ONCE,
    Basis,
    Filled,
    moments_in,
    part_of,
    places,
)
from gradscope.record.from_runtime.replays.replay_looks import (
    NOBODYS,
    UNKNOWN,
    KnownLook,
    accumulator_of,
    contexts_in,
    events_in,
    gathers_in,
    grad_of,
    id_of,
    known_of,
    memory_of,
    number_in,
    rates_of,
    version_of,
    without_older,
)
from gradscope.record.from_runtime.replays.template import (
    OptimizerRates,
    Template,
    TemplateReplay,
    TemplateRows,
    moments,
)
from gradscope.record.from_runtime.replays.window import ReplayWindow, WindowMarks
from gradscope.record.notes.log import take_all
from gradscope.runtime.core.state.thread import local
from gradscope.runtime.core.tensors.memory.storage import Storage
from gradscope.trace import schema
from gradscope.trace.ragged import Ragged
from gradscope.trace.schema import NONE, events
from gradscope.trace.shorthand import tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gradscope.record.from_runtime.cold.catalog import Catalog
    from gradscope.record.from_runtime.hot.frees import Frees
    from gradscope.record.from_runtime.replays.replay_columns import ColumnPart
    from gradscope.record.session import Session
    from gradscope.runtime.fast.capture.told import ReplayRun

ONCE = (
    schema.RanAct, schema.MadeAct, schema.BuiltAct, schema.SharedAct, schema.OptimizerAct,
    schema.ParamGroupAct, schema.StatementAct, schema.FunctionAct, schema.WarningAct,
    schema.KeptAct, schema.HookAct, schema.ScheduleAct,
)  # fmt: skip
"""Acts that are recorded once per line or object."""

TOLD = (
    schema.Op, schema.Node, schema.Edge, schema.Tensor, schema.Storage, schema.Version,
    schema.GraphTask, schema.Span, schema.Act, *schema.ACTS.values(), tables.ShortCall,
    tables.ShortOrigin, tables.ShortExplicit, tables.ShortView, tables.ShortSaved, tables.ShortRun,
    tables.ShortMove, tables.ShortSingle, tables.ShortCounted,
)  # fmt: skip
"""The tables in which replays have rows."""

HOOKS = frozenset((events.HookBegin.CODE, events.HookEnd.CODE, events.Error.CODE))


class Replays:
    """Creates the rows of replays in one recording."""

    over = False

    def __init__(self, session: Session, catalog: Catalog, frees: Frees) -> None:
        self.reason = ""  # why steps run uncaptured in this recording; "": they do not
        self._session, self._catalog, self._frees = session, catalog, frees
        self._overheard = session.writer
        self.events = 0  # number of recorded events, counted like in the source
        self._waiting: list[TemplateReplay] = []
        self._plans = Plans(session)
        self._gathers: dict[int, int] = {}  # ids of accumulation nodes, by leaf

    # -- the template ---------------------------------------------------------------------------

    def open(self, tensors: Sequence[Any]) -> ReplayWindow | None:
        """Start capturing the rows of a step."""
        session, base = self._session, self._session.base
        if self._overheard.heard is not None or not session.flush():
            return None
        grads = [grad_of(tensor) for tensor in tensors]
        known = [0 if each is None else each.record_nr for each in (*tensors, *grads)]
        versions = [version_of(each) for each in (*tensors, *grads)]
        session.numbers.renew()
        self._overheard.heard = []
        return ReplayWindow(
            tensors, [None if each is None else ref(each) for each in grads],
            [number if number > base else 0 for number in known],
            [number_in(node, base) for node in map(accumulator_of, tensors)],
            [number_in(each._storage, base) for each in tensors], versions, self._marks(),
            session.contexts.threads.here().id,
        )  # fmt: skip

    def close(self, window: ReplayWindow | None) -> None:
        """Stop capturing rows."""
        if window is None:
            return
        window.ended = self._marks()
        self._session.flush()
        window.blocks, self._overheard.heard = self._overheard.heard or [], None

    def template(
        self, window: ReplayWindow | None, results: Sequence[Any], calls: Sequence[Any]
    ) -> Template | None:
        """The captured rows of a window, if they can be used for replays."""
        if window is None or window.ended is None:
            return None
        session, base, begun = self._session, self._session.base, window.begun
        looked = self._looked_up(window)
        gathering = [id_of(number, base) for number in window.gathering]
        first = int(session.ids(begun.number))
        storages = [id_of(number, base) for number in window.storages]
        known = np.array([*looked, *gathering, *storages], np.int64)
        basis = Basis(first, begun.sequence, begun.span, begun.act, begun.step, known, known)
        told = [(row, own) for row, block in window.blocks if row not in WRITTEN_ONCE
                and (own := without_older(row, block, basis)) is not None]  # fmt: skip
        steps = [t for row, block in window.blocks if row is schema.Step and not block.amend
                 for t in np.asarray(block.data["begin"]).tolist()]  # fmt: skip
        found = np.union1d(moments_in(told), np.array(steps, np.int64))
        basis = Basis(first, begun.sequence, begun.span, begun.act, begun.step, known, found)
        memory = memory_of(told)
        parts = tuple([part_of(row, block, basis, memory) for row, block in told])
        contexts, used = session.contexts.rows, contexts_in(parts)
        of = {number: contexts[number] for number in used}
        if self._refused(window, told, parts, of, basis):
            return None
        grads = [grad_of(tensor) for tensor in window.tensors]
        same = [w is not None and w() is g for w, g in zip(window.grads, grads, strict=True)]
        ends = [
            UNKNOWN if grad is None or kept else known_of(grad, base)
            for grad, kept in zip(grads, same, strict=True)
        ]
        start = session.start
        return Template(
            begun, window.ended, basis, parts, of, tuple(looked), tuple(gathering), tuple(storages),
            gathers_in(told, looked[: len(window.tensors)]), np.array(window.versions),
            tuple(ends), tuple([known_of(each, base) for each in results]),
            [(call.begin - start, call.end - start) for call in calls], self._stepped(parts),
            [], (window.ended.number - begun.number) // 2,
            tuple(places(found, steps).tolist()), events_in(told),
        )  # fmt: skip

    def _stepped(self, parts: Sequence[ColumnPart]) -> tuple[OptimizerRates, ...]:
        """The rows with the learning rates of optimizer steps."""
        acts = self._session.acts.acts
        optimizers = {acts.of(each): ref(each) for each in acts.optimizers()}
        by: dict[int, int] = {}  # the optimizers of acts
        found: list[OptimizerRates] = []
        for part in parts:
            if part.row is schema.Act:
                by.update(zip(*(part.column(name).values.tolist() for name in ("id", "of")),
                              strict=True))  # fmt: skip
        for nr, part in enumerate(parts):
            if part.row is schema.StepAct:
                ids, rates = part.column("id").values.tolist(), part.column("lr")
                assert rates.lengths is not None
                cells = Ragged.of_lengths(rates.lengths, rates.values)
                found += [
                    OptimizerRates(nr, first, optimizers[by[id]], rate)
                    for id, first, rate in zip(
                        ids, cells.offsets.tolist(), cells.tuples(), strict=False
                    )
                    if by.get(id) in optimizers
                ]
        return tuple(found)

    def _looked_up(self, window: ReplayWindow) -> list[int]:
        """The ids of tensors and gradients that existed before; else NOBODYS."""
        base, found = self._session.base, []
        grads = [None if weak is None else weak() for weak in window.grads]
        for each, before in zip((*window.tensors, *grads), window.numbers, strict=True):
            number = before or (0 if each is None else number_in(each, base))
            found.append(id_of(number, base))
        return found

    def _refused(self, window: ReplayWindow, told: Any, parts: Any, of: Any, basis: Basis) -> bool:
        """Whether the rows of replays might be incorrect."""
        if any(row not in TOLD for row, _ in told):
            return True
        if any(thread != window.thread for thread, *_ in of.values()):
            return True
        once = {self._session.writer.intern(kind.KIND) for kind in ONCE}
        for row, block in told:
            if row is schema.Act and not once.isdisjoint(np.asarray(block.data["kind"]).tolist()):
                return True
            if row is tables.ShortSingle:
                if not HOOKS.isdisjoint(np.asarray(block.data["code"]).tolist()):
                    return True
                if (np.asarray(block.data["thread"]) != window.thread).any():
                    return True
        return any(
            ((~column.inside) & (column.places < 0) & (column.values >= 0)).any()
            for part in parts
            for column in part.columns
            if column.kind in (Filled.NUMBER, Filled.SEEN)
            and not (part.row is tables.ShortSingle and column.name == "a")
        )

    # -- a replay -------------------------------------------------------------------------------

    def begin(self, template: Template, tensors: Sequence[Any]) -> TemplateReplay:
        """Called before a replay: assign its numbers."""
        session, begun = self._session, template.begun
        base, catalog = session.base, self._catalog
        every = [*tensors, *(grad_of(tensor) for tensor in tensors)]
        found, known, risen = [], [], []
        new = []
        first = template.basis.number
        for each, id, version in zip(
            every, template.tensors, template.versions.tolist(), strict=True
        ):
            told = each is None or number_in(each, base) > 0
            if id == NOBODYS or each is None:
                found.append(NONE)
            elif told or id < first:
                found.append((catalog.number_of(each) - base - 2) >> 1)
                told = True
            else:
                new.append((len(found), each, id))
                found.append(NONE)
            known.append(told)
            risen.append(0 if each is None else version_of(each) - version)
        reserved = session.numbers.reserve(template.many, alone=not others())
        delta = (reserved - begun.number) // 2
        for place, each, id in new:
            found[place] = id + delta
            each.record_nr = base + 2 + 2 * (id + delta)
        contexts = session.contexts
        if contexts.steps.is_over and not begun.is_over:
            contexts.steps.begin()
        marks = self._marks()
        skipped = int(begun.is_over and not marks.is_over)
        for tensor, id in zip(tensors, template.gathering, strict=True):
            node = accumulator_of(tensor)
            known.append(True)
            risen.append(0)
            last = self._gathers.get(tensor.record_nr & ~1, id)
            found.append(id_of(number_in(node, base), base) if number_in(node, base) else last)
        for tensor, id in zip(tensors, template.storages, strict=True):
            known.append(True)
            risen.append(risen[len(found) - 3 * len(tensors)])
            found.append(NONE if id == NOBODYS else id_of(self._storage(tensor), base))
        return TemplateReplay(
            template, delta, np.array(found, np.int64), np.array(known, bool),
            np.array(risen, np.int64), marks.sequence - begun.sequence, marks.span - begun.span,
            marks.act - begun.act, marks.step - begun.step - skipped, skipped,
            marks.t, tensors,
        )  # fmt: skip

    def end(self, replay: TemplateReplay, results: Sequence[Any], run: ReplayRun) -> None:
        """Called after a replay: complete its times and numbers."""
        session, template = self._session, replay.template
        begun, ended, start = template.begun, template.ended, session.start
        contexts = session.contexts
        local.state.sequence = count(replay.sequence + ended.sequence)
        for _ in range(ended.span - begun.span):
            next(contexts.spans.ids)
        for _ in range(ended.act - begun.act):
            session.acts.acts.next_id()
        now = perf_counter_ns() - start
        told = [t - start for t in run.timed.times]
        if len(run.timed.pieces) == len(template.calls):
            spent = [end - begin for begin, end in pairwise(told)]
            template.spent[:] = map(min, spent, template.spent or spent)
        replay.moments = moments(template, replay.begun, now, run.timed.pieces, told)
        shift = 2 * replay.delta
        made = [*map(grad_of, replay.tensors), *results]
        for each, number in zip(made, (*template.grads, *template.results), strict=True):
            if number.itself >= begun.number and each is not None:
                self._is(each, number, shift)
        for place, id in template.gathers.items():
            tensor = replay.tensors[place]
            self._gathers[tensor.record_nr & ~1] = id + replay.delta
            node = accumulator_of(tensor)
            if node is not None:
                node.record_nr = session.base + 2 + 2 * (id + replay.delta)
        replay.tensors = ()
        for each in template.stepped:
            optimizer = each.optimizer()
            lr = None if optimizer is None else rates_of(optimizer)
            if lr is not None and len(lr) == len(each.rates) and lr != each.rates:
                replay.rates.append((each, lr))
        self._waiting.append(replay)
        self._plans.replayed(replay, run, now)
        self.events += template.events
        for place in template.steps[replay.skipped :]:
            contexts.steps.begin(at=int(replay.moments[place]))
        if ended.is_over:
            contexts.backward_ended()

    def _storage(self, tensor: Any) -> int:
        catalog = self._catalog
        return int(catalog.storage_of(tensor, catalog.number_of(tensor)))

    def _is(self, tensor: Any, known: KnownLook, shift: int) -> None:
        """Assign these numbers to a tensor that a replay created."""
        tensor.record_nr = known.itself + shift
        memory = known.itself & ~1
        if known.storage > self._session.base and known.storage != memory:
            memory = known.storage
            tensor._storage = Storage(tensor._array)
            tensor._storage.record_nr = memory + shift
        edge = tensor._edge
        if edge is not None and known.node > self._session.base:
            edge[0].record_nr = known.node + shift
        frees = self._frees
        if tensor._array.nbytes >= frees.smallest:
            frees.follow(tensor._array, memory + shift)

    def met(self, captured: Any) -> None:
        """Called when a captured step is called."""
        self._plans.met(captured)

    def flush(self) -> None:
        """Pass the rows of all replays so far to the writer."""
        self._plans.flush()
        waiting = take_all(self._waiting)
        while waiting:
            template = waiting[0].template
            alike = [replay for replay in waiting if replay.template is template]
            waiting = [replay for replay in waiting if replay.template is not template]
            rows = TemplateRows(alike, self._session.contexts.number)
            for nr, part in enumerate(template.parts):
                columns = rows.of(nr, part)
                if len(next(iter(columns.values()))):
                    self._session.writer.block(part.row, columns, amend=part.amend)

    def _marks(self) -> WindowMarks:
        """The current value of every count; uses up one number of each."""
        session = self._session
        return WindowMarks(
            session.numbers.take(), next(local.state.sequence), next(session.contexts.spans.ids),
            session.acts.acts.next_id(), session.contexts.steps.id, session.contexts.steps.is_over,
            perf_counter_ns() - session.start,
        )  # fmt: skip
