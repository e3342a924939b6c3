"""Rules about gradients of several micro-batches that are accumulated for one step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from gradscope.analysis.findings import Certainty, Severity
from gradscope.analysis.identity.sites import Site, at, is_installed
from gradscope.analysis.program.acts import Optimizer
from gradscope.analysis.program.arguments import arguments_of
from gradscope.analysis.program.loop import BY_HAND, Beat, Loop, LoopMoment
from gradscope.analysis.rules.loop.words import evidence, line
from gradscope.analysis.rules.registry import Found, rule
from gradscope.trace.schema import NONE, GraphTask, Node, Phase, Place, Span, Value
from gradscope.trace.shortcomings import has_holes
from gradscope.trace.trace import Trace

LONGEST = np.iinfo(np.int64).max
SUM = 2
"""The value of `reduction="sum"` that a loss's node saves."""

MEANS = ("Mean", "MseLoss", "NllLoss", "L1Loss", "SmoothL1", "Huber", "BinaryCrossEntropy", "KlDiv")
"""Nodes of losses that are means over their inputs."""


@dataclass(frozen=True, slots=True)
class Gathering:
    """Backwards of one line between two steps of an optimizer."""

    fills: tuple[LoopMoment, ...]
    step: LoopMoment | None  # None: the gradients were cleared, or the program ended
    cleared: LoopMoment | None


def gatherings(loop: Loop, optimizer: Optimizer) -> list[Gathering]:
    found: list[Gathering] = []
    fills: list[LoopMoment] = []
    for moment in loop.moments(optimizer):
        if moment.beat is Beat.FILLED:
            fills.append(moment)
        elif moment.beat in (Beat.STEPPED, Beat.SKIPPED, Beat.CLEARED) and fills:
            stepped = moment.beat is not Beat.CLEARED
            found.append(
                Gathering(tuple(fills), moment if stepped else None, None if stepped else moment)
            )
            fills = []
    if fills:
        found.append(Gathering(tuple(fills), None, None))
    return found


def _usual(found: list[Gathering]) -> int:
    """How many backwards of one line come before each step; 0 if that varies."""
    several = [each for each in found if each.step is not None]
    lines = {fill.stack for each in several for fill in each.fills}
    if len(lines) != 1 or not several:
        return 0
    many, times = Counter(len(each.fills) for each in several).most_common(1)[0]
    return many if many > 1 and times == len(several) else 0


@rule("GS507", "batches-lost", reads=("accumulate", "act"), steps="each")
def batches_lost(trace: Trace) -> Iterator[Found]:
    """Micro-batches at the end of an epoch are accumulated, but no step uses them.

    With a step after every fourth of ten micro-batches, the last two train nothing: their gradients
    are cleared, or left over. If each micro-batch clears what the earlier ones accumulated, only
    the last one trains.

    Bad:
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            for i in range(5):
                (model(torch.ones(3, 2)).pow(2).mean() / 2).backward()
                if (i + 1) % 2 == 0:
                    optimizer.step()
                    optimizer.zero_grad()

    Good:
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            for i in range(5):
                (model(torch.ones(3, 2)).pow(2).mean() / 2).backward()
                if (i + 1) % 2 == 0 or i + 1 == 5:
                    optimizer.step()
                    optimizer.zero_grad()
    """
    loop = trace.once(Loop)
    for optimizer in loop.trained:
        yield from _cleared_each_time(loop, optimizer)
        found = gatherings(loop, optimizer)
        every = _usual(found)
        stack = found[0].fills[0].stack if found else -1
        lost = [
            each
            for each in found
            if each.step is None
            and len(each.fills) < every
            and {fill.stack for fill in each.fills} == {stack}
        ]
        if not lost or not (ended_well(trace) or any(each.cleared for each in lost)):
            continue
        one = next((each for each in lost if each.cleared), lost[0])
        step = next(each.step for each in found if each.step is not None)
        site, stepped = loop.site(one.fills[0]), loop.site(step)
        many = sum(len(each.fills) for each in lost)
        gone = f"cleared{at(loop.site(one.cleared))}" if one.cleared else "left over at the end"
        yield Found(
            message=f"{many} micro-batch{'es' * (many > 1)} lost: the backward{at(site)} "
            f"accumulates gradients that no step{at(stepped)} uses; they are {gone}",
            site=site,
            evidence=evidence(*one.fills, *((one.cleared,) if one.cleared else ())),
            why=f"{optimizer.type} steps after every {every} backwards, and {len(one.fills)} were "
            f"left over; this happened {len(lost)} time{'s' if len(lost) > 1 else ''}",
            fix=f"also call {line(stepped, 'optimizer.step()')} after the last micro-batch of an "
            "epoch: `if (i + 1) % every == 0 or i + 1 == total:`",
        )


