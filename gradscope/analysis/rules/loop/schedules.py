"""Rules about learning rate schedules: stepped at the wrong time, or too often."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import pairwise

from gradscope.analysis.findings import Certainty, Evidence
from gradscope.analysis.identity.sites import at
from gradscope.analysis.program.acts import Acts, Done, Optimizer
from gradscope.analysis.program.loop import Loop
from gradscope.analysis.program.numbers import losses_of, rises
from gradscope.analysis.rules.loop.words import line
from gradscope.analysis.rules.registry import Found, rule
from gradscope.trace.schema import (
    OptimizerAct,
    ScaledStepAct,
    ScheduleAct,
    ScheduleStepAct,
    StatementAct,
    StepAct,
)
from gradscope.trace.trace import Trace

DECAYING = frozenset(("ExponentialLR", "StepLR", "MultiStepLR", "MultiplicativeLR"))
"""Schedules that decrease without end, by a factor for each of their steps."""

MANY, MOSTLY = 4, 0.75
"""Least number of values a schedule watched, and the share of them that go one way."""

MORE_IS_BETTER = re.compile(r"acc|f1|auc|iou|dice|reward|bleu|psnr|recall|precision", re.IGNORECASE)

ABOVE, FAR_UP = 1.01, 10.0
"""Tolerance for a rate that never exceeds another; factor by which one is far above another."""

SEARCHED = 1e-5
NOTHING = 1e-3
"""A rate below this fraction of the first trains nothing any more."""


@rule("GS506", "scheduled-at-the-wrong-time", reads=("act",), steps="first")
def scheduled_at_the_wrong_time(trace: Trace) -> Iterator[Found]:
    """A learning rate schedule (lr_scheduler) is stepped before the optimizer, or far too often.

    Before the optimizer's first step it skips the first learning rate. After every batch, a
    schedule that was meant for epochs takes the rate to almost 0, or through its curve and back.

    Bad:
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.1)
        for _ in range(9):
            optimizer.zero_grad()
            model(torch.ones(3, 2)).pow(2).mean().backward()
            optimizer.step()
            schedule.step()

    Good:
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
        for _ in range(9):
            optimizer.zero_grad()
            model(torch.ones(3, 2)).pow(2).mean().backward()
            optimizer.step()
            schedule.step()
    """
    loop = trace.once(Loop)
    for optimizer in loop.in_use:
        of = optimizer.built.id
        built = [act for act in loop.acts.of(ScheduleAct) if act.of == of]
        stepped = [act for act in loop.acts.of(ScheduleStepAct) if act.of == of]
        skipped = [act.t for act in loop.acts.of(ScaledStepAct) if act.of == of]
        if len(built) != 1 or not stepped or not optimizer.steps:
            continue  # several of one optimizer cannot be told apart
        tried = min([optimizer.steps[0].t, *skipped])
        yield from _too_early(loop, optimizer, stepped, tried)
        yield from _too_often(loop, optimizer, stepped)
        yield from _the_wrong_way(loop, built[0], stepped)


def _too_early(
    loop: Loop, optimizer: Optimizer, stepped: list[Done[ScheduleStepAct]], tried: int
) -> Iterator[Found]:
    """Stepped before the optimizer's step, and not after it."""
    early = [act for act in stepped if act.t < tried]
    late = [act for act in stepped if act.t > tried and act.stack == stepped[0].stack]
    if len(early) != 1 or not late or optimizer.built.facts.before:
        return  # several: a program that resumes
    act, step = early[0], optimizer.steps[0]
    site, beside = loop.acts.site(act), loop.acts.site(step)
    before = _rate(optimizer.built)
    rates = f" its first rate, {before:g}, is never used" if before else " one rate is skipped"
    yield Found(
        message=f"{act.facts.type} is stepped at the wrong time: scheduler.step{at(site)} "
        f"comes before the optimizer's first step{at(beside)}",
        site=site,
        evidence=(Evidence("act", act.id), Evidence("act", step.id)),
        why=f"a schedule must be stepped after the optimizer;{rates}",
        fix=f"move {line(site, 'scheduler.step()')} after {line(beside, 'optimizer.step()')}, "
        "at the end of the epoch",
    )


