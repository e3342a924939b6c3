"""Rules about clipping: before the backward, after the step, or of scaled gradients."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from gradscope.analysis.findings import Certainty, Evidence, few_tensors
from gradscope.analysis.identity.sites import at
from gradscope.analysis.lookups import grouped
from gradscope.analysis.program.acts import Done, Optimizer
from gradscope.analysis.program.calls import Calls
from gradscope.analysis.program.loop import BY_HAND, Beat, Loop, LoopMoment, by_line
from gradscope.analysis.program.training import Training
from gradscope.analysis.rules.loop.words import called_on, evidence, line, often
from gradscope.analysis.rules.registry import Found, rule
from gradscope.trace.schema import (
    ClipAct,
    GraphTask,
    Node,
    Op,
    Place,
    ScaleAct,
    ScaledStepAct,
    UnscaleAct,
    Value,
)
from gradscope.trace.trace import Trace

LEAST_SCALE = 64.0
"""A loss that is multiplied by a power of two of at least this size counts as scaled."""


@rule("GS504", "clipped-at-the-wrong-time", reads=("accumulate", "act"), steps="each")
def clipped_at_the_wrong_time(trace: Trace) -> Iterator[Found]:
    """Gradients are clipped when there are none to clip: before the backward, or after the step.

    The step is that of an optimizer or, without one, the program's own update of parameters.

    Bad:
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            loss = model(torch.ones(3, 2)).pow(2).mean()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            loss.backward()
            optimizer.step()

    Good:
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            loss = model(torch.ones(3, 2)).pow(2).mean()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
    """
    loop = trace.once(Loop)
    clips: dict[int, list[tuple[LoopMoment, LoopMoment | None]]] = defaultdict(list)
    in_time: set[int] = set()
    for moments in map(loop.moments, loop.trained):
        for clip, other, timely in _clips(moments):
            if timely:
                in_time.add(clip.stack)
            clips[clip.stack].append((clip, other))
    for stack, several in clips.items():
        known = [pair for pair in several if pair[1] is not None]
        if stack not in in_time and len(known) > 1:
            yield _untimely(loop, known)
    yield from _of_nothing(loop)


def _of_nothing(loop: Loop) -> Iterator[Found]:
    """Clips that received no gradients at all each time, though a backward had produced some."""
    begins = [begin for begin, _ in loop.tasks.values()]
    training = loop.trace.once(Training)
    for acts in grouped(loop.acts.of(ClipAct), lambda act: act.stack).values():
        if begins and min(begins) < acts[0].t and len(acts) > 1:
            yield from _of_others(training, acts)
        empty = all(not act.tensors and act.facts.norm == 0 for act in acts)
        if not empty or len(acts) < 2 or not begins or min(begins) > acts[0].t:
            continue
        act, site = acts[0], loop.acts.site(acts[0])
        by = act.facts.by
        yield Found(
            message=f"{by}{at(site)} clips nothing: it received no parameters; it was probably "
            "passed an exhausted generator",
            site=site,
            evidence=(Evidence("act", act.id),),
            why=f"the norm was 0 in all {len(acts)} calls; `model.parameters()` is a generator, "
            "which can be iterated only once",
            fix="make a list once: `params = list(model.parameters())`",
            certainty=Certainty.INFERRED,
        )


def _of_others(training: Training, acts: list[Done[ClipAct]]) -> Iterator[Found]:
    """Clips of parameters that no backward reached, while others are trained."""
    given = set().union(*(act.tensors for act in acts))
    nothing = all(act.facts.norm == 0 for act in acts)
    if not given or not nothing or given & training.reached or not training.held:
        return
    act, site, by = acts[0], training.acts.site(acts[0]), acts[0].facts.by
    trained = training.held & training.reached
    yield Found(
        message=f"{by}{at(site)} clips nothing: no backward produces a gradient for "
        f"{training.named(given)}, which it received",
        site=site,
        evidence=(Evidence("act", act.id), *few_tensors(training.trace, given)),
        why=f"the norm was 0 in all {len(acts)} calls; gradients reach "
        f"{training.named(trained)}{training.told_apart(trained, given)}, and are not clipped",
        fix="pass the parameters of the model that is trained",
        certainty=Certainty.CERTAIN,
    )


def _clips(moments: list[LoopMoment]) -> Iterator[tuple[LoopMoment, LoopMoment | None, bool]]:
    """Each clip, the backward or step on whose wrong side it is, and whether it is in time."""
    last: LoopMoment | None = None  # backward, step or clearing
    for place, moment in enumerate(moments):
        if moment.beat is not Beat.CLIPPED:
            last = last if moment.beat in (Beat.UNSCALED, Beat.WRITTEN) else moment
        elif last is not None and last.beat is Beat.FILLED:
            yield moment, None, True
        elif last is not None and last.beat is Beat.STEPPED:
            yield moment, last, not _limits(moment)
        else:
            following = (each for each in moments[place:] if each.beat is Beat.FILLED)
            yield moment, next(following, None), not _limits(moment)


def _limits(clip: LoopMoment) -> bool:
    """Whether it clips, rather than only computing the norm."""
    return math.isfinite(_facts(clip).max)


def _facts(clip: LoopMoment) -> ClipAct:
    return clip.facts if isinstance(clip.facts, ClipAct) else ClipAct()


def _untimely(loop: Loop, found: list[tuple[LoopMoment, LoopMoment | None]]) -> Found:
    clip, other = found[0]
    assert other is not None
    site, beside = loop.site(clip), loop.site(other)
    name = _name(clip)
    if other.beat is Beat.STEPPED:
        after = [pair for pair in found if pair[1] is not None and pair[1].beat is Beat.STEPPED]
        side, why = "after the step", "the step has already used the unclipped gradients"
        fix = f"move {line(site, name)} before {line(beside, 'the step')}"
        found = after
    else:
        side, why = "before the backward", "there is no gradient yet, or that of an earlier step"
        fix = f"move {line(site, name)} after {line(beside, 'loss.backward()')}"
    return Found(
        message=f"clipped at the wrong time: {name}{at(site)} comes {side}{at(beside)}, "
        "so it limits nothing",
        site=site,
        evidence=evidence(clip, other),
        why=f"{why}; this was so in all {len(found)} calls",
        fix=fix,
    )


@rule("GS505", "not-unscaled", reads=("accumulate", "act"), steps="each")
def not_unscaled(trace: Trace) -> Iterator[Found]:
    """Gradients are clipped, or used by a step, while still scaled (GradScaler, or by hand).

    Before `scaler.unscale_(optimizer)` they are larger by the scale, and clipping with the intended
    limit shrinks them to almost nothing. A loss scaled by hand is recognized if gradients are
    divided after the clip. From level `values` on, it is also recognized if they are not.

    Bad:
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
        for _ in range(3):
            optimizer.zero_grad()
            scaler.scale(model(torch.ones(3, 2)).pow(2).mean()).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()

    Good:
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
        for _ in range(3):
            optimizer.zero_grad()
            scaler.scale(model(torch.ones(3, 2)).pow(2).mean()).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
    """
    loop = trace.once(Loop)
    scales = [act.t for act in loop.acts.of(ScaleAct)]
    for optimizer in loop.trained:
        if scales and optimizer.type != BY_HAND:  # the update itself may divide by the scale
            yield from _scaled_steps(loop, optimizer, scales)
        clips = list(_scaled_clips(loop, optimizer))
        if scales:
            scaled = [clip for fill, clip in clips if _was_scaled(loop, fill, scales)]
            for several in by_line(scaled).values():
                yield _scaled(loop, optimizer, several)
        elif clips:
            yield from _by_hand(loop, optimizer, clips)


def _scaled_steps(loop: Loop, optimizer: Optimizer, scales: list[int]) -> Iterator[Found]:
    """`optimizer.step()` where `scaler.step(optimizer)` was meant."""
    scaled = {act.t: act for act in loop.acts.of(ScaledStepAct) if act.of == optimizer.built.id}
    found: list[tuple[LoopMoment, LoopMoment]] = []
    if scaled or any(act.of == optimizer.built.id for act in loop.acts.of(UnscaleAct)):
        return
    for moments in loop.rounds(optimizer):
        fills = [each for each in moments if each.beat is Beat.FILLED]
        stepped = moments and moments[-1].beat is Beat.STEPPED
        unscaled = any(each.beat is Beat.WRITTEN for each in moments)  # by hand
        if stepped and fills and not unscaled and _was_scaled(loop, fills[-1], scales):
            found.append((fills[-1], moments[-1]))
    if found:
        fill, step = found[0]
        site = loop.site(step)
        name = called_on(site)
        yield Found(
            message=f"{optimizer.type} steps with gradients that are still scaled: {name}.step()"
            f"{at(site)} comes after scaler.scale(loss).backward(){at(loop.site(fill))}, and "
            "nothing unscales them",
            site=site,
            evidence=evidence(fill, step),
            why="the step is larger by the factor of the scale, and steps with Inf or NaN are not "
            f"skipped; {often(len(found), len(optimizer.steps), 'steps')}",
            fix=f"write `scaler.step({name})` instead of {line(site, 'optimizer.step()')}",
        )


def _scaled_clips(loop: Loop, optimizer: Optimizer) -> Iterator[tuple[LoopMoment, LoopMoment]]:
    """Clips of gradients that were not unscaled since the backward, which is named first."""
    fill: LoopMoment | None = None
    for moment in loop.moments(optimizer):
        if moment.beat is Beat.FILLED:
            fill = moment
        elif moment.beat is Beat.CLIPPED and fill is not None and _limits(moment):
            yield fill, moment
        elif moment.beat is not Beat.CLIPPED:
            fill = None


def _was_scaled(loop: Loop, fill: LoopMoment, scales: list[int]) -> bool:
    """Whether a scaler scaled the loss that this backward began from."""
    place = bisect_left(scales, fill.t)
    begins = sorted(begin for begin, _ in loop.tasks.values())
    before = bisect_left(begins, fill.t)
    earlier = begins[before - 1] if before else -1
    return place > 0 and scales[place - 1] > earlier


def _scaled(loop: Loop, optimizer: Optimizer, clips: list[LoopMoment]) -> Found:
    clip = clips[0]
    site = loop.site(clip)
    norm = _facts(clip).norm
    found = "" if math.isnan(norm) else f"; the norm was {norm:.4g}"
    return Found(
        message=f"gradients are clipped before they are unscaled: {_name(clip)}{at(site)} comes "
        "after scaler.scale(loss).backward() without scaler.unscale_(optimizer) in between",
        site=site,
        evidence=evidence(clip),
        why=f"{_limit(clip)} is compared with gradients that the scaler "
        f"multiplied by its scale, {often(len(clips), len(optimizer.steps), 'steps')}{found}",
        fix=f"write `scaler.unscale_(optimizer)` before {line(site, _name(clip))}",
    )


def _limit(clip: LoopMoment) -> str:
    most = _facts(clip).max
    return "its limit" if math.isnan(most) else f"the limit {most}"


def _name(clip: LoopMoment) -> str:
    return _facts(clip).by or "clip_grad_norm_"


def _by_hand(
    loop: Loop, optimizer: Optimizer, clips: list[tuple[LoopMoment, LoopMoment]]
) -> Iterator[Found]:
    """Clips of a loss that the program multiplied: the norm is that after the backward.

    Where values were not recorded: the program writes to gradients between clip and step.
    """
    scaled, after = [], _written_after(loop, optimizer)
    for fill, clip in clips[:64]:
        norm = _facts(clip).norm
        scale = _scale_of(loop.trace, fill.id)
        if scale and norm > 0:
            there = _norm_after(loop.trace, fill.id)
            if there and abs(norm / there - 1) < 0.01:
                scaled.append((clip, scale))
        elif not scale and clip.t in after and (scale := _factor(loop.trace, fill.id)):
            scaled.append((clip, scale))
    if not scaled or 2 * len(scaled) < len(clips):
        return
    clip, scale = scaled[0]
    site, norm = loop.site(clip), _facts(clip).norm
    yield Found(
        message=f"gradients are clipped before they are unscaled: {_name(clip)}{at(site)} receives "
        f"those of a loss that was multiplied by {scale:g}",
        site=site,
        evidence=evidence(clip),
        why=f"the norm, {0.0 if math.isnan(norm) else norm:.4g}, is "
        + ("the one before they are rescaled" if clip.t in after else "that after the backward")
        + f"; the limit is {_facts(clip).max}, so almost all of it is clipped away",
        fix=f"divide the gradients by {scale:g} before {line(site, _name(clip))}",
        certainty=Certainty.INFERRED,
    )


def _written_after(loop: Loop, optimizer: Optimizer) -> set[int]:
    """The times of clips after which gradients were written to, before the step."""
    found, waiting = set[int](), set[int]()
    for moment in loop.moments(optimizer):
        if moment.beat is Beat.CLIPPED:
            waiting.add(moment.t)
        elif moment.beat is Beat.WRITTEN:
            found |= waiting
        else:
            waiting.clear()
    return found


def _factor(trace: Trace, task: int) -> float:
    """The power of two by which a backward's root multiplies, as its node shows; 0: none."""
    calls, nodes = trace.once(Calls), trace.table(Node)
    roots = trace.table(GraphTask).row(task).roots
    if len(roots) != 1 or not nodes.has(roots[0]) or not calls.ops.has(nodes.row(roots[0]).op):
        return 0.0
    at_ = calls.ops.index(nodes.row(roots[0]).op)
    by = calls.given(at_).get("other")
    if calls.name(at_) != "mul" or not isinstance(by, int | float) or by < LEAST_SCALE:
        return 0.0
    return float(by) if math.log2(by).is_integer() else 0.0