def _cleared_each_time(loop: Loop, optimizer: Optimizer) -> Iterator[Found]:
    """Gradients that are cleared before each further backward of the same line."""
    inside = _closures(loop)
    rounds: list[tuple[list[LoopMoment], list[LoopMoment]]] = []  # backwards, and what cleared them
    steps: list[LoopMoment] = []
    for moments in loop.rounds(optimizer):
        if not moments or moments[-1].beat is not Beat.STEPPED:
            continue
        fills = [each for each in moments if each.beat is Beat.FILLED]
        lost = [
            after
            for before, after in pairwise(moments)
            if before.beat is Beat.FILLED and after.beat is Beat.CLEARED
        ]
        replaced = any(each.replaces for each in moments)
        if {each.stack for each in fills} & inside or len(lost) != len(fills) - 1 or replaced:
            return
        rounds.append((fills, lost))
        steps.append(moments[-1])
    many = {len(fills) for fills, _ in rounds}
    backwards = {each.stack for fills, _ in rounds for each in fills}
    clears = {each.stack for _, lost in rounds for each in lost}
    if len(rounds) < 2 or len(many) != 1 or many == {1} or len(backwards | clears) != 2:
        return
    (every,) = many
    fill, clear = rounds[0][0][0], rounds[0][1][0]
    site, cleared, stepped = loop.site(fill), loop.site(clear), loop.site(steps[0])
    yield Found(
        message=f"{every - 1} of {every} micro-batches are lost: the line that clears gradients"
        f"{at(cleared)} runs before each backward{at(site)}, but the step{at(stepped)} runs after "
        f"every {every}",
        site=cleared,
        evidence=evidence(fill, clear),
        why=f"{optimizer.type} stepped with the gradients of one backward only, in each of "
        f"{len(rounds)} steps; those of the {every - 1} before it had been cleared",
        fix=f"move {line(cleared, 'optimizer.zero_grad()')} after "
        f"{line(stepped, 'optimizer.step()')}",
        certainty=Certainty.INFERRED,
    )


def _closures(loop: Loop) -> set[int]:
    """Lines of backwards that optimizers call themselves, inside their steps."""
    spans = loop.trace.table(Span)
    own = np.flatnonzero(spans["phase"] == Phase.OPTIMIZER)
    own = own[np.argsort(spans["begin"][own])]
    begins, ends = spans["begin"][own], spans["end"][own]
    latest = np.maximum.accumulate(np.where(ends == NONE, LONGEST, ends))  # end of any so far
    tasks = np.array([*loop.tasks.values()], np.int64).reshape(-1, 2)
    before = np.searchsorted(begins, tasks[:, 0], side="right")
    inside = np.append(-LONGEST, latest)[before] >= tasks[:, 0]
    return {*tasks[inside, 1].tolist()}


def ended_well(trace: Trace) -> bool:
    return trace.meta.get("exit") == "ok" and not trace.truncated and not has_holes(trace)


