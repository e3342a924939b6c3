"""Rules about the order of zero_grad, backward and step."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from gradscope.analysis.findings import Certainty, Severity
from gradscope.analysis.identity.sites import at
from gradscope.analysis.program.acts import Optimizer
from gradscope.analysis.program.loop import Beat, Loop, LoopMoment, by_line, left_over
from gradscope.analysis.program.training import Training
from gradscope.analysis.rules.loop.by_hand import never_cleared
from gradscope.analysis.rules.loop.lost import thrown_away
from gradscope.analysis.rules.loop.words import called_on, evidence, line, often
from gradscope.analysis.rules.own_line import as_call
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.source.statements import named_only
from gradscope.trace.schema import GraphTask, RequiresGradAct
from gradscope.trace.trace import Trace

OTHERS = (Beat.CLEARED, Beat.WRITTEN)
"""Events after which gradients are no longer those of the backward."""


@rule("GS501", "gradients-add-up", reads=("accumulate.how", "act"), steps="each")
def gradients_add_up(trace: Trace) -> Iterator[Found]:
    """Gradients are added to those of earlier steps: they were not cleared (zero_grad).

    A backward adds to `.grad`. Gradients that an optimizer has used stay there until they are
    cleared, and count again in the next step. A backward may also leave gradients in the parameters
    of another optimizer; its own gradients are then added to these.

    Bad:
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            model(torch.ones(3, 2)).pow(2).mean().backward()
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
    told: set[int] = set()
    for optimizer in loop.in_use:
        for found, stack in _never_cleared(loop, optimizer):
            if stack not in told:
                told.add(stack)
                yield found
    yield from _of_another(loop)
    yield from never_cleared(trace, loop)


def _never_cleared(loop: Loop, optimizer: Optimizer) -> Iterator[tuple[Found, int]]:
    """Steps with gradients that an earlier step already used."""
    again: list[tuple[LoopMoment, LoopMoment]] = []
    chances, stale = 0, False
    for moments in loop.rounds(optimizer):
        if not moments or moments[-1].beat is not Beat.STEPPED:
            stale = stale and not any(each.beat in OTHERS for each in moments)
            continue
        fills = [each for each in moments if each.beat is Beat.FILLED]
        cleared = any(each.beat in OTHERS for each in moments)
        chances += bool(fills)
        if stale and fills and not cleared and 2 * fills[0].onto_old > fills[0].tensors:
            again.append((fills[0], moments[-1]))
        stale = bool(fills) or (stale and not cleared)
    if not again:
        return
    fill, step = again[0]
    site, stepped = loop.site(fill), loop.site(step)
    name, named = called_on(stepped), named_only(loop.trace, "zero_grad")
    clears = "missing" if named is None else f"named{at(named)}, but not called"
    some = [each for each in loop.moments(optimizer) if each.beat is Beat.CLEARED]
    never = "nothing clears them" if not some else f"they are cleared only{at(loop.site(some[0]))}"
    yield (
        Found(
            message=f"gradients add up: the backward{at(site)} adds to those that "
            f"{optimizer.type} already used{at(stepped)}; zero_grad is {clears}",
            site=site,
            evidence=evidence(fill, step),
            why=f"{never}, so a step uses the sum of all gradients so far; this was so "
            f"{often(len(again), max(chances - 1, 1), 'steps after the first')}",
            fix=f"write `{name}.zero_grad()` before {line(site, 'loss.backward()')}",
            severity=None if 2 * len(again) >= chances - 1 else Severity.NOTE,
            rewrite=None if named is None else as_call(named),
        ),
        fill.stack,
    )