def _scale_of(trace: Trace, task: int) -> float:
    """The power of two by which the last call before a backward multiplied; 0: none."""
    tasks, nodes, ops = trace.table(GraphTask), trace.table(Node), trace.table(Op)
    roots = tasks.row(task).roots
    if len(roots) != 1 or not nodes.has(roots[0]):
        return 0.0
    op = nodes.row(roots[0]).op
    if not ops.has(op) or not ops.row(op).name.startswith(("mul", "div")):
        return 0.0
    row = ops.row(op)
    made = _rms(trace, row.outputs[:1])
    given = _rms(trace, row.inputs[:1])
    if not given or not made:
        return 0.0
    power = round(math.log2(made / given))
    exact = abs(made / given / 2.0**power - 1) < 1e-4
    return 2.0**power if exact and 2.0**power >= LEAST_SCALE else 0.0


def _rms(trace: Trace, tensors: tuple[int, ...]) -> float:
    """The recorded value of the number that a call returned."""
    values = trace.table(Value)
    if not tensors:
        return 0.0
    made = (values["tensor"] == tensors[0]) & (values["place"] == Place.OP_OUTPUT)
    found = values["norm"][made]
    return float(found[0]) if len(found) and math.isfinite(found[0]) else 0.0


def _norm_after(trace: Trace, task: int) -> float:
    """The norm of all gradients together, after a backward."""
    values = trace.table(Value)
    of = (values["task"] == task) & (values["place"] == Place.GRAD)
    return float(np.sqrt(np.sum(values["norm"][of] ** 2)))
