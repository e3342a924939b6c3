"""Where a gradient that differs between ranks was averaged, or changed after that."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradscope.analysis.identity.sites import Site, own_site
from gradscope.analysis.lookups import Ids
from gradscope.analysis.program.acts import Acts, Done
from gradscope.analysis.ranks.collectives import REDUCES, grouped_calls, last_reduction
from gradscope.analysis.ranks.merging.one_rank import parts
from gradscope.analysis.ranks.replicas import Drift
from gradscope.analysis.ranks.training.parting import named_calls
from gradscope.analysis.ranks.whose import RankOf
from gradscope.analysis.source.files import SourceFiles
from gradscope.trace.schema import NONE, ClipAct, GraphTask, Replicated
from gradscope.trace.trace import Trace

LONGEST = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class AveragedTooEarly:
    """DistributedDataParallel averaged gradients before the last backward of a step."""

    last: int  # the last of the backwards that averaged, from 1
    many: int  # backwards of the step
    site: Site

    @property
    def why(self) -> str:
        after = self.many - self.last
        rest = "that of the backward" if after == 1 else f"those of {after} backwards"
        return (
            f"DistributedDataParallel averaged in backward {self.last} of the {self.many} before "
            f"the step, and {rest} after it, in no_sync(), stayed each rank's own"
        )


def averaged_too_early(trace: Trace, drift: Drift, rank: int) -> AveragedTooEarly | None:
    """Whether backwards in no_sync() came after the one that averaged the gradients of a step."""
    since = drift.last[rank].t if rank in drift.last else 0
    tasks = trace.table(GraphTask)
    rows = _backwards(trace, rank, since, drift.steps[rank].t)
    begins = tasks["begin"][rows]
    reduced = [
        call.begin
        for group in trace.once(grouped_calls)
        if group.kind == REDUCES
        for call in group.calls.get(rank, ())
        if since < call.begin < drift.steps[rank].t
    ]
    last = int(np.searchsorted(begins, max(reduced, default=0), side="right"))
    if not 0 < last < len(rows):
        return None
    calls = trace.once(SourceFiles).each(named_calls)
    lines = [*dict.fromkeys(each.site for each in calls if each.found.name == "no_sync")]
    site = lines[0] if len(lines) == 1 else own_site(trace, int(tasks["stack"][rows[last]]))
    return AveragedTooEarly(last, len(rows), site)


def changed_at(trace: Trace, drift: Drift, rank: int) -> Site | None:
    """The line that clipped or averaged a gradient; else that of its backward."""
    found = _clipped(trace, drift) or _reduced(trace, drift, rank)
    return found or _backward_before(trace, rank, drift.steps[rank].t)


def _clipped(trace: Trace, drift: Drift) -> Site | None:
    """The line that clipped gradients to another norm on each rank, just before the step."""
    clips: dict[int, Done[ClipAct]] = {}
    for part in trace.once(parts):
        before = drift.steps[part.rank].t if part.rank in drift.steps else NONE
        since = drift.last[part.rank].t if part.rank in drift.last else 0
        for act in part.trace.once(Acts).of(ClipAct):
            if since < act.t < before:
                clips[part.rank] = act
    if len({act.facts.max for act in clips.values()}) < 2:
        return None
    return own_site(trace, next(iter(clips.values())).stack)


def _reduced(trace: Trace, drift: Drift, rank: int) -> Site | None:
    """The line that averages gradients; of DistributedDataParallel in groups, that of the model."""
    if drift.by_hand:
        step = drift.steps[rank].t
        return last_reduction(trace, rank, step) or last_reduction(trace, rank, LONGEST)
    if drift.averaged is None:
        return None
    made = [row for row in trace.rows(Replicated) if drift.tensors[rank] in row.parameters]
    return own_site(trace, made[0].stack) if made else None


def _backward_before(trace: Trace, rank: int, t: int) -> Site | None:
    """The line of the last backward of a rank that began before a time."""
    rows = _backwards(trace, rank, 0, t)
    if not len(rows):
        return None
    site = own_site(trace, int(trace.table(GraphTask)["stack"][rows[-1]]))
    return site if site.place else None


def _backwards(trace: Trace, rank: int, since: int, until: int) -> Ids:
    """The outermost backwards of a rank that began between two times, in order."""
    tasks = trace.table(GraphTask)
    of = trace.once(RankOf).of(GraphTask.TABLE, tasks["id"]) == rank
    begin = tasks["begin"]
    rows = np.flatnonzero(of & (begin >= since) & (begin < until) & (tasks["parent"] == NONE))
    return rows[np.argsort(begin[rows], kind="stable")]
