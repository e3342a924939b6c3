"""Rules about two sides of a difference or a ratio whose gradients cancel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gradscope.analysis.findings import Certainty, Evidence
from gradscope.analysis.identity.sites import at as at_site
from gradscope.analysis.program.calls import Calls
from gradscope.analysis.program.numbers import TensorNumbers
from gradscope.analysis.program.training import Training
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.rules.structure.losses import READS
from gradscope.trace.schema import NONE, Place, Value
from gradscope.trace.trace import Trace

LEFT = {"sub": 0.0, "div": 1.0}
"""What is left where both sides are equal."""

PICKS = ("index", "index_select", "gather")
"""Calls that take elements of a tensor: their other operand says which."""

CONSTANTS = ("arange", "zeros", "ones", "full", "eye", "empty", "scalar_tensor", "zeros_like",
             "ones_like", "full_like")  # fmt: skip

STEPS = 3
"""In how many steps both sides must be equal."""


@dataclass(frozen=True, slots=True)
class _Sides:
    """A difference or ratio of two results that have a graph."""

    at: int  # the call
    made: tuple[int, int]  # the calls that computed its sides


@rule("GS709", "sides-cancel", needs="values", reads=(*READS, "value"))
def sides_cancel(trace: Trace) -> Iterator[Found]:
    """Both sides of a difference or ratio are equal in every step, and both have a graph.

    The result is always 0, or always 1, and the gradients of the two sides cancel: no parameter
    learns from it. In PPO and other policy gradients, the ratio of new to old probabilities needs
    old ones that are detached, or computed under no_grad before the parameters change.

    The rule also reports a clamped ratio whose old side is computed again in each of several steps
    with the same data. It is always 1, too, and the clamp never acts. With new data in each step,
    this may be intended, and is not reported.

    Bad:
        policy = torch.nn.Linear(2, 3)
        optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
        for step in range(4):
            x = torch.tensor([[0.5, -1.0], [1.0, 2.0]]) + step
            old = torch.log_softmax(policy(x), dim=1)
            new = torch.log_softmax(policy(x), dim=1)
            optimizer.zero_grad()
            (-(new - old).exp()[:, 0].mean() + policy(x).pow(2).mean()).backward()
            optimizer.step()

    Good:
        policy = torch.nn.Linear(2, 3)
        optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
        for step in range(4):
            x = torch.tensor([[0.5, -1.0], [1.0, 2.0]]) + step
            with torch.no_grad():
                old = torch.log_softmax(policy(x), dim=1)
            new = torch.log_softmax(policy(x), dim=1)
            optimizer.zero_grad()
            (-(new - old).exp()[:, 0].mean() + policy(x).pow(2).mean()).backward()
            optimizer.step()
    """
    calls, numbers = trace.once(Calls), trace.once(TensorNumbers)
    for line in calls.each_line(calls.with_tensors(*LEFT)):
        level = [each for at in line if (each := _level_sides(calls, numbers, at)) is not None]
        steps = {int(calls.ops["step"][each.at]) for each in level}
        if len(steps) < STEPS:
            continue
        first = level[0]
        held = _held_by_both(calls, first)
        if (
            held
            and _got_a_gradient(calls, first.at)
            and sum(_is_like(calls, at, first) for at in line) == len(level)
        ):
            yield _found(calls, first, held, len(level))
    yield from _recomputed(calls, numbers)


def _level_sides(calls: Calls, numbers: TensorNumbers, at: int) -> _Sides | None:
    """The sides of a call if they are equal, and their values are not all the same."""
    sides = _sides(calls, at) if _is_level(calls, numbers, at) else None
    return sides if sides is not None and _vary(numbers, sides) else None


def _is_like(calls: Calls, at: int, other: _Sides) -> bool:
    """Whether a call of the same line has sides of the same kind as these.

    A call of a library has several differences in one line of the program.
    """
    sides = _sides(calls, at)
    made = [] if sides is None else [calls.name(each) for each in sides.made]
    return made == [calls.name(each) for each in other.made]


def _sides(calls: Calls, at: int) -> _Sides | None:
    """The sides of a call, if two calls computed them and both have a graph."""
    inputs = calls.inputs(at)
    if len(inputs) != 2 or not all(map(calls.needs_grad, inputs)):
        return None
    if calls.shape(inputs[0]) != calls.shape(inputs[1]):
        return None
    one, other = (calls.origin(each) for each in inputs)
    return None if NONE in (one, other) else _Sides(at, (one, other))


def _is_level(calls: Calls, numbers: TensorNumbers, at: int) -> bool:
    """Whether all values that a call returned are what two equal sides leave."""
    value = numbers.of_op(calls.id(at))
    if value == NONE or numbers.number("nan", value):
        return False
    left = LEFT[calls.name(at)]
    return numbers.number("min", value) == left == numbers.number("max", value)


def _vary(numbers: TensorNumbers, sides: _Sides) -> bool:
    """Whether its sides have several values: two that are stuck at a limit are equal, too."""
    calls = numbers.trace.once(Calls)
    values = [numbers.of_op(calls.id(each)) for each in sides.made]
    return NONE not in values and all(
        numbers.number("min", each) < numbers.number("max", each) for each in values
    )


def _held_by_both(calls: Calls, sides: _Sides) -> frozenset[int]:
    """The parameters of optimizers from which both sides were computed."""
    one, other = (calls.sources(each) for each in sides.made)
    return frozenset(one & other & calls.trace.once(Training).held)


def _got_a_gradient(calls: Calls, at: int) -> bool:
    """Whether a gradient other than zero arrived at the result: it is not only for a log."""
    values, node = calls.trace.table(Value), int(calls.ops["node"][at])
    came = (values["node"] == node) & (values["place"] == Place.NODE_INPUT)
    return node != NONE and bool((values["zero"][came] < values["count"][came]).any())


def _found(calls: Calls, sides: _Sides, held: frozenset[int], times: int) -> Found:
    site, named = calls.site(sides.at), calls.trace.once(Training).named(held)
    left, right = (calls.site(each) for each in sides.made)
    is_sub = calls.name(sides.at) == "sub"
    what, left_over = ("difference", "0") if is_sub else ("ratio", "1")
    places = f"{at_site(left)}" if left == right else f"{at_site(left)} and{at_site(right)}"
    return Found(
        message=f"The {what} at {site} was {left_over} in all {times} recorded calls: both sides, "
        f"computed{places}, are equal and have a graph, so their gradients cancel; {named} "
        f"learn{'s' * (len(held) == 1)} nothing from it",
        site=site,
        evidence=(
            Evidence("op", calls.id(sides.at)),
            *(Evidence("op", calls.id(each)) for each in dict.fromkeys(sides.made)),
        ),
        why=f"every element of each result was {left_over}, while the values of each side differed "
        "among themselves; a gradient arrived there, and both sides were computed from the same "
        "parameters",
        fix="detach the side that is meant to be constant, or compute it under `torch.no_grad()` "
        "before the parameters change",
        certainty=Certainty.INFERRED,
    )


def _recomputed(calls: Calls, numbers: TensorNumbers) -> Iterator[Found]:
    """Ratios of 1 in steps that use the same data again: an old side that was stored would differ.

    With new data in each step a ratio of 1 may be intended: one update for each batch.
    """
    for line in calls.each_line(calls.with_tensors(*LEFT)):
        limit = _limit(calls, line[0])
        if limit == NONE or not all(_is_level(calls, numbers, at) for at in line):
            continue
        again = _with_old_data(calls, numbers, line)
        steps = {int(calls.ops["step"][at]) for at in again}
        if len(steps) >= STEPS and _is_trained(calls, again[0]):
            yield _always_one(calls, line, limit, again)


def _is_trained(calls: Calls, at: int) -> bool:
    """Whether an optimizer updates what a result is computed from, and a gradient arrived there."""
    held = calls.trace.once(Training).held
    return not held.isdisjoint(calls.sources(at)) and _got_a_gradient(calls, at)


def _with_old_data(calls: Calls, numbers: TensorNumbers, line: list[int]) -> list[int]:
    """The calls of a line whose data were all used by this line in earlier steps."""
    found, first = [], dict[tuple[object, ...], int]()
    held = calls.trace.once(Training).held
    for at in line:
        step = int(calls.ops["step"][at])
        data = [_known_by(calls, numbers, each) for each in _data(calls, at) if each not in held]
        if data and all(first.setdefault(each, step) < step for each in data):
            found.append(at)
    return found


def _known_by(calls: Calls, numbers: TensorNumbers, tensor: int) -> tuple[object, ...]:
    """What identifies data: a tensor may be recorded anew each time that it is used."""
    rows = np.flatnonzero(numbers.values["tensor"] == tensor)[:1].tolist()
    known = [numbers.number(name, at) for at in rows for name in ("min", "max", "mean", "rms")]
    return (*calls.shape(tensor), *(known or [tensor]))


def _data(calls: Calls, at: int) -> Iterator[int]:
    """The tensors without a graph from which the side with a graph was computed.

    What only says which elements to take, and constants, are not data.
    """
    pending, seen = [each for each in calls.inputs(at) if calls.needs_grad(each)], set[int]()
    while pending:
        tensor = pending.pop()
        if tensor in seen:
            continue
        seen.add(tensor)
        maker = calls.maker(tensor)
        inputs = [] if maker == NONE else calls.inputs(maker)
        if inputs and calls.name(maker) in PICKS:
            pending += inputs[:1]
        elif inputs and calls.needs_grad(tensor):
            pending += inputs
        elif maker == NONE or calls.name(maker) not in CONSTANTS:
            yield tensor


def _limit(calls: Calls, at: int) -> int:
    """The clamp that limits a ratio: of the result of a division, or of exp of a difference."""
    after = calls.following(at)
    if calls.name(at) == "sub":
        after = [
            one for each in after if calls.name(each) == "exp" for one in calls.following(each)
        ]
    return next((each for each in after if calls.name(each) == "clamp"), NONE)


def _always_one(calls: Calls, line: list[int], limit: int, again: list[int]) -> Found:
    site = calls.site(line[0])
    return Found(
        message=f"The ratio at {site} was 1 in all {len(line)} recorded calls, also with data that "
        "earlier steps had used: its old side is computed again in every step, with the weights "
        f"that are being trained, so the clamp{at_site(calls.site(limit))} never acts",
        site=site,
        evidence=tuple(Evidence("op", calls.id(each)) for each in (line[0], limit)),
        why=f"every element was 1, although {len(again)} of these calls used only data of earlier "
        "steps, and the weights had changed in between",
        fix="compute the old side once, before the first step with these data, and store it",
        certainty=Certainty.INFERRED,
    )