@rule("GS508", "not-divided", reads=("accumulate", "act"), steps="each")
def not_divided(trace: Trace) -> Iterator[Found]:
    """Gradients of several micro-batches are added up for one step without dividing the losses.

    Each loss is a mean over its micro-batch. The sum of N such gradients is N times as large as the
    gradient of the whole batch, and so is the step. This is a note where the micro-batches have a
    loop of their own, as several losses that are added on purpose may have.

    Bad:
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        optimizer.zero_grad()
        for i in range(8):
            model(torch.ones(3, 2)).pow(2).mean().backward()
            if (i + 1) % 4 == 0:
                optimizer.step()
                optimizer.zero_grad()

    Good:
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        optimizer.zero_grad()
        for i in range(8):
            (model(torch.ones(3, 2)).pow(2).mean() / 4).backward()
            if (i + 1) % 4 == 0:
                optimizer.step()
                optimizer.zero_grad()
    """
    loop = trace.once(Loop)
    for optimizer in loop.trained:
        found = [each for each in gatherings(loop, optimizer) if each.step is not None]
        every = _usual(found)
        alike = len({fill.tensors for each in found for fill in each.fills}) == 1
        if every < 2 or len(found) < 2 or not alike:
            continue
        fill, step = found[0].fills[0], found[0].step
        assert step is not None
        written = {each.t for each in loop.moments(optimizer) if each.beat is Beat.WRITTEN}
        if any(step.fills[-1].t < t < _end(step) for t in written for step in found):
            continue
        if not all(ends_in_mean(trace, one.id) for each in found[:8] for one in each.fills):
            continue
        site, stepped = loop.site(fill), loop.site(step)
        if _is_a_librarys(site) or _through_updates(trace, found):
            continue
        # An update by hand may contain the division.
        nested = optimizer.type == BY_HAND or _has_loop_of_its_own(loop, optimizer, found)
        yield Found(
            message=f"losses are not divided: the backward{at(site)} is called {every} times "
            f"before each step{at(stepped)}, so the gradients add up to {every} times their mean",
            site=site,
            evidence=evidence(*found[0].fills, step),
            why=f"each loss ends in a mean over its own micro-batch; {optimizer.type} stepped "
            f"{len(found)} times, after {every} backwards each",
            fix=_divided(site.text, every),
            certainty=Certainty.SUSPECTED,
            severity=Severity.NOTE if nested else None,
        )


def _is_a_librarys(site: Site) -> bool:
    """Whether a library calls backward there: pipeline schedules divide the losses themselves."""
    return is_installed(site.file) or (bool(site.text) and "backward" not in site.text)


def _through_updates(trace: Trace, found: list[Gathering]) -> bool:
    """Whether an `autograd.grad`, or `create_graph`, comes before each loss.

    MAML sums over its tasks, and so does its first-order variant.
    """
    tasks = trace.table(GraphTask)
    made = tasks["begin"][tasks["create_graph"] | ~tasks["accumulate_grad"]]
    ends = [[fill.t for fill in each.fills] for each in found]
    return all(
        ((before < made) & (made < after)).any()
        for times in ends
        for before, after in pairwise(times)
    )


def _divided(text: str, every: int) -> str:
    loss, call, _ = text.partition(".backward()")
    name = loss.strip()
    if call and name.isidentifier():
        return f"write `({name} / {every}).backward()` instead of `{name}.backward()`"
    return f"divide the loss by {every} before its backward"


def _end(gathering: Gathering) -> int:
    return -1 if gathering.step is None else gathering.step.t


def _is_sum(trace: Trace, node: Node, task: int) -> bool:
    """Whether a loss is a sum: by its arguments, or by a gradient too large for a mean."""
    said = arguments_of(node.arguments).get("reduction")
    if said is not None:
        return said == SUM
    values = trace.table(Value)
    of = (values["node"] == node.id) & (values["place"] == Place.NODE_OUTPUT)
    of &= (values["task"] == task) & (values["index"] == 0)
    norms, counts = values["norm"][of], values["count"][of]
    if not len(norms) or counts[0] < 2:
        return False
    if not node.name.startswith("Mse"):
        return bool(norms[0] > 1.0001)
    made = (values["op"] == node.op) & (values["place"] == Place.OP_OUTPUT)
    loss = values["norm"][made]
    return (
        bool(len(loss)) and abs(norms[0] ** 2 / (4 * loss[0]) - 1) < 0.01 if loss.any() else False
    )


def ends_in_mean(trace: Trace, task: int) -> bool:
    """Whether the loss is a mean that is neither divided nor multiplied."""
    tasks, nodes = trace.table(GraphTask), trace.table(Node)
    roots = tasks.row(task).roots
    if len(roots) != 1 or not nodes.has(roots[0]):
        return False
    node = nodes.row(roots[0])
    return node.name.startswith(MEANS) and not _is_sum(trace, node, task)


def _has_loop_of_its_own(loop: Loop, optimizer: Optimizer, found: list[Gathering]) -> bool:
    """Whether the line that clears gradients for later micro-batches also ran before the first."""
    first = found[0].fills[0].t
    cleared = [each for each in loop.moments(optimizer) if each.beat is Beat.CLEARED]
    before = {each.stack for each in cleared if each.t < first}
    after = {each.stack for each in cleared if each.t > first}
    return bool(before & after)
