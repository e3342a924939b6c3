"""Rules about vectors that are normalized to length 1 and then compared."""

from __future__ import annotations

from collections.abc import Iterator

from gradscope.analysis.findings import Certainty, Evidence
from gradscope.analysis.program.calls import SAME_NUMBERS, Calls
from gradscope.analysis.program.dims import PRODUCTS, Fate, went
from gradscope.analysis.rules.own_line import OTHER_DIM, instead, rewritten, with_dim
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.rules.structure.losses import READS
from gradscope.trace.schema import NONE
from gradscope.trace.trace import Trace

NORMS = frozenset(("linalg_vector_norm", "norm"))
BETWEEN = SAME_NUMBERS | {"clamp_min", "clamp", "add"}
"""Calls between a norm and the division by it."""

FAR = 16


@rule("GS714", "normalized-over-another-dim", reads=(*READS, "node.arguments"))
def normalised_over_another_dim(trace: Trace) -> Iterator[Found]:
    """Two normalized matrices are multiplied over another dim than the normalized one.

    Their product should contain cosine similarities. After division by norms over dim 0, each
    column of the batch has length 1, but `z @ z.t()` sums over dim 1.

    Bad:
        z = torch.nn.Linear(3, 2)(torch.arange(12.0).reshape(4, 3))
        z = torch.nn.functional.normalize(z, dim=0)
        (z @ z.t()).exp().sum().backward()

    Good:
        z = torch.nn.Linear(3, 2)(torch.arange(12.0).reshape(4, 3))
        z = torch.nn.functional.normalize(z, dim=1)
        (z @ z.t()).exp().sum().backward()
    """
    calls = trace.once(Calls)
    unit: dict[int, tuple[int, int]] = {}  # by result of a division: the division and its dim
    for at in calls.with_tensors("div").tolist():
        over = _over(calls, at)
        if over != NONE:
            unit[calls.outputs(at)[0]] = at, over
    told: set[int] = set()
    for division, over in unit.values():
        if calls.stack(division) in told:
            continue
        compared = _compared_over_another if over == 0 or _is_matrix(calls, division) else _summed
        product = compared(calls, division, over, unit)
        if product != NONE:
            told.add(calls.stack(division))
            yield _found(calls, division, over, product)


def _over(calls: Calls, at: int) -> int:
    """The dim over which a matrix (of each sample) was divided by its own norms, or NONE."""
    inputs = calls.inputs(at)
    shape = calls.shape(calls.outputs(at)[0])
    if len(inputs) != 2 or len(shape) not in (2, 3) or 1 in shape:
        return NONE
    if calls.shape(inputs[0]) != shape:
        return NONE
    norm = calls.origin(inputs[1], BETWEEN)
    if norm == NONE or calls.name(norm) not in NORMS or calls.inputs(norm)[:1] != inputs[:1]:
        return NONE
    dims = calls.dims(norm)
    if not dims or len(dims) != 1 or (len(shape) == 3 and dims != (1,)):
        return NONE
    return dims[0]


def _is_matrix(calls: Calls, division: int) -> bool:
    return len(calls.shape(calls.outputs(division)[0])) == 2


def _summed(calls: Calls, division: int, _: int, unit: dict[int, tuple[int, int]]) -> int:
    """A product of this (N, L, D) and another normalized one that sums over D; or NONE."""
    pending, seen = [(calls.outputs(division)[0], 2)], set[int]()
    while pending and len(seen) < FAR:
        tensor, features = pending.pop()
        for user in [each for each in calls.trained_users(tensor) if each not in seen]:
            seen.add(user)
            went_to = went(calls, user, tensor, features)
            if calls.name(user) in PRODUCTS:
                alike = all(calls.origin_leaf(each) in unit for each in calls.inputs(user))
                if alike and went_to.fate is Fate.CONTRACTED:
                    return user
            elif went_to.fate is Fate.STAYS and calls.name(user) in SAME_NUMBERS:
                pending.append((calls.outputs(user)[0], went_to.dim))
    return NONE


def _compared_over_another(
    calls: Calls, division: int, over: int, unit: dict[int, tuple[int, int]]
) -> int:
    """A product of this and another normalized matrix that sums over the other dim; or NONE."""
    pending, seen = [(calls.outputs(division)[0], over, 1 - over)], set[int]()
    while pending and len(seen) < FAR:
        tensor, own, other = pending.pop()
        for user in calls.trained_users(tensor):
            if user in seen:
                continue
            seen.add(user)
            first, second = went(calls, user, tensor, own), went(calls, user, tensor, other)
            if calls.name(user) in PRODUCTS:
                others = [each for each in calls.inputs(user) if each != tensor]
                alike = all(calls.origin_leaf(each) in unit for each in others)
                if alike and first.fate is Fate.STAYS and second.fate is Fate.CONTRACTED:
                    return user
            elif first.fate is second.fate is Fate.STAYS and calls.name(user) in SAME_NUMBERS:
                pending.append((calls.outputs(user)[0], first.dim, second.dim))
    return NONE


def _found(calls: Calls, division: int, over: int, product: int) -> Found:
    site, shape = calls.site(division), calls.shape(calls.outputs(division)[0])
    meant = 1 - over if len(shape) == 2 else 2
    line = with_dim(site.text, meant)
    each, sums = ("column", "row") if over == 0 or len(shape) == 3 else ("row", "column")
    return Found(
        message=f"Wrong dim: normalized over dim {over} at {site}, but compared over dim "
        f"{meant} at {calls.site(product)}: the product does not contain cosine similarities",
        site=site,
        evidence=(Evidence("op", calls.id(division)), Evidence("op", calls.id(product))),
        why=f"in {shape}, each {each} has length 1, but the product sums over the {shape[meant]} "
        f"values of a {sums}" + ("; normalize() uses dim 1 by default" * (len(shape) == 3)),
        fix=instead(line, site.text) if line else f"normalize over dim={meant}",
        rewrite=rewritten(site, line, OTHER_DIM),
        certainty=Certainty.INFERRED,
    )