def _too_often(
    loop: Loop, optimizer: Optimizer, stepped: list[Done[ScheduleStepAct]]
) -> Iterator[Found]:
    """Stepped after each step of the optimizer, though the rate vanishes, or rises again."""
    kind = stepped[0].facts.type
    steps = optimizer.steps
    if 4 * len(stepped) < 3 * len(steps) or len(steps) < 4:
        return
    rates = [rate for act in steps if (rate := _rate(act))]
    if not rates:
        return
    most = max(rates)
    idle = [act for act in steps if (rate := _rate(act)) is not None and rate < NOTHING * most]
    act = stepped[0]
    site = loop.acts.site(act)
    begin = f"{kind} is stepped at the wrong time: scheduler.step{at(site)} comes after every batch"
    if kind in DECAYING and 2 * len(idle) >= len(steps):
        yield Found(
            message=f"{begin} and takes the learning rate to almost 0",
            site=site,
            evidence=(Evidence("act", act.id), Evidence("act", idle[0].id)),
            why=f"it was {rates[0]:g} in the first of {len(steps)} steps and {rates[-1]:.2g} in "
            f"the last; {len(idle)} steps had less than a thousandth of it",
            fix=f"move {line(site, 'scheduler.step()')} out of the loop over batches, to the "
            "end of the epoch",
            certainty=Certainty.INFERRED,
        )
    elif kind == "CosineAnnealingLR" and _turns(rates):
        yield Found(
            message=f"{begin} and takes the learning rate down and up again",
            site=site,
            evidence=(Evidence("act", act.id),),
            why=f"CosineAnnealingLR rises again after T_max of its own steps; over {len(steps)} "
            f"steps the rate fell to {min(rates):.2g} and ended at {rates[-1]:.2g}",
            fix=f"move {line(site, 'scheduler.step()')} to the end of the epoch, or set T_max in "
            "batches",
            certainty=Certainty.SUSPECTED,
        )


def _the_wrong_way(
    loop: Loop, built: Done[ScheduleAct], stepped: list[Done[ScheduleStepAct]]
) -> Iterator[Found]:
    """ReduceLROnPlateau waits for a loss to rise, or for an accuracy to fall."""
    numbers = [act.facts.metric for act in stepped if math.isfinite(act.facts.metric)]
    rates = [rate for act in stepped if (rate := _rate(act))]
    mode, site = built.facts.mode, loop.acts.site(built)
    if len(numbers) < MANY or mode not in ("min", "max") or len(set(rates)) < MANY - 1:
        return
    moves = [after - before for before, after in pairwise(numbers) if after != before]
    if len(moves) < MANY - 1:
        return
    falls = sum(each < 0 for each in moves) / len(moves)
    stepping = loop.acts.site(stepped[0])
    wrong = (
        falls >= MOSTLY and numbers[-1] < numbers[0]
        if mode == "max"
        else (
            falls <= 1 - MOSTLY
            and numbers[-1] > numbers[0]
            and MORE_IS_BETTER.search(stepping.text)
        )
    )
    if not wrong:
        return
    goes, better = ("falls", "min") if mode == "max" else ("rises", "max")
    yield Found(
        message=f"ReduceLROnPlateau{at(site)} watches in the wrong direction (mode={mode!r}): the "
        f"value it receives{at(stepping)} {goes}, and it lowers the learning rate for that",
        site=site,
        evidence=(Evidence("act", built.id), Evidence("act", stepped[-1].id)),
        why=f"in {len(numbers)} steps the value went from {numbers[0]:.3g} to {numbers[-1]:.3g}, "
        f"and the rate from {rates[0]:.2g} to {rates[-1]:.2g}: improvement counts as a plateau",
        fix=f'set mode="{better}"',
        certainty=Certainty.INFERRED if mode == "min" else Certainty.SUSPECTED,
    )


