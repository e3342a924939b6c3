"""Rows of captured steps, their plans, their replays, and why steps were not replayed."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import orjson

from gradscope.record.notes.log import take_all
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.fast.capture.plan.sight import sight_of
from gradscope.trace import schema
from gradscope.trace.schema import NONE, Lack, Phase
from gradscope.trace.shorthand import tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gradscope.record.from_runtime.replays.template import Template, TemplateReplay
    from gradscope.record.session import Session
    from gradscope.runtime.fast.capture.captured import Captured
    from gradscope.runtime.fast.capture.plan.plan import ReplayPlan
    from gradscope.runtime.fast.capture.told import ReplayRun

PHASES = {"forward": Phase.FORWARD, "backward": Phase.BACKWARD, "optimizer": Phase.OPTIMIZER}
REPLAY = (
    "id", "plan", "step", "thread", "template", "many", "shift", "begin", "end", "pieces", "ends",
    "started",
)  # fmt: skip
MOST_GUARDS = 2000
"""Largest number of names checked by guards that is written."""


class KnownPlan(NamedTuple):
    """A plan that has a row: its id, and its text at that time."""

    id: int
    text: str


class Plans:
    """Writes captured steps of one recording."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._captured: WeakKeyDictionary[Captured, int] = WeakKeyDictionary()
        self._told: WeakKeyDictionary[Captured, dict[str, int]] = WeakKeyDictionary()
        self._plans: WeakKeyDictionary[ReplayPlan, KnownPlan] = WeakKeyDictionary()
        self._ids, self._plan_ids, self._replay_ids = count(), count(), count()
        self._call_ids, self._buffer_ids, self._missed_ids = count(), count(), count()
        self._new: list[tuple[Any, dict[str, Any]]] = []
        self._replays: list[tuple[Any, ...]] = []
        self._as_ever: dict[int, int] = {}  # by step: number of calls that were not replays

    # -- steps ----------------------------------------------------------------------------------

    def met(self, captured: Captured) -> int:
        """The id of a captured step, which is described at first use."""
        found = self._captured.get(captured)
        if found is not None:
            return found
        number = self._captured[captured] = next(self._ids)
        whole = NONE if captured.whole is None else self.met(captured.whole)
        first, last = captured.lines
        self._add(
            schema.CapturedStep, id=number, name=self._text(captured.name), whole=whole,
            stack=self._written(captured.function), first=first, last=last,
        )  # fmt: skip
        return number

    def _written(self, function: Any) -> int:
        return self._session.sites.of_function(function)

    def _lacks(self, captured: Captured) -> Iterator[tuple[Lack, str, str]]:
        """What a step did not do, the reason, and the line."""
        for stop in captured.stops[:1]:
            kind = Lack.PIECE if captured.pieces else Lack.REPLAYED
            yield kind, stop.reason, stop.line
        yield from ((Lack.FITTED, reason, "") for reason in captured.recaptured)
        yield from ((Lack.FUSED, reason, "") for reason in captured.not_fused)
        yield from ((Lack.TOLD, reason, "") for reason in captured.untold)

    def _look(self) -> None:
        """Record what steps have not done since the last time."""
        for captured, number in list(self._captured.items()):
            told = self._told.setdefault(captured, {"lacks": 0, "as_ever": 0})
            lacks = list(self._lacks(captured))
            now = self._session.contexts.now()
            for kind, reason, line in lacks[told["lacks"] :]:
                self._add(
                    schema.Missed, id=next(self._missed_ids), captured=number, t=now,
                    kind=self._text(kind.value), reason=self._text(reason), stack=self._line(line),
                )  # fmt: skip
            told["lacks"] = len(lacks)
            if captured.eager != told["as_ever"]:
                told["as_ever"] = self._as_ever[number] = captured.eager

    def _line(self, line: str) -> int:
        file, _, number = line.rpartition(":")
        if not number.isdigit():
            return NONE
        return self._session.sites.of_line(file, int(number), "")

    # -- plans ----------------------------------------------------------------------------------

    def replayed(self, replay: TemplateReplay, run: ReplayRun, ended: int) -> None:
        """Record a replay of a plan."""
        known = self._plans.get(run.plan)
        if known is None or known.text != run.plan.text:
            number = self._plan(run, replay, NONE if known is None else known.id)
            known = self._plans[run.plan] = KnownPlan(number, run.plan.text)
        session, times = self._session, run.timed.times
        self._replays.append((
            next(self._replay_ids), known.id, replay.template.begun.step + replay.step,
            session.contexts.threads.here().id, replay.template.basis.number, replay.template.many,
            replay.delta, replay.begun, ended, [piece.first for piece in run.timed.pieces],
            [t - session.start - replay.begun for t in times[1:]],
            times[0] - session.start - replay.begun,
        ))  # fmt: skip

    def _plan(self, run: ReplayRun, replay: TemplateReplay, before: int) -> int:
        template, found = replay.template, [*replay.found.tolist(), NONE]
        plan, number, session = run.plan, next(self._plan_ids), self._session
        sight = sight_of(plan)
        guards = orjson.dumps(list(sight.guards[:MOST_GUARDS])).decode()
        self._add(
            schema.Plan, id=number, captured=self.met(run.captured), before=before,
            guards=self._text(guards), eager=plan.eager, watched=plan.eager_watched,
            t=session.contexts.now(),
        )  # fmt: skip
        where = Where(template)
        for call, (begin, end) in zip(sight.calls, template.calls, strict=True):
            self._add(
                schema.PlanCall, id=next(self._call_ids), plan=number,
                label=self._text(call.label), phase=int(PHASES[call.part]),
                stack=self._line(call.line), reads=call.reads, makes=call.makes,
                kernel=call.kernel, formula=self._text(call.formula), op=where.op(begin, end),
                node=where.node(begin, end),
            )  # fmt: skip
        for each in sight.buffers:
            self._add(
                schema.Buffer, id=next(self._buffer_ids), plan=number, number=each.number,
                shape=each.shape, dtype=self._text(dtypes.from_numpy(each.dtype).name),
                bytes=each.bytes, role=self._text(each.role), name=self._text(each.name),
                tensor=max(found[each.tensor], NONE),
            )  # fmt: skip
        return number

    # -- rows -----------------------------------------------------------------------------------

    def _text(self, text: str) -> int:
        return self._session.writer.intern(text)

    def _add(self, row: Any, **cells: Any) -> None:
        self._new.append((row, cells))

    def flush(self) -> None:
        """Pass new rows to the writer."""
        self._look()
        block = self._session.writer.block
        new: dict[tuple[Any, tuple[str, ...]], list[dict[str, Any]]] = {}
        for row, cells in take_all(self._new):
            new.setdefault((row, tuple(cells)), []).append(cells)
        for (row, names), rows in new.items():
            block(row, {name: [cells[name] for cells in rows] for name in names})
        if self._as_ever:
            ids, counts = list(self._as_ever), list(self._as_ever.values())
            self._as_ever.clear()
            block(schema.CapturedStep, {"id": ids, "as_ever": counts}, amend=True)
        replays = take_all(self._replays)
        if replays:
            columns = zip(REPLAY, map(list, zip(*replays, strict=True)), strict=True)
            block(schema.Replay, dict(columns))


