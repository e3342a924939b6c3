"""Rules about optimizers whose steps have no effect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gradscope.analysis.findings import Certainty, Evidence
from gradscope.analysis.identity.leaves import leaf
from gradscope.analysis.identity.sites import at
from gradscope.analysis.program.acts import Done, Optimizer, found_gradients
from gradscope.analysis.program.loop import Beat, Loop, LoopMoment
from gradscope.analysis.program.training import Training
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.rules.training import explained, never_reached
from gradscope.analysis.source.statements import named_only
from gradscope.trace.schema import (
    NONE,
    CopiedAct,
    CutAct,
    RanAct,
    RequiresGradAct,
    StepAct,
)
from gradscope.trace.trace import Trace

GIVEN = (Beat.FILLED, Beat.WRITTEN)
"""Events by which a gradient gets into `.grad`."""


@rule("GS406", "nothing-to-step")
def nothing_to_step(trace: Trace) -> Iterator[Found]:
    """An optimizer steps, but no gradient reaches its parameters: they belong to another model.

    It also reports a model that was called but never had a backward.

    Bad:
        teacher, student = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(teacher.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            student(torch.ones(3, 2)).sum().backward()
            optimizer.step()

    Good:
        teacher, student = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            student(torch.ones(3, 2)).sum().backward()
            optimizer.step()
    """
    training, loop = trace.once(Training), trace.once(Loop)
    if not loop.tasks:
        yield from _without_backward(training)
    for optimizer in training.stepped:
        can = set(optimizer.tensors) & training.thawed - training.frozen
        if not can or not training.reached - training.roots:
            continue
        given = [each for each in loop.moments(optimizer) if each.beat in GIVEN]
        given = [each for each in given if each.t > optimizer.built.t]
        others = _others(loop, optimizer)
        if not given and _empty(optimizer) and len(others) >= min(len(optimizer.steps), 2):
            yield _of_nothing(training, optimizer, others)
        elif given:
            yield from _no_longer(training, loop, optimizer, given[-1])


def _without_backward(training: Training) -> Iterator[Found]:
    """Steps of a program that computes, and never calls backward."""
    ran = {act.module for act in training.acts.of(RanAct) if act.facts.grad}
    named = named_only(training.trace, "backward")
    for optimizer in training.stepped:
        computes = ran & {training.parameters.get(each, NONE) for each in optimizer.tensors}
        if computes and len(optimizer.steps) >= MANY and _empty(optimizer) and not named:
            step = optimizer.steps[0]
            yield Found(
                message=f"{optimizer.type}.step(){at(training.acts.site(step))} does nothing: "
                "backward() is never called, and every .grad is None",
                site=training.acts.site(step),
                evidence=(Evidence("act", step.id), Evidence("act", optimizer.built.id)),
                why=f"the model ran with gradients on, and {len(optimizer.steps)} steps were made, "
                "but no backward",
                fix="call `loss.backward()` before the step",
                certainty=Certainty.CERTAIN,
            )


MANY = 3
"""Least number of steps without a gradient: fewer may be a slip at the beginning."""


def _others(loop: Loop, optimizer: Optimizer) -> list[int]:
    """The backwards between the creation of an optimizer and its last step."""
    last = optimizer.steps[-1].t
    return [id for id, (t, _) in loop.tasks.items() if optimizer.built.t < t < last]


def _empty(optimizer: Optimizer) -> bool:
    return not any(map(found_gradients, optimizer.steps))


def _of_nothing(training: Training, optimizer: Optimizer, others: list[int]) -> Found:
    built = training.acts.site(optimizer.built)
    step = optimizer.steps[0]
    stepped = training.acts.site(step)
    many = len(optimizer.steps)
    elsewhere = training.reached - training.held - training.roots
    came = "reached none of its parameters"
    if elsewhere:
        came = f"reached {training.named(elsewhere)}, which no optimizer holds"
        came += training.told_apart(elsewhere, optimizer.tensors)
    copied = training.acts.of(CopiedAct)
    said = f"; a copy was made{at(training.acts.site(copied[0]))}" if copied else ""
    fix = "build the optimizer with the parameters of the model that is trained, after every copy "
    fix += "and replacement of it"
    missing = never_reached(training).intersection(optimizer.tensors)
    if not elsewhere and not copied and missing and missing == explained(training, missing):
        fix = "fix what GS401 reports: until then no gradient reaches this optimizer's parameters"
    begun_anew = _begun_anew(training, optimizer)
    cut = ""
    if begun_anew is not None:
        anew = training.acts.site(begun_anew)
        cut = f": {begun_anew.facts.by}{at(anew)} cuts off what is computed from them, and "
        cut += "turns it into new leaves"
        fix = f"keep the graph{at(anew)}: the loss must lead back to the optimizer's parameters"
    return Found(
        message=f"{optimizer.type}.step(){at(stepped)} does nothing: none of the "
        f"{len(optimizer.tensors)} parameters it was built with{at(built)} gets a gradient{cut}",
        site=built if begun_anew is None else training.acts.site(begun_anew),
        evidence=(Evidence("act", optimizer.built.id), Evidence("act", step.id)),
        why=f"in all {many} step{'s' if many > 1 else ''} every .grad was None; the "
        f"{len(others)} backward{'s' if len(others) > 1 else ''} in that time {came}{said}",
        fix=fix,
        certainty=Certainty.CERTAIN,
    )


def _begun_anew(training: Training, optimizer: Optimizer) -> Done[CutAct] | None:
    """A cut of a result of its tensors, on a line that makes a leaf of the cut tensor."""
    asked = {training.acts.place(act) for act in training.acts.of(RequiresGradAct) if act.facts.to}
    for act in training.acts.of(CutAct):
        of_its = act.task == NONE and set(optimizer.tensors) & set(act.tensors)
        cuts = of_its and act.facts.by in ("detach", "data")
        if cuts and training.acts.place(act) in asked:
            return act
    return None


def _no_longer(
    training: Training, loop: Loop, optimizer: Optimizer, last: LoopMoment
) -> Iterator[Found]:
    """Steps that found gradients at first and no longer do: the model was replaced."""
    idle = [step for step in optimizer.steps if step.t > last.t][1:]
    if len(idle) < 2 or any(map(found_gradients, idle)):
        return
    later = {id for id, (t, _) in loop.tasks.items() if t > last.t}
    reached = training.reached_in(later) - training.held
    if len(later) < 2 or not _are_alike(training, reached, set(optimizer.tensors)):
        return
    copied = [act for act in training.acts.of(CopiedAct) if act.t < idle[0].t]
    yield _copied(training, optimizer, idle, reached, copied[-1:])


def _are_alike(training: Training, some: set[int], others: set[int]) -> bool:
    """Whether tensors have the shapes of others, one for one."""
    shapes = [
        Counter(found.shape for each in of if (found := leaf(training.trace, each)) is not None)
        for of in (some, others)
    ]
    return bool(some) and shapes[0] == shapes[1]


def _copied(
    training: Training, optimizer: Optimizer, idle: list[Done[StepAct]], reached: set[int],
    copied: list[Done[CopiedAct]],
) -> Found:  # fmt: skip
    built = training.acts.site(optimizer.built)
    stepped = training.acts.site(idle[0])
    of = f": a copy, made{at(training.acts.site(copied[0]))}, is trained instead" if copied else ""
    return Found(
        message=f"{optimizer.type}.step(){at(stepped)} no longer does anything{of}, and the "
        f"{optimizer.type} built{at(built)} holds the earlier tensors",
        site=built,
        evidence=(
            Evidence("act", optimizer.built.id),
            Evidence("act", idle[0].id),
            *(Evidence("act", act.id) for act in copied),
        ),
        why=f"in its last {len(idle)} steps every .grad was None; the backwards reached "
        f"{training.named(reached)}, of the same shapes, which no optimizer holds",
        fix="load the saved weights into the model that the optimizer holds: "
        "`model.load_state_dict(best.state_dict())`; or build a new optimizer after the copy",
        certainty=Certainty.INFERRED,
    )
