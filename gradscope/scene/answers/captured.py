"""What was captured, fused and saved, and what was not, with its line: in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradscope.analysis.answers.captured import CaptureInfo, Lacking, PlanFacts, captured, whole_of
from gradscope.analysis.identity.sites import Site, at
from gradscope.scene.answers.answer import Answer, Topic, filled
from gradscope.scene.readable import byte_count, count, duration, plural
from gradscope.trace.schema import NONE, Lack
from gradscope.trace.trace import Trace

FEW_LABELS = 4
NONE_CAPTURED = (
    "No step was captured: gradscope.capture(step) or torch.compile(step) captures one, on "
    "gradscope's own engine."
)
SHARES = (
    "times of pieces were measured in each replay; inside a fused piece, calls and nodes have "
    "shares of its time, as they had them before, or when the step was recorded (inferred)"
)
WORDS = {
    Lack.REPLAYED: "not replayed",
    Lack.PIECE: "runs as ever, and what stands around it is replayed",
    Lack.FITTED: "recorded anew",
    Lack.FUSED: "not fused: the replay differs in",
    Lack.TOLD: "not replayed while recorded",
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
        Topic("not captured, or recorded anew", tuple(_lacks(steps))),
        Topic("plans", tuple(_plans(steps))),
        Topic("fused", tuple(_fused(steps))),
        Topic("what took longest in a replay", tuple(_slowest(steps))),
    )
    return Answer(title, tuple(_facts(steps)), sections, (SHARES,) if fused else (), steps)


def _name(step: CaptureInfo, steps: Sequence[CaptureInfo]) -> str:
    """A step by its name; a piece by the lines of the step it is made of."""
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
            as_ever = plural(step.as_ever, "call") + " as ever"
            replays = sum(plan.replays for plan in step.plans)
            told = f"{plural(replays, 'replay')}, {as_ever}{how}"
            yield _short(step.name), f"{told}{at(step.site)}"


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
        told.append(f"{duration(plan.replay_ns)} in the median{of}")
    if plan.eager_ns != NONE:
        when = "while it was recorded" if plan.watched else "before it was recorded"
        told.append(f"as ever {duration(plan.eager_ns)} when the two were compared, {when}")
    told.append(f"guards look at {plural(len(plan.guards), 'value')}")
    size = byte_count(sum(each.bytes for each in made))
    told.append(f"makes {plural(len(made), 'array')}, {size} together")
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
                took = f", {duration(now)}" if now != NONE else ""
                if before != NONE:
                    took = f", {duration(now)} where its calls took {duration(before)}"
                names = _labels(piece.labels)
                many = len(piece.labels)
                how = f"{plural(many, 'call')} as one" if many > 1 else "a kernel of its own"
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
