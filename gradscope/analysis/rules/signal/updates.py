"""Rules about how far a step moves the parameters."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from gradscope.analysis.findings import Certainty, Evidence
from gradscope.analysis.identity.sites import at
from gradscope.analysis.program.acts import Acts, Done, Optimizer
from gradscope.analysis.program.numbers import TensorNumbers, losses_of, rises
from gradscope.analysis.rules.loop.schedules import factors_of
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.rules.signal.rounding import LostUpdates
from gradscope.trace.schema import ActFacts, ScheduleAct, StatementAct, StepAct, Tensor
from gradscope.trace.trace import Table, Trace

TOO_SMALL, TOO_LARGE = 1e-8, 1.0
"""Limits of update / parameter. SageMaker Debugger's `weight_update_ratio` has 1e-8 and 10, for
single elements; here it is the whole parameter, and the loss must also rise."""
SMALL_RATE = 1e-5
"""With a larger rate, it is the gradient that is small."""
NORMED = {"Adam", "AdamW", "NAdam", "RAdam", "Adamax", "RMSprop", "Lion", "Adagrad"}
"""Optimizers whose first step moves each element by the learning rate, whatever its gradient."""


SEEN = "seen in the weights before and after the first step"
WORKED_OUT = "computed from the learning rate, gradients and weights of the first step"


@dataclass(frozen=True, slots=True)
class _Moves:
    """How far an optimizer's first steps go, relative to what they move."""

    optimizer: Optimizer
    step: Done[ActFacts]
    rates: list[float]  # the highest learning rate of each step
    ratios: list[float]  # of each matrix that has a gradient
    seen: bool  # recorded before and after the step; else computed
    worked_out: list[float]  # as computed: RMSprop's first step goes ten times as far as others


@rule("GS805", "update-ratio", fully="values", reads=("act", "tensor"))
def update_ratio(trace: Trace) -> Iterator[Found]:
    """The learning rate is far too small, or far too large, for the parameters.

    The ratio is the size of a step divided by the size of the weights. Below 1e-8 the step is lost
    in rounding. Near 1 it overwrites the weights, and the loss rises. About 1e-3 is usual.

    Bad:
        w = torch.full((2, 2), 0.5, requires_grad=True)
        optimizer = torch.optim.Adam([w], lr=1e-10)
        for _ in range(2):
            optimizer.zero_grad()
            (w * w).sum().backward()
            optimizer.step()

    Good:
        w = torch.full((2, 2), 0.5, requires_grad=True)
        optimizer = torch.optim.Adam([w], lr=1e-3)
        for _ in range(2):
            optimizer.zero_grad()
            (w * w).sum().backward()
            optimizer.step()
    """
    acts, numbers = trace.once(Acts), trace.once(TensorNumbers)
    losses, rounded = losses_of(trace), trace.once(LostUpdates).optimizers
    for moves in _moves(trace, acts, numbers):
        ratio, lr, highest = float(np.median(moves.ratios)), moves.rates[0], max(moves.rates)
        if highest == 0.0 and len(moves.rates) > 1:
            factor = _factor(acts, moves.optimizer)
            by = f", from the value returned{at(acts.site(factor))}" if factor else ""
            found = _found(
                acts, moves, f"the learning rate is 0 in all {len(moves.optimizer.steps)} steps"
                f"{by}: nothing changes", "",
                f"check what the schedule{_scheduled(acts, moves.optimizer)} computes: `//` and "
                "int() turn a fraction into 0",
            )  # fmt: skip
            yield found if factor is None else replace(found, site=acts.site(factor))
        elif moves.optimizer.built.id in rounded:
            continue  # GS807
        elif max(moves.ratios) < TOO_SMALL and 0 < highest <= min(lr, SMALL_RATE):
            yield _found(
                acts, moves, f"learning rate {lr:g} is far too small: a step changes weights "
                f"by {ratio:.1g} of their size", "float32 rounds away changes below 6e-8 of a "
                "value; ", "raise the learning rate by powers of ten",
            )  # fmt: skip
        elif _is_too_large(ratio, moves) and rises(losses):
            yield _found(
                acts, moves, f"learning rate {lr:g} is far too large: a step changes weights "
                f"by {ratio:.2g} times their size, and the loss rises",
                f"the loss went from {losses[0]:.3g} to {losses[-1]:.3g}; ",
                "lower the learning rate by powers of ten; if columns of the data differ much in "
                "size, normalize them",
            )  # fmt: skip


