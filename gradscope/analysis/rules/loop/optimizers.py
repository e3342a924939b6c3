"""Rules about optimizers that are built repeatedly, and about what still refers to old ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from gradscope.analysis.findings import Certainty, Evidence
from gradscope.analysis.identity.sites import at
from gradscope.analysis.lookups import grouped
from gradscope.analysis.program.acts import Done, Optimizer
from gradscope.analysis.program.loop import Beat, Loop, LoopMoment
from gradscope.analysis.rules.loop.words import called_on, evidence, line, often
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.rules.trained.no_slope import following_nodes
from gradscope.trace.schema import (
    NONE,
    DataSetAct,
    DataWrittenAct,
    FilledAct,
    GraphTask,
    LoadedAct,
    Node,
    ScaledStepAct,
    ScheduleAct,
    ScheduleStepAct,
)
from gradscope.trace.trace import Trace

AGAIN = 3
"""How often one must be built on a line, for the same parameters, to be reported."""

WITHOUT_STATE = frozenset(("SGD", "LBFGS"))
"""Optimizers without state between steps (SGD without momentum), or used only for a while."""


@rule("GS510", "optimizer-rebuilt", reads=("act",), steps="each")
def optimizer_rebuilt(trace: Trace) -> Iterator[Found]:
    """An optimizer is rebuilt during training: its state is lost.

    Adam's averages and momentum start from zero again, and so does a schedule's learning rate. It
    does not report separate trainings: other parameters, reloaded weights, or other settings.

    Bad:
        model = torch.nn.Linear(2, 1)
        for _ in range(4):
            optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
            optimizer.zero_grad()
            model(torch.ones(3, 2)).pow(2).mean().backward()
            optimizer.step()

    Good:
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for _ in range(4):
            optimizer.zero_grad()
            model(torch.ones(3, 2)).pow(2).mean().backward()
            optimizer.step()
    """
    loop = trace.once(Loop)
    alike: dict[tuple[object, ...], list[Optimizer]] = defaultdict(list)
    for each in loop.in_use:
        if each.steps and each.built.stack != NONE and _remembers(each):
            facts = each.built.facts
            settings = facts.lr, facts.weight_decay, facts.momentum, facts.many
            alike[each.built.stack, each.type, each.tensors, settings].append(each)
    for several in alike.values():
        if len(several) >= AGAIN and not _begins_anew(loop, several):
            yield _rebuilt(loop, several)


def _remembers(optimizer: Optimizer) -> bool:
    if optimizer.type == "SGD":
        return any(each > 0 for each in optimizer.built.facts.momentum)
    return optimizer.type not in WITHOUT_STATE and not optimizer.built.facts.before


def _begins_anew(loop: Loop, several: list[Optimizer]) -> bool:
    """Whether each trains other weights than the one before left, or others train in between."""
    first, last = several[0].built.t, several[-1].built.t
    tensors, own = set(several[0].tensors), {each.built.id for each in several}
    set_anew = (LoadedAct, DataSetAct, DataWrittenAct, FilledAct)
    if any(first < act.t < last for act in loop.acts.of(*set_anew)):
        return True
    return any(
        first < step.t < last
        for each in loop.in_use
        if each.built.id not in own and not tensors.isdisjoint(each.tensors)
        for step in each.steps
    )


def _rebuilt(loop: Loop, several: list[Optimizer]) -> Found:
    one = several[0]
    site, outer = loop.acts.site(one.built), loop.acts.called(one.built)
    most = max(len(each.steps) for each in several)
    steps = "one step" if most == 1 else f"at most {most} steps"
    return Found(
        message=f"{one.type} is built repeatedly: {len(several)} times{at(site)}{outer} for "
        f"the same parameters, each for {steps}",
        site=site,
        evidence=(Evidence("act", one.built.id), Evidence("act", several[-1].built.id)),
        why="a new optimizer starts without the averages and the momentum of the one before, so "
        "they are never more than a few steps old; schedules and settings start over as well",
        fix=f"move {line(site, 'optimizer = …')} before the loop, and pass the optimizer on",
        certainty=Certainty.INFERRED,
    )


@rule("GS516", "schedule-without-effect", reads=("act",), steps="each")
def schedule_without_effect(trace: Trace) -> Iterator[Found]:
    """A schedule changes an optimizer that no longer steps, while another one trains instead.

    A schedule changes the learning rate of the optimizer that it was built with. Where a second
    optimizer takes over, it needs a schedule of its own. A schedule that is rebuilt before each of
    its steps has no effect either.

    Bad:
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD([model.weight], lr=0.1)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(3, 2)).pow(2).mean().backward()
            optimizer.step()
            schedule.step()

    Good:
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(3, 2)).pow(2).mean().backward()
            optimizer.step()
            schedule.step()
    """
    loop = trace.once(Loop)
    stepped = grouped(loop.acts.of(ScheduleStepAct), lambda act: act.of)
    yield from _begun_anew(loop, stepped)
    for old in loop.acts.optimizers:
        last = old.steps[-1].t if old.steps else -1
        steps = stepped.get(old.built.id, [])
        if len(steps) < LATE or old.built.facts.before:
            continue
        for new in loop.in_use:
            if (
                new.steps
                and new.built.t > old.built.t
                and not set(new.tensors).isdisjoint(old.tensors)
            ):
                since = max(last, new.steps[0].t)
                idle = [act for act in steps if act.t > since]
                if len(idle) >= LATE and new.steps[-1].t > idle[0].t:
                    yield _of_an_old_one(loop, old, new, idle)
                    break


def _begun_anew(loop: Loop, stepped: Mapping[int, list[Done[ScheduleStepAct]]]) -> Iterator[Found]:
    """Schedules that are built repeatedly on one line, each getting only to its first step."""
    several = grouped(loop.acts.of(ScheduleAct), lambda act: (act.stack, act.of))
    for (_, of), made in several.items():
        ends = [*(act.t for act in made[1:]), LAST]
        times = [
            sum(act.t < step.t < end for step in stepped.get(of, ()))
            for act, end in zip(made, ends, strict=True)
        ]
        steps = (each.steps for each in loop.in_use if each.built.id == of)
        trained = any(step.t > made[0].t for each in steps for step in each)
        if len(made) < ANEW or max(times) > 1 or sum(times) < len(made) - 1 or not trained:
            continue
        site, outer = loop.acts.site(made[0]), loop.acts.called(made[0])
        yield Found(
            message=f"{made[0].facts.type}{at(site)}{outer} is built {len(made)} times, each time "
            "before its first step: it never gets further",
            site=site,
            evidence=(Evidence("act", made[0].id), Evidence("act", made[-1].id)),
            why="a schedule counts its own steps, and a new one starts at 0; none of these took a "
            "second step",
            fix=f"move {line(site, 'scheduler = …')} before the loop, and step that one",
        )


ANEW, LAST = 3, 1 << 62
"""How often a schedule must be built to be reported; a time after all others."""

LATE = 2
"""Least number of steps of a schedule that come too late: one may belong to the last epoch."""


def _of_an_old_one(
    loop: Loop, old: Optimizer, new: Optimizer, idle: list[Done[ScheduleStepAct]]
) -> Found:
    site, outer = loop.acts.site(idle[0]), loop.acts.called(idle[0])
    built = [act for act in loop.acts.of(ScheduleAct) if act.of == old.built.id]
    made = f" (built{at(loop.acts.site(built[0]))})" if built else ""
    kind, other = idle[0].facts.type, loop.acts.site(new.built)
    return Found(
        message=f"{kind}{made} has no effect: its step{at(site)}{outer} changes the learning rate "
        f"of the {old.type} built{at(loop.acts.site(old.built))}, and the {new.type} built"
        f"{at(other)} trains instead",
        site=site,
        evidence=(
            *(Evidence("act", act.id) for act in (idle[0], idle[-1])),
            Evidence("act", new.built.id),
        ),
        why=f"{len(idle)} of its steps came after the last step of its own optimizer; the "
        f"{new.type} keeps the learning rate that it was built with",
        fix=f"build a schedule for the new optimizer, after {line(other, 'optimizer = …')}",
        certainty=Certainty.INFERRED,
    )


@rule("GS509", "not-scaled", reads=("accumulate", "act"))
def not_scaled(trace: Trace) -> Iterator[Found]:
    """A GradScaler divides gradients by its scale although the loss was not multiplied by it.

    The backward must begin from the result of `scaler.scale(loss)`. Otherwise the gradients are too
    small by the factor of the scale, and nothing is learned.

    Bad:
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu")
        for _ in range(3):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(torch.ones(3, 2)), torch.ones(3, 1))
            scaled = scaler.scale(loss)
            loss.backward()
            scaler.step(optimizer)
            scaler.update()

    Good:
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu")
        for _ in range(3):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(torch.ones(3, 2)), torch.ones(3, 1))
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    """
    loop = trace.once(Loop)
    for optimizer in loop.in_use:
        scaled = [act for act in loop.acts.of(ScaledStepAct) if act.of == optimizer.built.id]
        if not scaled:
            continue
        fills = [each for each in loop.moments(optimizer) if each.beat is Beat.FILLED]
        plain = [each for each in fills[:MANY] if not _multiplied(trace, each)]
        if fills and len(plain) == len(fills[:MANY]):
            yield _divided(loop, optimizer, scaled, plain)


MANY = 100
"""Number of backwards that are checked: a loop repeats itself."""

HOPS = 3
"""How far from its root a product with the scale may be: losses may be scaled separately."""


def _multiplied(trace: Trace, fill: LoopMoment) -> bool:
    """Whether a product is near the root of a backward."""
    tasks, nodes = trace.table(GraphTask), trace.table(Node)
    following = trace.once(following_nodes)
    near = set(tasks.row(fill.id).roots)
    for _ in range(HOPS):
        near |= {after for node in near for after in following.get(node, ())}
    names = [nodes.row(each).name for each in near if nodes.has(each)]
    return not names or any(name.startswith("Mul") for name in names)


def _divided(
    loop: Loop, optimizer: Optimizer, scaled: list[Done[ScaledStepAct]], plain: list[LoopMoment]
) -> Found:  # fmt: skip
    fill, site, stepped = plain[0], loop.site(plain[0]), loop.acts.site(scaled[0])
    called = called_on(stepped)
    return Found(
        message=f"gradients are unscaled but were not scaled: the backward{at(site)} begins from "
        f"a loss without scaler.scale(…), and {called}.step{at(stepped)} divides by the scale",
        site=site,
        evidence=(*evidence(fill), Evidence("act", scaled[0].id)),
        why="no product with the scale is near the root of the backward, "
        f"{often(len(plain), len(plain), 'backwards')}; {optimizer.type} steps with gradients "
        "that are too small by the factor of the scale",
        fix=f"write `scaler.scale(loss).backward()` instead of {line(site, 'loss.backward()')}",
        certainty=Certainty.INFERRED,
    )
