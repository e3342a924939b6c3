"""Parameters that a program makes equal on some ranks at the start, and does not keep equal.

An embedding that the first and the last stage of a pipeline share, for example: it is broadcast
once, and then its gradient must be summed over these ranks before each step. If all parameters of a
rank are sent, ranks may train their own copies on purpose, so that is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gradscope.analysis.identity.sites import Site, own_site
from gradscope.analysis.program.acts import Acts, Done
from gradscope.analysis.ranks.collectives import RankCall, grouped_calls, last_reduction
from gradscope.analysis.ranks.merging.one_rank import parts
from gradscope.analysis.ranks.replicas import replicated
from gradscope.trace.schema import Collective, StepAct, Tensor
from gradscope.trace.trace import Trace

SENDS = "broadcast"


@dataclass(frozen=True, slots=True)
class SentOnce:
    """One parameter, on the ranks that got it by one call."""

    name: str
    sent: RankCall  # on the first of these ranks
    tensors: Mapping[int, int]  # by rank
    grads: Mapping[int, float]  # the norms of its gradient at the first step
    site: Site  # the last reduction before that step, or the step


def sent_once(trace: Trace) -> tuple[SentOnce, ...]:
    """One for each parameter and group of ranks."""
    if "ranks" not in trace.meta:
        return ()
    passed = {row.span: row for row in trace.rows(Collective) if _is_parameter(row)}
    sent: dict[tuple[tuple[int, int], ...], list[tuple[RankCall, ...]]] = {}
    for group in trace.once(grouped_calls):
        for calls in group.together if len(group.calls) == len(group.members) else ():
            if calls[0].name == SENDS and all(call.span in passed for call in calls):
                key = tuple((call.rank, passed[call.span].parameters[0]) for call in calls)
                sent.setdefault(key, []).append(calls)
    every = {tensor for key in sent for _, tensor in key}
    found = (_judged(trace, dict(key), calls[0], every) for key, calls in sent.items())
    return tuple(each for each in found if each is not None)


def _is_parameter(row: Collective) -> bool:
    return row.holds == "parameters" and not row.caller and len(row.parameters) == 1


def _judged(
    trace: Trace, tensors: dict[int, int], calls: tuple[RankCall, ...], sent: set[int]
) -> SentOnce | None:
    bits: list[list[int]] = []
    steps: dict[int, Done[StepAct]] = {}
    grads: dict[int, float] = {}
    for part in trace.once(parts):
        tensor = tensors.get(part.rank)
        if tensor is None:
            continue
        optimizer = next(
            (each for each in part.trace.once(Acts).optimizers if tensor in each.tensors), None
        )
        held = {each for _, of_model in part.trace.once(replicated) for each in of_model}
        if optimizer is None or tensor in held or {*optimizer.tensors} <= sent:
            return None
        at = optimizer.tensors.index(tensor)
        measured = [each for each in optimizer.steps if at < len(each.facts.hashes)]
        if len(measured) < len(optimizer.steps) or len(measured) < 2:
            return None
        steps[part.rank] = measured[0]
        bits.append([each.facts.hashes[at] for each in measured])
        grads[part.rank] = measured[0].facts.grad[at] if at < len(measured[0].facts.grad) else 0.0
    if len(steps) < len(tensors) or len(steps) < 2 or len({*map(len, bits)}) > 1:
        return None
    equal = [len({*values}) == 1 for values in zip(*bits, strict=True)]
    if not equal[0] or any(equal[1:]) or len({*grads.values()}) == 1:
        return None
    first = calls[0]
    name = trace.table(Tensor).row(tensors[first.rank]).name
    step = steps[first.rank]
    site = last_reduction(trace, first.rank, step.t) or own_site(trace, step.stack)
    return SentOnce(name, first, tensors, grads, site)
