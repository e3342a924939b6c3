"""The samples with the largest parts of the gradient in one step, from `--check-nodes`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from gradscope.analysis.nonfinite.samples import BatchRows, batch_at
from gradscope.analysis.program.acts import Acts, Done
from gradscope.analysis.program.calls import Calls
from gradscope.trace.schema import NONE, RowSharesAct
from gradscope.trace.trace import Trace

OUTSIZE = 4
"""A row stands out if its part has this many times the share it would have among equal ones."""


class WeightRun(NamedTuple):
    """The only run of a node for a weight in one backward: its largest rows."""

    weight: str
    shares: RowSharesAct
    samples: tuple[int, ...]  # of the rows, as positions in the data set; empty: not known


def largest_rows(trace: Trace, step: int) -> str:
    """As in "93% of the gradient of fc.weight came from sample 77 of the data set"; "": not known.

    Of the first layer whose rows are known to be samples; if there is none, of the first layer.
    """
    runs = [*_runs(trace, step)]
    if not runs:
        return ""
    return _worded(next((run for run in runs if run.samples), runs[0]))


def _runs(trace: Trace, step: int) -> Iterator[WeightRun]:
    """Those of a step, of the first layer first: its node runs last."""
    calls, acts = trace.once(Calls), trace.once(Acts).of(RowSharesAct)
    found = [(act, *_call(calls, act)) for act in acts if act.step == step and _is_whole(act.facts)]
    times = Counter((act.task, weight) for act, _, weight in found)
    for act, at, weight in reversed(found):
        if weight != NONE and times[act.task, weight] == 1:
            name = calls.tensors.row(weight).name or f"tensor {weight}"
            yield WeightRun(name, act.facts, _samples(trace, calls, act, at))


def _is_whole(facts: RowSharesAct) -> bool:
    """Whether there is a row, and a share for each; a damaged file may hold anything."""
    rows, shares = facts.largest, facts.shares
    return len(rows) == len(shares) > 0 and all(0 <= row < facts.many for row in rows)


def _call(calls: Calls, act: Done[RowSharesAct]) -> tuple[int, int]:
    """The call that created the node, and its weight; NONE: not known."""
    places = np.flatnonzero((calls.ops["node"] == act.facts.node) & (act.facts.node != NONE))
    if not len(places):
        return NONE, NONE
    at = int(places[0])
    leaves = {calls.origin_leaf(each) for each in calls.inputs(at) if calls.needs_grad(each)}
    weights = [each for each in leaves if len(calls.shape(each)) == 2 and _is_leaf(calls, each)]
    return at, weights[0] if len(weights) == 1 else NONE


def _is_leaf(calls: Calls, tensor: int) -> bool:
    return calls.tensors.has(tensor) and calls.tensors.row(tensor).leaf


def _samples(trace: Trace, calls: Calls, act: Done[RowSharesAct], at: int) -> tuple[int, ...]:
    batch = batch_at(trace, act.t, act.step)
    if batch is None or len(batch.samples) != act.facts.many:
        return ()
    outputs = calls.outputs(at)
    known = outputs and BatchRows(calls, act.facts.many).dim(outputs[0]) == 0
    return tuple(batch.samples) if known else ()


def _worded(run: WeightRun) -> str:
    facts, samples = run.shares, run.samples
    thing, whole = ("sample", "data set") if samples else ("row", "input")
    compared = f"of the {whole} (by the squared norms of {facts.many} {thing}s)"
    of_weight = f"of the gradient of {run.weight} came"
    pairs = zip(facts.largest, facts.shares, strict=True)
    standing_out = [pair for pair in pairs if pair[1] * facts.many >= OUTSIZE]
    if not standing_out:
        return f"at most {facts.shares[0]:.0%} {of_weight} from one {thing} {compared}"
    numbers = [samples[row] if samples else row for row, _ in standing_out]
    first, *others = [f"from {thing} {number:,}" for number in numbers]
    shares = [f"{share:.0%}" for _, share in standing_out]
    more = "".join(f" and {share} {each}" for share, each in zip(shares[1:], others, strict=True))
    return f"{shares[0]} {of_weight} {first}{more} {compared}"