def _of_another(loop: Loop) -> Iterator[Found]:
    """Gradients left by one optimizer's backward in parameters of another, which adds to them."""
    if len(loop.in_use) < 2:
        return
    steps = sorted((step.t, each.built.id) for each in loop.in_use for step in each.steps)
    fills = {
        each.built.id: {
            moment.id: moment for moment in loop.moments(each) if moment.beat is Beat.FILLED
        }
        for each in loop.in_use
    }
    for optimizer in loop.in_use:
        own, found, rounds = optimizer.built.id, [], 0
        for moments in loop.rounds(optimizer):
            if not moments or moments[-1].beat is not Beat.STEPPED:
                continue
            rounds += 1
            left = left_over(moments)
            if len(left) < 2:
                continue
            before, after = left[0], left[-1]
            other = next((of for t, of in steps if before.t < t < after.t and of != own), None)
            if other is None or before.id not in fills[other]:
                continue
            nearer = before.first < fills[other][before.id].first  # it is nearer to the loss
            if after.id not in fills[other] if nearer else _for_nothing(loop, other, before, after):
                found.append((before, after, moments[-1]))
        if found and 2 * len(found) >= rounds:
            yield _mixed(loop, optimizer, found, rounds)


def _for_nothing(loop: Loop, other: int, before: LoopMoment, after: LoopMoment) -> bool:
    """Whether a later backward passes through the tensors of another optimizer, which drops that.

    A generator's backward passes through the discriminator like this, whose gradients are cleared
    after it, or which is frozen during it. The discriminator got its own gradients before, from a
    backward that kept the graph, and what that left in the generator is of no use.
    """
    (optimizer,) = (each for each in loop.in_use if each.built.id == other)
    moments = loop.moments(optimizer)
    places = [place for place, each in enumerate(moments) if each.id == after.id]
    if not loop.trace.table(GraphTask).row(before.id).keep_graph:
        return False
    if not places:
        return _is_frozen(loop, optimizer, before, after)
    if moments[places[0]].beat is not Beat.FILLED:
        return False
    following = moments[places[0] + 1 : places[0] + 2]
    return not following or following[0].beat is Beat.CLEARED


def _is_frozen(loop: Loop, optimizer: Optimizer, before: LoopMoment, after: LoopMoment) -> bool:
    """Whether all tensors of an optimizer were frozen between two backwards."""
    acts = loop.acts.of(RequiresGradAct)
    first, last = (bisect_left(acts, each.t, key=lambda act: act.t) for each in (before, after))
    to = {tensor: act.facts.to for act in acts[first:last] for tensor in act.tensors}
    return all(to.get(tensor) is False for tensor in optimizer.tensors)


def _mixed(
    loop: Loop,
    optimizer: Optimizer,
    found: list[tuple[LoopMoment, LoopMoment, LoopMoment]],
    rounds: int,
) -> Found:
    before, after, step = found[0]
    site, stepped = loop.site(after), loop.site(step)
    return Found(
        message=f"gradients add up: the backward{at(site)} adds to gradients that the backward"
        f"{at(loop.site(before))}, for another optimizer, left in the parameters of "
        f"{optimizer.type}, which steps{at(stepped)}; zero_grad comes too early",
        site=site,
        evidence=evidence(before, after, step),
        why=f"another optimizer stepped between the two backwards, and these gradients "
        f"were not cleared there, {often(len(found), rounds, 'steps')}",
        fix=f"write `{called_on(stepped)}.zero_grad()` right before "
        f"{line(site, 'loss.backward()')}",
        certainty=Certainty.SUSPECTED,
    )


@rule("GS502", "cleared-too-early", reads=("accumulate", "act"), steps="each")
def cleared_too_early(trace: Trace) -> Iterator[Found]:
    """Gradients are cleared after the backward and before the step, which then does nothing.

    The rule also reports a zero_grad between two backwards of one step; that discards the first
    gradients.

    Bad:
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            model(torch.ones(3, 2)).pow(2).mean().backward()
            optimizer.zero_grad()
            optimizer.step()

    Good:
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(3, 2)).pow(2).mean().backward()
            optimizer.step()
    """
    loop, training = trace.once(Loop), trace.once(Training)
    for optimizer in loop.trained:
        yield from thrown_away(loop, optimizer)
        if not training.is_most_of_a_module(optimizer.tensors):
            continue
        rounds = [each for each in loop.rounds(optimizer) if _ends_in_step(each)]
        found = [last for each in rounds if (last := _cleared_last(each)) is not None]
        found = [each for each in found if not _of_another_round(loop, optimizer, *each)]
        if not found or 2 * len(found) < len(rounds) or not _has_fill(rounds[0]):
            continue
        for several in by_line([clear for _, clear, _ in found]).values():
            clear = several[0]
            fill, _, step = next(each for each in found if each[1] is clear)
            site, stepped = loop.site(clear), loop.site(step)
            yield Found(
                message=f"gradients are cleared too early: {_what(loop, clear)}{at(site)} comes "
                f"after the backward{at(loop.site(fill))} and before the step{at(stepped)}",
                site=site,
                evidence=evidence(fill, clear, step),
                why=f"{optimizer.type} found no gradients, or zeros, "
                f"{often(len(several), len(rounds), 'steps')}",
                fix=f"move {line(site, 'optimizer.zero_grad()')} before "
                f"{line(loop.site(fill), 'loss.backward()')}, or after "
                f"{line(stepped, 'optimizer.step()')}",
            )


