"""Captured steps: what their plans do, how long they take, and what was not captured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

import orjson

from gradscope.analysis.identity.sites import Site, site_of
from gradscope.trace.schema import (
    NONE,
    Buffer,
    CapturedStep,
    Lack,
    Missed,
    Phase,
    Plan,
    PlanCall,
    Replay,
    Tensor,
)
from gradscope.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class Array:
    """One array of a plan."""

    number: int
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    role: str
    name: str


@dataclass(frozen=True, slots=True)
class PlanPiece:
    """Calls of a plan that run together: one call, or a fused kernel."""

    first: int  # the place of its first call
    labels: tuple[str, ...]
    formulas: tuple[str, ...]  # of a fused kernel
    phase: Phase
    site: Site  # of its first call
    sites: tuple[Site, ...]  # of all
    reads: tuple[int, ...]  # numbers of arrays that it did not make itself
    makes: tuple[int, ...]  # that are read later, or returned
    ns: int  # median of the replays; NONE: none was recorded

    @property
    def fused(self) -> bool:
        """Whether it is a compiled loop."""
        return bool(self.formulas)


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """One plan."""

    id: int
    pieces: tuple[PlanPiece, ...]
    arrays: Mapping[int, Array]
    guards: tuple[str, ...]
    replays: int
    replay_ns: int  # median; NONE: none recorded
    calls_ns: int  # of which in calls on arrays
    eager_ns: int
    watched: bool  # whether the recording was on during it
    before: int  # the same plan before its calls were fused; NONE: there is none
    saved_ns: tuple[tuple[int, int], ...]  # of each fused kernel: times before and after fusion


@dataclass(frozen=True, slots=True)
class Lacking:
    """Something a captured step could not capture, fuse or replay."""

    kind: Lack
    reason: str
    site: Site
    times: int


@dataclass(frozen=True, slots=True)
class CaptureInfo:
    """One function that is captured."""

    id: int
    name: str
    site: Site
    whole: int  # the step it is a piece of
    lines: tuple[int, int]
    as_ever: int
    plans: tuple[PlanFacts, ...]  # the newest of each, first
    lacks: tuple[Lacking, ...]


def whole_of(step: CaptureInfo, steps: Sequence[CaptureInfo]) -> CaptureInfo:
    """The step that a piece belongs to, if it is among these steps."""
    by_id, seen = {each.id: each for each in steps}, {step.id}
    while step.whole in by_id and step.whole not in seen:
        step = by_id[step.whole]
        seen.add(step.id)
    return step


def captured(trace: Trace) -> tuple[CaptureInfo, ...]:
    """All captured steps and pieces, in the order in which they were first seen."""
    plans = _plans(trace)
    lacks = list(trace.rows(Missed))
    return tuple(
        CaptureInfo(
            row.id, row.name, site_of(trace, row.stack), row.whole, (row.first, row.last),
            row.as_ever, tuple(plan for owner, plan in plans if owner == row.id),
            tuple(_lacking(trace, [each for each in lacks if each.captured == row.id])),
        )
        for row in trace.rows(CapturedStep)
    )  # fmt: skip


def _lacking(trace: Trace, rows: Sequence[Missed]) -> Iterator[Lacking]:
    alike: dict[tuple[str, str, int], int] = {}
    for row in rows:
        key = (row.kind, row.reason, row.stack)
        alike[key] = alike.get(key, 0) + 1
    for (kind, reason, stack), times in alike.items():
        yield Lacking(Lack(kind), reason, site_of(trace, stack), times)


def _plans(trace: Trace) -> list[tuple[int, PlanFacts]]:
    """Each plan with its step; a plan that was fused later only in its fused form."""
    calls: dict[int, list[PlanCall]] = {}
    for call in trace.rows(PlanCall):
        calls.setdefault(call.plan, []).append(call)
    arrays: dict[int, dict[int, Array]] = {}
    names = {tensor.id: tensor.name for tensor in trace.rows(Tensor) if tensor.name}
    for each in trace.rows(Buffer):
        arrays.setdefault(each.plan, {})[each.number] = Array(
            each.number, each.shape, each.dtype, each.bytes, each.role,
            _name(each, names.get(each.tensor, "")),
        )  # fmt: skip
    replays: dict[int, list[Replay]] = {}
    for replay in trace.rows(Replay):
        replays.setdefault(replay.plan, []).append(replay)
    rows = {row.id: row for row in trace.rows(Plan)}
    older = {row.before for row in rows.values()}
    found = []
    for row in reversed(rows.values()):
        if row.id in older:
            continue
        seen, before = replays.get(row.id, []), replays.get(row.before, [])
        pieces = tuple(_pieces(trace, calls.get(row.id, []), seen))
        found.append((row.captured, PlanFacts(
            row.id, pieces, arrays.get(row.id, {}),
            tuple(map(str, orjson.loads(row.guards or "[]"))),
            len(seen) + len(before), _median(r.end - r.begin for r in seen),
            _median(r.ends[-1] - r.started for r in seen if r.ends), row.eager, row.watched,
            row.before, tuple(_saved(calls.get(row.id, []), pieces, before)),
        )))  # fmt: skip
    return found


def _name(buffer: Buffer, known: str) -> str:
    """The name of a buffer in the step, or the path of its parameter."""
    if known and ("." in known or buffer.name.startswith("a key of ")):
        return known + ".grad" * (buffer.role == "gradient")
    return buffer.name


def _pieces(
    trace: Trace, calls: Sequence[PlanCall], replays: Sequence[Replay]
) -> Iterator[PlanPiece]:
    firsts = replays[0].pieces if replays else tuple(range(len(calls)))
    took = _times(replays)
    read_later: set[int] = set()
    bounds = [*firsts, len(calls)]
    wanted = []
    for place in range(len(firsts) - 1, -1, -1):
        own = calls[bounds[place] : bounds[place + 1]]
        made = {nr for call in own for nr in call.makes}
        inner = {nr for call in own for nr in call.reads}
        wanted.append((made - inner) | (made & read_later))
        read_later |= inner
    for nr, (first, last) in enumerate(pairwise(bounds)):
        own = calls[first:last]
        made = {number for call in own for number in call.makes}
        reads = dict.fromkeys(n for call in own for n in call.reads if n not in made)
        sites = tuple(dict.fromkeys(site_of(trace, call.stack) for call in own))
        fused = own[0].kernel != NONE
        yield PlanPiece(
            first, tuple(call.label for call in own),
            tuple(call.formula for call in own) if fused else (), Phase(own[0].phase),
            sites[0], sites, tuple(reads), tuple(sorted(wanted[-1 - nr])),
            took[nr] if took else NONE,
        )  # fmt: skip


def _times(replays: Sequence[Replay]) -> list[int]:
    """The median time of each piece."""
    if not replays or not replays[0].ends:
        return []
    rows = [
        [end - begin for begin, end in zip((r.started, *r.ends), r.ends, strict=False)]
        for r in replays
        if len(r.ends) == len(replays[0].ends)
    ]
    return [int(median(column)) for column in zip(*rows, strict=True)]


def _saved(
    calls: Sequence[PlanCall], pieces: Sequence[PlanPiece], before: Sequence[Replay]
) -> Iterator[tuple[int, int]]:
    """Times before and after fusion, where replays of both were recorded."""
    single = _times(before)
    if len(single) != len(calls):
        return
    for piece in pieces:
        if piece.fused and piece.ns != NONE:
            yield sum(single[piece.first : piece.first + len(piece.labels)]), piece.ns


def _median(values: Iterator[int]) -> int:
    found = list(values)
    return int(median(found)) if found else NONE
