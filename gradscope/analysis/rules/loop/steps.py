"""Rules about steps that are missing, or made twice."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise

from gradscope.analysis.findings import Certainty, Evidence
from gradscope.analysis.identity.sites import Site, at
from gradscope.analysis.program.acts import Optimizer, found_gradients
from gradscope.analysis.program.loop import Beat, Loop, LoopMoment
from gradscope.analysis.rules.loop.words import called_on, evidence, line, often
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.source.statements import named_only
from gradscope.trace.schema import DataSetAct, DataWrittenAct
from gradscope.trace.trace import Trace

MANY = 3
"""Least number of iterations without a step: fewer may be the start of one."""


@rule("GS517", "never-stepped", reads=("accumulate", "act"), steps="each")
def never_stepped(trace: Trace) -> Iterator[Found]:
    """Backwards fill an optimizer's gradients and zero_grad clears them, but it never steps.

    Bad:
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(4):
            optimizer.zero_grad()
            model(torch.ones(3, 2)).pow(2).mean().backward()

    Good:
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(4):
            optimizer.zero_grad()
            model(torch.ones(3, 2)).pow(2).mean().backward()
            optimizer.step()
    """
    loop = trace.once(Loop)
    held = [set(each.tensors) for each in loop.in_use if each.steps]
    for optimizer in loop.acts.optimizers:
        if optimizer.steps or any(not its.isdisjoint(optimizer.tensors) for its in held):
            continue
        moments = loop.moments(optimizer)
        fills = [each for each in moments if each.beat is Beat.FILLED]
        cleared = [each for each in moments if each.beat is Beat.CLEARED]
        named = named_only(trace, "step")
        used = any(each.beat in (Beat.SKIPPED, Beat.WRITTEN) for each in moments)
        by_hand = loop.acts.of(DataWrittenAct, DataSetAct)
        if len(fills) < MANY or len(cleared) < MANY - 1 or named or used or by_hand:
            continue
        if _clears_between(fills, cleared):
            yield _never(loop, optimizer, fills, cleared)


def _clears_between(fills: list[LoopMoment], cleared: list[LoopMoment]) -> bool:
    """Whether the gradients of a backward are discarded before the next, more than once."""
    times = [each.t for each in cleared]
    places = [bisect_left(times, fill.t) for fill in fills]
    return sum(before < after for before, after in pairwise(places)) >= MANY - 1


def _never(
    loop: Loop, optimizer: Optimizer, fills: list[LoopMoment], cleared: list[LoopMoment]
) -> Found:
    built, site = loop.acts.site(optimizer.built), loop.site(fills[0])
    clears = loop.site(cleared[0])
    others = (each.steps[0] for each in loop.in_use if each.steps)
    beside = next((step for step in others if step.t > fills[0].t), None)
    other = loop.acts.site(beside) if beside else Site()
    also = f"; another optimizer steps{at(other)}" if other.place else ""
    return Found(
        message=f"{optimizer.type}, built{at(built)}, never steps: the backward{at(site)} fills "
        f"its gradients, and they are cleared{at(clears)} without optimizer.step()",
        site=site,
        evidence=(Evidence("act", optimizer.built.id), *evidence(fills[0], cleared[0])),
        why=f"there were {len(fills)} backwards, gradients were cleared {len(cleared)} times, and "
        f"its step was never called: the parameters keep their initial values{also}",
        fix=f"write `{called_on(clears)}.step()` "
        + (
            f"next to {line(other, 'the step')}"
            if also
            else f"after {line(site, 'loss.backward()')}"
        ),
        certainty=Certainty.INFERRED,
    )


@rule("GS518", "steps-again", reads=("accumulate", "act"), steps="each")
def steps_again(trace: Trace) -> Iterator[Found]:
    """An optimizer steps a second time with the same gradients, from another line.

    Bad:
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(3, 2)).pow(2).mean().backward()
            optimizer.step()
            optimizer.step()

    Good:
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(3, 2)).pow(2).mean().backward()
            optimizer.step()
    """
    loop = trace.once(Loop)
    for optimizer in loop.in_use:
        again = [
            (last, moment)
            for last, moment in pairwise(loop.moments(optimizer))
            if last.beat is moment.beat is Beat.STEPPED
            and last.stack != moment.stack
            and found_gradients(loop.acts.by_id[moment.id])
        ]
        if 2 * len(again) >= len(optimizer.steps) - len(again) and len(again) > 1:
            yield _again(loop, optimizer, again)


def _again(loop: Loop, optimizer: Optimizer, again: list[tuple[LoopMoment, LoopMoment]]) -> Found:
    first, second = again[0]
    site, before = loop.site(second), loop.site(first)
    idle = [
        each
        for each in loop.acts.optimizers
        if not each.steps and any(moment.beat is Beat.FILLED for moment in loop.moments(each))
    ]
    other = ""
    if idle:
        other = f"; the {idle[0].type} built{at(loop.acts.site(idle[0].built))} never steps"
    rounds = len(optimizer.steps) - len(again)
    return Found(
        message=f"{optimizer.type} steps again with the same gradients: step{at(site)} follows the "
        f"step{at(before)} without a backward in between{other}",
        site=site,
        evidence=evidence(first, second),
        why=f"gradients were neither filled nor cleared nor changed between the two, "
        f"{often(len(again), rounds, 'iterations')}: each of them counts twice",
        fix=f"step the other optimizer instead of {line(site, 'optimizer.step()')}"
        if idle
        else f"remove {line(site, 'optimizer.step()')}",
        certainty=Certainty.INFERRED,
    )
