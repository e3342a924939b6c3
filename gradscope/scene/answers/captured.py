"""Captured steps in words: what was captured and fused, and what was not, with its line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradscope.analysis.answers.captured import CaptureInfo, Lacking, PlanFacts, captured, whole_of
from gradscope.analysis.identity.sites import Site, at, in_brackets
from gradscope.scene.answers.answer import Answer, Topic, filled
from gradscope.scene.readable import byte_count, count, duration, plural
from gradscope.trace.schema import NONE, Lack
from gradscope.trace.trace import Trace

FEW_LABELS = 4
NONE_CAPTURED = (
    "No step was captured. On gradscope's own engine, gradscope.capture(step) or "
    "torch.compile(step) captures one."
)
SHARES = (
    "times of pieces were measured in each replay; calls and nodes in a fused piece share its "
    "time in proportion to their times before fusion, or when the step was captured (inferred)"
)
WORDS = {
    Lack.REPLAYED: "not replayed",
    Lack.PIECE: "runs eagerly, and the code around it is replayed",
    Lack.FITTED: "captured again",
    Lack.FUSED: "not fused: the replay differs in",
    Lack.TOLD: "not replayed during a recording",
}


def captures(trace: Trace, _: str = "") -> Answer:
    steps = captured(trace)
    if not steps:
        return Answer(NONE_CAPTURED, data=steps)
    replays = sum(plan.replays for step in steps for plan in step.plans)
    wholes = [step for step in steps if step.whole == NONE]
    title = f"{plural(len(wholes), 'step')} captured, {plural(replays, 'replay')} recorded."
    fused = any(piece.fused for step in steps for plan in step.plans for piece in plan.pieces)
    sections = filled(
        Topic("not captured, or captured again", tuple(_lacks(steps))),
        Topic("plans", tuple(_plans(steps))),
        Topic("fused", tuple(_fused(steps))),
        Topic("slowest pieces of a replay", tuple(_slowest(steps))),
    )
    return Answer(title, tuple(_facts(steps)), sections, (SHARES,) if fused else (), steps)


def _name(step: CaptureInfo, steps: Sequence[CaptureInfo]) -> str:
    """The name of a step, or of a piece with the lines of the step it consists of."""
    if step.whole == NONE:
        return step.name
    whole = whole_of(step, steps)
    first, last = step.lines
    lines = f"line {first}" if first == last else f"lines {first} to {last}"
    return f"{whole.name}, {lines}"


def _facts(steps: Sequence[CaptureInfo]) -> Iterator[tuple[str, str]]:
    for step in steps:
        if step.whole == NONE:
            pieces = sum(each.whole == step.id for each in steps)
            how = f", in {plural(pieces, 'piece')}" if pieces else ""
            as_ever = plural(step.as_ever, "eager call")
            replays = sum(plan.replays for plan in step.plans)
            told = f"{plural(replays, 'replay')}, {as_ever}{how}"
            yield _short(step.name), f"{told}{in_brackets(step.site)}"


def _short(name: str) -> str:
    return name.rpartition("<locals>.")[2]


def _lacks(steps: Sequence[CaptureInfo]) -> Iterator[str]:
    for step in steps:
        for lack in step.lacks:
            yield f"{_lack(lack)} ({_name(step, steps)})"


def _lack(lack: Lacking) -> str:
    times = f", {lack.times} times" if lack.times > 1 else ""
    text = f": {lack.site.text}" if lack.site.text else ""
    if lack.kind is Lack.PIECE and lack.site.place:
        return f"{lack.site.place}{text}; {WORDS[lack.kind]}: {lack.reason}{times}"
    place = f"{at(lack.site)}{text}" if lack.site.place else ""
    joint = " " if lack.kind is Lack.FUSED else ": "
    return f"{WORDS[lack.kind]}{joint}{lack.reason}{times}{place}"


def _plans(steps: Sequence[CaptureInfo]) -> Iterator[str]:
    for step in steps:
        for plan in step.plans:
            if plan.pieces:
                yield f"{_name(step, steps)}: {_plan(plan)}"


def _plan(plan: PlanFacts) -> str:
    calls = sum(len(piece.labels) for piece in plan.pieces)
    kernels = sum(piece.fused for piece in plan.pieces)
    made = [each for each in plan.arrays.values() if each.role in {"made", "result"}]
    fused = f" in {count(len(plan.pieces))} pieces ({plural(kernels, 'fused kernel')})"
    told = [
        f"{plural(calls, 'call')} on arrays{fused if kernels else ''}",
        f"replayed {plural(plan.replays, 'time')}",
    ]
    if plan.replay_ns != NONE:
        of = f", {duration(plan.calls_ns)} of it in calls" if plan.calls_ns != NONE else ""
        told.append(f"median {duration(plan.replay_ns)}{of}")
    if plan.eager_ns != NONE:
        when = "during the recording" if plan.watched else "before the recording"
        told.append(f"{duration(plan.eager_ns)} eagerly, when the two were compared {when}")
    told.append(f"guards check {plural(len(plan.guards), 'value')}")
    size = byte_count(sum(each.bytes for each in made))
    told.append(f"creates {plural(len(made), 'array')}, {size} in total")
    return ", ".join(told)


def _fused(steps: Sequence[CaptureInfo]) -> Iterator[str]:
    for step in steps:
        for plan in step.plans:
            saved = iter(plan.saved_ns)
            for piece in plan.pieces:
                if not piece.fused:
                    continue
                before, now = next(saved, (NONE, piece.ns))
                lines = ", ".join(site.place for site in piece.sites if site.place)
                took = f": {duration(now)}" if now != NONE else ""
                if before != NONE:
                    took = f": {duration(now)} instead of {duration(before)}"
                names = _labels(piece.labels)
                many = len(piece.labels)
                how = f"{plural(many, 'call')} fused" if many > 1 else "1 call compiled"
                yield f"{how} ({names}) at {lines}{took}"


def _labels(labels: Sequence[str]) -> str:
    shown = list(dict.fromkeys(labels))
    more = f" and {plural(len(shown) - FEW_LABELS, 'other')}" if len(shown) > FEW_LABELS else ""
    return ", ".join(shown[:FEW_LABELS]) + more


def _slowest(steps: Sequence[CaptureInfo]) -> Iterator[str]:
    pieces = [
        (piece, plan)
        for step in steps
        for plan in step.plans
        for piece in plan.pieces
        if piece.ns != NONE
    ]
    for piece, plan in sorted(pieces, key=lambda pair: -pair[0].ns):
        share = f" ({piece.ns / plan.calls_ns:.0%})" if plan.calls_ns > 0 else ""
        name = _labels(piece.labels) + (" fused" if piece.fused else "")
        yield f"{duration(piece.ns)}{share} {name}{at(piece.site)}{_code(piece.site)}"


def _code(site: Site) -> str:
    return f": {site.text}" if site.text else ""
