"""Rules about tensors that are saved for backward although they need not be."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from gradscope.analysis.findings import Certainty, Evidence
from gradscope.analysis.program.calls import Calls
from gradscope.analysis.rules.registry import Found, rule
from gradscope.trace.schema import NONE, Saved
from gradscope.trace.trace import Trace

LEAST_BYTES = 1 << 22
LEAST_SAVING = 16
"""How many times larger than its sum a saved tensor must be."""


@rule("GS611", "pairs-kept", reads=("op", "op.inputs", "tensor", "saved", "node.arguments"))
def pairs_kept(trace: Trace) -> Iterator[Found]:
    """The differences of all pairs of rows are saved for backward, but only their sums are used.

    For N and M rows of D values, a tensor of (N, M, D) is created and saved for backward, though
    the distances are (N, M). `torch.cdist`, or (a - b)² expanded to a² + b² - 2ab, saves D times
    less.

    Bad:
        a = torch.ones(260, 1, 16, requires_grad=True) * 1
        ((a - torch.zeros(1, 260, 16)) ** 2).sum(-1).mean().backward()

    Good:
        a = torch.ones(260, 16, requires_grad=True) * 1
        b = torch.zeros(260, 16)
        squares = a.pow(2).sum(1, keepdim=True) + b.pow(2).sum(1) - 2 * a @ b.t()
        squares.mean().backward()
    """
    calls = trace.once(Calls)
    for few, times in calls.few_of_each_line(calls.called("pow", "mul", "abs", "square")):
        for at in few:
            shape, size = _pairs(calls, at)
            if not size or not _is_much(trace, size):
                continue
            total = next(
                (each for each in calls.following(at, ()) if calls.name(each) == "sum"), NONE
            )
            if total != NONE and len(calls.trained_users(calls.outputs(at)[0])) == 1:
                yield _found(calls, at, total, shape, size, times)
                break


def _pairs(calls: Calls, at: int) -> tuple[tuple[int, ...], int]:
    """The shape of all pairs that a call squares, and its size in bytes; else nothing."""
    nothing: tuple[tuple[int, ...], int] = ((), 0)
    inputs, name = calls.inputs(at), calls.name(at)
    is_square = name != "mul" or (len(inputs) == 2 and inputs[0] == inputs[1])
    if not inputs or not is_square or (name == "pow" and calls.given(at).get("exponent") != 2):
        return nothing
    sub, shape = calls.maker(inputs[0]), calls.shape(inputs[0])
    if sub == NONE or calls.name(sub) not in {"sub", "add"} or len(shape) < 3:
        return nothing
    operands = max((prod(calls.shape(each)) for each in calls.inputs(sub)), default=0)
    sums = [each for each in calls.users(calls.outputs(at)[0]) if calls.name(each) == "sum"]
    left = min((prod(calls.shape(calls.outputs(each)[0])) for each in sums), default=0)
    whole = prod(shape)
    if not left or whole < LEAST_SAVING * left or whole < LEAST_SAVING * operands:
        return nothing
    tensors = calls.tensors
    return shape, int(tensors["bytes"][tensors.index(inputs[0])])


def _is_much(trace: Trace, size: int) -> bool:
    """Whether it is saved, large, and at least half as large as the largest saved tensor."""
    largest = int(np.max(trace.table(Saved)["bytes"], initial=0))
    return LEAST_BYTES <= size <= largest <= 2 * size


def _found(
    calls: Calls, at: int, total: int, shape: tuple[int, ...], size: int, times: int
) -> Found:
    site, made = calls.site(at), calls.maker(calls.inputs(at)[0])
    left = calls.shape(calls.outputs(total)[0])
    again = f"; the line ran {times:,} times" if times > 1 else ""
    return Found(
        message=f"All pairs are saved for backward at {site}: {shape} values, {size / 1e6:.1f} MB, "
        f"of which only the sums {left} are needed{again}",
        site=site,
        evidence=(Evidence("op", calls.id(at)), Evidence("op", calls.id(made))),
        why=f"{calls.name(made)} at {calls.site(made)} broadcasts two operands to {shape}; their "
        f"{calls.name(at)} saves that for backward, and a sum reduces it to {left} at once",
        fix="write `torch.cdist(a, b)`, or expand the square: "
        "`a.pow(2).sum(1, keepdim=True) + b.pow(2).sum(1) - 2 * a @ b.t()`",
        certainty=Certainty.CERTAIN,
    )
