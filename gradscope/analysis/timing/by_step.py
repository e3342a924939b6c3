"""The contents of each training step, and the times of its parts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from gradscope.analysis.identity.steps import steps
from gradscope.analysis.ranks.whose import RankOf
from gradscope.analysis.timing.durations import durations, ns_of_ops
from gradscope.analysis.timing.on_devices import device_ns_by_step
from gradscope.analysis.timing.own_work import OwnWorkTimes
from gradscope.analysis.timing.phases import ProgramPart
from gradscope.trace.schema import NONE, GraphTask, Node, Phase, Span, Step
from gradscope.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class StepFacts:
    """One step. Times are without gradscope's own work."""

    number: int
    backwards: int
    nodes: int  # created in it
    forward_ns: int  # in operations
    backward_ns: int
    optimizer_ns: int  # in optimizer steps, from their spans or else from operations
    ns: int  # NONE when it did not end
    rank: int = NONE  # of the process, in a merged trace
    device_ns: int = 0  # of its backwards on their devices, where that was measured

    @property
    def other_ns(self) -> int:
        """The time of a step that ended outside of these parts: Python, data loading, recording."""
        return max(self.ns - self.forward_ns - self.backward_ns - self.optimizer_ns, 0)


def step_facts(trace: Trace) -> tuple[StepFacts, ...]:
    """All steps with recorded contents, in the order in which they started.

    In a merged trace the ranks of a step follow each other.
    """
    ranks = trace.once(RankOf)
    own = trace.once(OwnWorkTimes)
    tasks = trace.table(GraphTask)
    outer = tasks["parent"] == NONE
    thread, begin, end = (tasks[name][outer] for name in ("thread", "begin", "end"))
    of_step = tasks["step"][outer].tolist()
    took = durations(begin, end) - own.within(thread, begin, end)
    backward: Counter[int] = Counter()
    for step, ns, until in zip(of_step, took.tolist(), end.tolist(), strict=True):
        backward[step] += max(ns, 0) if until != NONE else 0
    counted, made = Counter(of_step), Counter(trace.table(Node)["step"].tolist())
    forward = ns_of_ops(trace, ProgramPart.FORWARD, "step")
    optimizer = ns_of_ops(trace, ProgramPart.OPTIMIZER, "step") | _optimizers(trace, own)
    on_device = device_ns_by_step(trace)
    threads = {each.thread for each in own.stretches}
    rows = steps(trace)
    of_rank = ranks.of(Step.TABLE, np.array([row.id for row in rows], np.int64))
    known = [*zip(rows, of_rank.tolist(), strict=True)]
    if ranks.numbers:
        known.sort(key=lambda each: (each[0].number, each[1]))
    return tuple(
        StepFacts(
            step.number,
            counted[step.id],
            made[step.id],
            forward.get(step.id, 0),
            backward[step.id],
            optimizer.get(step.id, 0),
            NONE
            if step.end == NONE
            else max(step.end - step.begin - own.on(threads, step.begin, step.end), 0),
            rank,
            on_device[step.id],
        )
        for step, rank in known
    )


def _optimizers(trace: Trace, own: OwnWorkTimes) -> Counter[int]:
    """The total time of the optimizer spans of each step."""
    table = trace.table(Span)
    ended = (table["phase"] == Phase.OPTIMIZER) & (table["end"] != NONE)
    thread, begin, end = (table[name][ended] for name in ("thread", "begin", "end"))
    took = durations(begin, end) - own.within(thread, begin, end)
    found: Counter[int] = Counter()
    for step, ns in zip(table["step"][ended].tolist(), took.tolist(), strict=True):
        found[step] += max(ns, 0)
    return found