def _scheduled(acts: Acts, optimizer: Optimizer) -> str:
    """As in ", LambdaLR at train.py:12,"; "" without a scheduler."""
    for act in acts.of(ScheduleAct):
        if act.of == optimizer.built.id:
            return f", {act.facts.type}{at(acts.site(act))},"
    return ""


def _factor(acts: Acts, optimizer: Optimizer) -> Done[StatementAct] | None:
    """Where the function returns that gives the factor of the learning rate."""
    built = (act for act in acts.of(ScheduleAct) if act.of == optimizer.built.id)
    return next((each for act in built for each in factors_of(acts, act)), None)


def _is_too_large(ratio: float, moves: _Moves) -> bool:
    """Whether an ordinary step is too large as well, not only the first one."""
    return bool(moves.worked_out) and min(ratio, np.median(moves.worked_out)) > TOO_LARGE


def _rates(optimizer: Optimizer) -> list[float]:
    """The highest learning rate of each step; empty if one is not a number, as in Adafactor."""
    every = [step.facts.lr for step in optimizer.steps]
    known = all(rates and not any(map(math.isnan, rates)) for rates in every)
    return [max(rates) for rates in every] if known else []


def _found(acts: Acts, moves: _Moves, message: str, why: str, fix: str) -> Found:
    built, step = acts.site(moves.optimizer.built), acts.site(moves.step)
    of = f"{moves.optimizer.type}, built at {built}" if built.place else moves.optimizer.type
    return Found(
        message=f"Update ratio of {of}: {message} (step at {step})",
        site=built if built.place else step,
        evidence=(Evidence("act", moves.optimizer.built.id), Evidence("act", moves.step.id)),
        why=f"{why}{SEEN if moves.seen else WORKED_OUT} ({len(moves.ratios)} weight matrices)",
        fix=fix,
        certainty=Certainty.CERTAIN if moves.seen else Certainty.INFERRED,
    )


def _moves(trace: Trace, acts: Acts, numbers: TensorNumbers) -> Iterator[_Moves]:
    weights = {id: start.rms for id, start in numbers.begins.items()}
    grads = {each.tensor: float(each.rms[0]) for each in numbers.gradients}
    tensors = trace.table(Tensor)
    for optimizer in acts.optimizers:
        if rates := _rates(optimizer):
            step = optimizer.steps[0]
            seen = _seen(tensors, optimizer, step)
            worked_out = _worked_out(tensors, optimizer, (weights, grads))
            if seen or worked_out:
                yield _Moves(optimizer, step, rates, seen or worked_out, bool(seen), worked_out)


def _worked_out(
    tensors: Table[Tensor],
    optimizer: Optimizer,
    sizes: tuple[Mapping[int, float], Mapping[int, float]],
) -> list[float]:
    """How far the first step should move each matrix, from the size of weights and gradients."""
    normed, (weights, grads) = optimizer.type in NORMED, sizes
    rates, sizes_of = optimizer.steps[0].facts.lr, optimizer.built.facts.many
    plain = len(sizes_of) == len(rates) and not any(map(math.isnan, rates))
    if not plain or not (normed or optimizer.type == "SGD"):
        return []
    of_tensor = np.repeat(rates, sizes_of)
    ratios = []
    for tensor, rate in zip(optimizer.built.tensors, of_tensor.tolist(), strict=False):
        if not tensors.has(tensor) or len(tensors.ragged("shape")[tensors.index(tensor)]) < 2:
            continue
        weight, grad = weights.get(tensor, 0.0), grads.get(tensor, 0.0)
        if weight > 0 and grad > 0:
            ratios.append(rate * (1.0 if normed else grad) / weight)
    return ratios


def _seen(tensors: Table[Tensor], optimizer: Optimizer, step: Done[StepAct]) -> list[float]:
    """How far the first step moved each matrix, relative to its size, where that was recorded."""
    found = []
    moved, size = step.facts.moved, step.facts.size
    for tensor, by, of in zip(optimizer.tensors, moved, size, strict=False):
        known = not math.isnan(by) and of > 0 and tensors.has(tensor)
        if known and len(tensors.ragged("shape")[tensors.index(tensor)]) > 1:
            found.append(by / of)
    return found