def _of_another_round(
    loop: Loop, optimizer: Optimizer, fill: LoopMoment, clear: LoopMoment, step: LoopMoment
) -> bool:
    """Whether what was cleared belongs to another optimizer, and its own backward came later.

    That backward did not reach this optimizer, which other rules explain; nothing was too early.
    """
    others = [each for each in loop.in_use if each is not optimizer]
    stepped = any(fill.t < act.t < clear.t for each in others for act in each.steps)
    return stepped and any(clear.t < begin < step.t for begin, _ in loop.tasks.values())


def _what(loop: Loop, clear: LoopMoment) -> str:
    return "zero_grad" if "zero_grad" in loop.site(clear).text else "the clearing of gradients"


def _ends_in_step(moments: list[LoopMoment]) -> bool:
    return bool(moments) and moments[-1].beat is Beat.STEPPED


def _has_fill(moments: list[LoopMoment]) -> bool:
    return any(each.beat is Beat.FILLED for each in moments)


def _cleared_last(moments: list[LoopMoment]) -> tuple[LoopMoment, LoopMoment, LoopMoment] | None:
    """The last backward of an iteration, what cleared all of it, and the step, in this order."""
    fill: LoopMoment | None = None
    clear: LoopMoment | None = None
    cleared = 0
    for moment in moments:
        if moment.beat is Beat.FILLED:
            fill, clear, cleared = moment, None, 0
        elif moment.beat is Beat.CLEARED and fill is not None:
            clear, cleared = clear or moment, cleared + moment.tensors
        elif moment.replaces:
            fill, clear, cleared = None, None, 0
    if fill is None or clear is None or cleared < fill.tensors:
        return None
    return fill, clear, moments[-1]


@rule("GS503", "stepped-too-early", reads=("accumulate", "act"), steps="first")
def stepped_too_early(trace: Trace) -> Iterator[Found]:
    """An optimizer steps before the backward, whose gradients are cleared before the next step.

    Bad:
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            loss = model(torch.ones(3, 2)).pow(2).mean()
            optimizer.zero_grad()
            optimizer.step()
            loss.backward()

    Good:
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            loss = model(torch.ones(3, 2)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """
    loop, training = trace.once(Loop), trace.once(Training)
    for optimizer in loop.trained:
        rounds = [each for each in loop.rounds(optimizer) if _ends_in_step(each)]
        if len(rounds) < 2 or _has_fill(rounds[0]) or optimizer.built.facts.before:
            continue
        if not training.is_most_of_a_module(optimizer.tensors):
            continue
        found = [last for each in rounds[1:] if (last := _cleared_last(each)) is not None]
        if not found or 2 * len(found) < len(rounds) - 1:
            continue
        fill, clear, _ = found[0]
        step = rounds[0][-1]
        site, filled = loop.site(step), loop.site(fill)
        yield Found(
            message=f"{optimizer.type} steps too early: step{at(site)} comes before the backward"
            f"{at(filled)}, whose gradients are cleared{at(loop.site(clear))} before the next step",
            site=site,
            evidence=evidence(step, fill, clear),
            why=f"there was no gradient, or zeros, {often(len(found) + 1, len(rounds), 'steps')}",
            fix=f"move {line(filled, 'loss.backward()')} before {line(site, 'optimizer.step()')}",
        )
