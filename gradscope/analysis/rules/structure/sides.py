"""Rules about two sides of a difference or a ratio whose gradients cancel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gradscope.analysis.findings import Certainty, Evidence
from gradscope.analysis.identity.sites import at as at_site
from gradscope.analysis.lookups import grouped
from gradscope.analysis.program.acts import Acts
from gradscope.analysis.program.calls import Calls
from gradscope.analysis.program.numbers import TensorNumbers
from gradscope.analysis.program.training import Training
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.rules.structure.losses import READS
from gradscope.analysis.source.files import InSource, SourceFiles
from gradscope.analysis.source.sums import ComputedOff, computed_off
from gradscope.trace.schema import NONE, GradOffAct, Place, Value
from gradscope.trace.trace import Trace

LEFT = {"sub": 0.0, "div": 1.0}
"""What is left where both sides are equal."""

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

    The rule also reports a ratio whose old side is computed again under no_grad in every step. It
    is always 1, too, and the clamp that limits it never acts.

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
    """Ratios of 1 whose old side is computed in the only block without gradients of a step.

    The weights change between steps, so only a side that is computed again stays equal. A program
    that draws new data for each step does so in another block, and may mean a ratio of 1.
    """
    trace = calls.trace
    acts = trace.once(Acts)
    off = grouped(acts.of(GradOffAct), lambda act: act.step)
    for olds in trace.once(SourceFiles).each(computed_off):
        block = olds.file.site(olds.found.off)
        uses = {olds.file.site(each).place for each in olds.found.uses}
        for line in calls.each_line(calls.with_tensors(*LEFT)):
            limit = _limit(calls, line[0]) if calls.site(line[0]).place in uses else NONE
            if limit == NONE or not all(_is_level(calls, numbers, at) for at in line):
                continue
            steps = {int(calls.ops["step"][at]) for at in line}
            alone = [
                each
                for each in steps
                if {acts.place(act) for act in off.get(each, ())} == {block.place}
            ]
            if len(alone) >= STEPS and _is_trained(calls, line[0]):
                yield _always_one(calls, line, limit, olds, len(alone))


def _is_trained(calls: Calls, at: int) -> bool:
    """Whether an optimizer updates what a result is computed from, and a gradient arrived there."""
    held = calls.trace.once(Training).held
    return not held.isdisjoint(calls.sources(at)) and _got_a_gradient(calls, at)


def _limit(calls: Calls, at: int) -> int:
    """The clamp that limits a ratio: of the result of a division, or of exp of a difference."""
    after = calls.following(at)
    if calls.name(at) == "sub":
        after = [
            one for each in after if calls.name(each) == "exp" for one in calls.following(each)
        ]
    return next((each for each in after if calls.name(each) == "clamp"), NONE)


def _always_one(
    calls: Calls, line: list[int], limit: int, old: InSource[ComputedOff], alone: int
) -> Found:
    site, made, name = calls.site(line[0]), old.site, old.found.name
    return Found(
        message=f"The ratio at {site} was 1 in all {len(line)} recorded calls: `{name}` is "
        f"computed again{at_site(made)} in every step, with the weights that are being trained, so "
        f"the clamp{at_site(calls.site(limit))} never acts",
        site=made,
        evidence=(Evidence("op", calls.id(line[0])), Evidence("op", calls.id(limit)), old.evidence),
        why="every element was 1 in every step, although the weights changed in between; the block "
        f"{at_site(old.file.site(old.found.off)).strip()} is the only one without gradients in "
        f"{alone} of these steps",
        fix=f"compute `{name}` once, before the first step with these data, and store it",
        certainty=Certainty.INFERRED,
    )