@rule("GS521", "rate-by-a-wrong-factor", reads=("act",), steps="first")
def rate_by_a_wrong_factor(trace: Trace) -> Iterator[Found]:
    """The function of a LambdaLR takes the learning rate to almost 0, below 0, or far up.

    A LambdaLR multiplies the optimizer's `lr` by what its function returns: a factor, 1 at first or
    after a warm-up. If the function returns the rate itself, the result is the square of what was
    meant; if it decreases over the wrong number of epochs, the rate becomes too small to train.

    Bad:
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.01 * 0.9 ** epoch)
        for _ in range(5):
            optimizer.zero_grad()
            model(torch.ones(3, 2)).pow(2).mean().backward()
            optimizer.step()
            schedule.step()

    Good:
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.9 ** epoch)
        for _ in range(5):
            optimizer.zero_grad()
            model(torch.ones(3, 2)).pow(2).mean().backward()
            optimizer.step()
            schedule.step()
    """
    loop = trace.once(Loop)
    for optimizer in loop.in_use:
        built = [act for act in loop.acts.of(ScheduleAct) if act.of == optimizer.built.id]
        base = _rate(optimizer.built)
        rates = [rate for act in optimizer.steps if (rate := _rate(act)) is not None]
        if len(built) != 1 or not base or len(rates) < MANY or optimizer.built.facts.before:
            continue
        for factor in factors_of(loop.acts, built[0]):
            if told := _wrong_factor(trace, built[0].facts.type, base, rates):
                yield _by_a_factor(loop, (built[0], factor), told)
                break


def factors_of(acts: Acts, schedule: Done[ScheduleAct]) -> list[Done[StatementAct]]:
    """Where the functions return that give the factors of a schedule's rates."""
    return [
        act for act in acts.of(StatementAct) if act.of == schedule.id and act.facts.what == "factor"
    ]


def _wrong_factor(
    trace: Trace, kind: str, base: float, rates: list[float]
) -> tuple[str, str, str] | None:
    """What a factor does wrong, what shows it, and what to write; None if nothing is wrong."""
    most, low = max(rates), sum(rate < NOTHING * max(rates) for rate in rates)
    went = f"lr is {base:g}; in {len(rates)} steps it went {rates[0]:.2g} to {rates[-1]:.2g}"
    if min(rates) < 0:
        return (
            f"makes the learning rate negative: {min(rates):.2g}",
            f"{went}; a step with a rate below 0 increases the loss",
            "let it end at 0: `max(0.0, …)`, over the actual number of steps",
        )
    if most == 0:
        return None  # GS805 reports it
    if kind == "LambdaLR" and _is_close(rates[0], base * base) and most <= ABOVE * base * base:
        return (
            f"is the rate itself, times lr={base:g}: the learning rate is {rates[0]:.2g}",
            f"LambdaLR multiplies lr by what its function returns, {base:g} at first",
            f"return a factor, without the {base:g}; or build the optimizer with lr=1.0",
        )
    if 2 * low >= len(rates) and all(rate < NOTHING * most for rate in rates[-low:]):
        return (
            "takes the learning rate to almost 0",
            f"{went}; the last {low} had less than a thousandth of the highest",
            "count in what schedule.step() counts (epochs or batches), and use the actual number",
        )
    found = most > FAR_UP * base > FAR_UP * SEARCHED  # a search for a rate begins below
    if found and rises(losses_of(trace)):
        return (
            f"raises the learning rate to {most:.2g} from {base:g}, and the loss rises",
            went,
            "keep the factor at 1 or below",
        )
    return None


def _is_close(one: float, other: float) -> bool:
    return abs(one - other) <= 1e-3 * abs(other) and not _is_one(other)


def _is_one(number: float) -> bool:
    return abs(number - 1) < 0.1


def _by_a_factor(
    loop: Loop, of: tuple[Done[ScheduleAct], Done[StatementAct]], told: tuple[str, str, str]
) -> Found:
    schedule, factor = of
    site, made = loop.acts.site(factor), loop.acts.site(schedule)
    what, why, fix = told
    others = ", ".join(str(each) for each in loop.acts.sites(factor)[1:])
    more = f" (or {others})" if others else ""
    name = factor.facts.name
    function = "the lambda" if name == "<lambda>" else name
    return Found(
        message=f"The value that {function} returns{at(site)}{more} for the {schedule.facts.type} "
        f"built{at(made)} {what}",
        site=site,
        evidence=(Evidence("act", factor.id), Evidence("act", schedule.id)),
        why=why,
        fix=fix,
        certainty=Certainty.INFERRED,
    )


def _turns(rates: list[float]) -> bool:
    """Whether the rates rise again to more than half of the first after they were low."""
    low = rates.index(min(rates))
    return rates[low] < 0.1 * rates[0] and max(rates[low:]) > 0.5 * rates[0]


def _rate(act: Done[OptimizerAct] | Done[StepAct] | Done[ScheduleStepAct]) -> float | None:
    """The largest rate of its parameter groups."""
    return max((rate for rate in act.facts.lr if not math.isnan(rate)), default=None)
