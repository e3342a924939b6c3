"""Weights of positions that add up to 1 along another dim than the one they are summed over."""

from __future__ import annotations

from collections.abc import Iterator

from gradscope.analysis.findings import Certainty, Evidence
from gradscope.analysis.program.calls import Calls
from gradscope.analysis.program.dims import ELEMENTWISE, PRODUCTS, SUMS, VIEWS, Fate, went
from gradscope.analysis.rules.own_line import OTHER_DIM, instead, rewritten, with_dim
from gradscope.analysis.rules.registry import Found
from gradscope.analysis.rules.structure.losses import LINEAR
from gradscope.trace.schema import NONE

ON_THE_WAY = ELEMENTWISE | VIEWS | {"select", "add_", "div_", "mul_"}
FAR = 32


def pooled_over_another(calls: Calls, softmaxes: tuple[str, ...]) -> Iterator[Found]:
    """Softmaxes of one score for each position, over the samples, before a sum over positions."""
    for few, _ in calls.few_of_each_line(calls.with_tensors(*softmaxes)):
        for at in few:
            over, shape = calls.dims(at), calls.shape(calls.outputs(at)[0])
            scores = len(shape) == 2 or (len(shape) == 3 and shape[2] == 1)
            if over != (0,) or not scores or min(shape[:2]) < 2:
                continue
            summed = _summed(calls, at) if _is_a_score(calls, calls.inputs(at)[0]) else NONE
            if summed != NONE:
                yield _found(calls, at, summed)
                break


def _is_a_score(calls: Calls, tensor: int) -> bool:
    """Whether a layer with one output returned these values, one for each position."""
    one = False
    for _ in range(FAR):
        one |= calls.shape(tensor)[-1:] == (1,)
        at = calls.maker(tensor)
        inputs = [each for each in calls.inputs(at) if calls.needs_grad(each)] if at != NONE else []
        if not inputs:
            return False
        if calls.name(at) in LINEAR:
            return one
        if calls.name(at) not in ON_THE_WAY:
            return False
        tensor = inputs[0]
    return False


def _summed(calls: Calls, at: int) -> int:
    """The call that sums dim 1 of what the weights multiply; NONE if none does, or over dim 0."""
    pending, seen = [(calls.outputs(at)[0], 0, 1, False)], {at}
    while pending and len(seen) < FAR:
        tensor, samples, places, weighs = pending.pop()
        for user in calls.trained_users(tensor):
            if user in seen:
                continue
            seen.add(user)
            one, other = (went(calls, user, tensor, dim) for dim in (samples, places))
            name = calls.name(user)
            if one.fate in (Fate.REDUCED, Fate.CONTRACTED):
                return NONE
            if one.fate is Fate.STAYS and other.fate is Fate.CONTRACTED and name in PRODUCTS:
                return user
            if one.fate is Fate.STAYS and other.fate is Fate.REDUCED and name in SUMS and weighs:
                return user
            if one.fate is other.fate is Fate.STAYS:
                multiplied = weighs or (name == "mul" and len(calls.inputs(user)) == 2)
                pending.append((calls.outputs(user)[0], one.dim, other.dim, multiplied))
    return NONE


def _found(calls: Calls, at: int, summed: int) -> Found:
    site, shape = calls.site(at), calls.shape(calls.outputs(at)[0])
    line = with_dim(site.text, 1)
    return Found(
        message=f"softmax(dim=0){calls.where(at)} at {site} normalizes over the {shape[0]} samples "
        f"of the batch, but its weights are summed over {shape[1]} positions at "
        f"{calls.site(summed)}: wrong dim",
        site=site,
        evidence=(Evidence("op", calls.id(at)), Evidence("op", calls.id(summed))),
        why=f"in {shape}, the values add up to 1 along dim 0; the weights of a sample's "
        "positions, which are summed along dim 1, do not",
        fix=instead(line, site.text) if line else "set dim=1",
        certainty=Certainty.INFERRED,
        rewrite=rewritten(site, line, OTHER_DIM),
    )