class Where:
    """Finds the call or node of a template in which something ran."""

    def __init__(self, template: Template) -> None:
        self._ops = _runs(
            template,
            {schema.Op: ("id", "begin", "end"), tables.ShortCall: ("number", "begin", "end")},
        )
        self._nodes = _runs(template, {tables.ShortRun: ("node", "begin", "ended")})

    def op(self, begin: int, end: int) -> int:
        return _around(self._ops, begin, end)

    def node(self, begin: int, end: int) -> int:
        return _around(self._nodes, begin, end)


def _runs(template: Template, times: dict[Any, tuple[str, str, str]]) -> list[tuple[int, int, int]]:
    """Start, end and id of each call or node, sorted."""
    found: list[tuple[int, int, int]] = []
    for part in template.parts:
        names = times.get(part.row)
        if names is not None and not part.amend:
            by = {column.name: column.values for column in part.columns}
            ids, begins, ends = (np.asarray(by[name]).tolist() for name in names)
            found += zip(begins, ends, ids, strict=True)
    return sorted(found)


def _around(runs: Sequence[tuple[int, int, int]], begin: int, end: int) -> int:
    """The id of the innermost one that was running."""
    inside = [run for run in runs if run[0] <= begin and end <= run[1]]
    return max(inside)[2] if inside else NONE
