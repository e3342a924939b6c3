"""The steps of a trace, a line each."""

from __future__ import annotations

from gradscope.analysis.ranks.whose import RankOf, on_ranks, ranked
from gradscope.analysis.timing.by_step import StepFacts, step_facts
from gradscope.analysis.timing.long_run import LongRun
from gradscope.scene.readable import count, duration
from gradscope.scene.table_scenes import TableColumn, TableScene
from gradscope.scene.timeline.run_words import steps_words
from gradscope.trace.schema import NONE
from gradscope.trace.trace import Trace

MOST = 8
"""Number of steps listed, besides the slowest one."""


def step_table(trace: Trace, number: int | None, rows: int) -> TableScene | None:
    """The time of each step, or of one step; None if the trace has only one."""
    facts = step_facts(trace)
    if len(facts) < 2:
        return None
    ranks = trace.once(RankOf).numbers
    every = facts
    if number is not None:
        every = tuple(step for step in facts if step.number == number)
        shown = sorted(every, key=lambda step: -step.ns)[: MOST if rows else None]
        shown.sort(key=lambda step: step.rank)
    else:
        shown = [*facts[: MOST if rows else None]]
    ended = [step for step in facts if step.ns != NONE and step.number > 0]
    slowest = max(ended, key=lambda step: step.ns, default=None)
    if number is None and slowest is not None and slowest not in shown:
        shown.append(slowest)
    left = len(every) - len(shown)
    notes = [f"and {count(left)} more; --all for all"] if left else []
    if number is None and slowest is not None:
        first = " (step 0 includes the start)" if facts[0].number == 0 else ""
        which = f"{ranked(slowest.rank)}step {slowest.number}"
        notes.append(f"slowest: {which}, {duration(slowest.ns)}{first}")
    run = trace.once(LongRun)
    if number is None and run.has_left_out:
        notes.insert(0, steps_words(run))
    if number is not None and ranks:
        notes.append(f"step {number}{on_ranks(trace)}; --rank N for one of them")
    optimizers = any(step.optimizer_ns for step in facts)
    named = [TableColumn(name) for name in ("step", *["rank"] * bool(ranks))]
    devices = any(step.device_ns for step in facts)
    heads = ["took", "forward", "backward", *["on device"] * devices]
    heads += [*["optimizer"] * optimizers, "other", "nodes"]
    return TableScene(
        "steps",
        (*named, *(TableColumn(name, is_number=True) for name in heads)),
        tuple(_cells(step, devices=devices, optimizers=optimizers) for step in shown),
        "; ".join(notes),
    )


def _cells(step: StepFacts, *, devices: bool, optimizers: bool) -> tuple[str, ...]:
    several = f" in {count(step.backwards)}" if step.backwards > 1 else ""
    return (
        str(step.number),
        *([str(step.rank)] if step.rank != NONE else []),
        duration(step.ns),
        duration(step.forward_ns) if step.forward_ns else "",
        f"{duration(step.backward_ns)}{several}" if step.backwards else "",
        *([duration(step.device_ns) if step.device_ns else ""] if devices else []),
        *([duration(step.optimizer_ns) if step.optimizer_ns else ""] if optimizers else []),
        duration(step.other_ns) if step.ns != NONE else "",
        count(step.nodes),
    )
