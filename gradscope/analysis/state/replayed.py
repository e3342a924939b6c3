"""The piece of a plan that ran at a moment in a replay of a captured step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradscope.trace.schema import NONE, CapturedStep, Plan, PlanCall, Replay
from gradscope.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class ReplayedCalls:
    """One moment of a replay."""

    number: int  # of the replay, among all of its plan
    step: str  # the captured step's name
    piece: int  # its number, from 1; 0: before the first or after the last
    pieces: int
    labels: tuple[str, ...]  # of the calls of this piece
    fused: bool  # times inside it are shares


class _Replays:
    """All replays of a trace, by time."""

    def __init__(self, trace: Trace) -> None:
        table = trace.table(Replay)
        self.order = np.argsort(table["begin"], kind="stable")
        self.begins = table["begin"][self.order]
        self.ids = table["id"][self.order]
        self.plans = table["plan"][self.order]
        self.calls: dict[int, list[PlanCall]] = {}
        for call in trace.rows(PlanCall):
            self.calls.setdefault(call.plan, []).append(call)
        names = {row.id: row.name for row in trace.rows(CapturedStep)}
        self.names = {row.id: names.get(row.captured, "") for row in trace.rows(Plan)}


def replayed_at(trace: Trace, t: int, thread: int = NONE) -> ReplayedCalls | None:
    """The replay at this moment, or None."""
    known = trace.once(_Replays)
    place = int(np.searchsorted(known.begins, t, side="right")) - 1
    if place < 0:
        return None
    replay = trace.table(Replay).row(int(known.ids[place]))
    if t > replay.end or thread not in (NONE, replay.thread):
        return None
    calls = known.calls.get(replay.plan, [])
    number = int(np.count_nonzero(known.plans[: place + 1] == replay.plan))
    after = t - replay.begin
    nr = int(np.searchsorted(np.array(replay.ends), after, side="right"))
    if after < replay.started or nr >= len(replay.pieces):
        return ReplayedCalls(
            number, known.names[replay.plan], 0, len(replay.pieces), (), fused=False
        )
    bounds = [*replay.pieces, len(calls)]
    own = calls[bounds[nr] : bounds[nr + 1]]
    labels = tuple(call.label for call in own)
    fused = any(call.kernel != NONE for call in own)
    return ReplayedCalls(
        number, known.names[replay.plan], nr + 1, len(replay.pieces), labels, fused=fused
    )
