"""Memory held by saved tensors, in words."""

from __future__ import annotations

from collections.abc import Iterator

from gradscope.analysis.answers.memory_use import ForNothing, HeldSpan, MemoryUse, Share, memory_use
from gradscope.analysis.identity.names import node_names
from gradscope.analysis.program.acts import Acts, Done
from gradscope.scene.answers.answer import Answer, Topic, filled
from gradscope.scene.answers.not_recorded import not_at_level
from gradscope.scene.readable import byte_count, count, duration, plural
from gradscope.trace.schema import NONE, KeptAct
from gradscope.trace.trace import Trace

FEW = 3
UNREACHED = (
    "not recorded: what PyTorch graphs saved that no backward reached, except for those that still "
    "exist at the end"
)
UNSEEN = "not recorded: what PyTorch graphs save that no backward reaches"


def memory(trace: Trace, _: str = "") -> Answer:
    use = memory_use(trace)
    notes = (
        *not_at_level(trace, "engine", "what nodes saved"),
        *_unseen(trace, use),
    )
    if not use.saved:
        return Answer("No saved tensor was recorded.", notes=notes, data=use)
    at_peak, by_module = (
        tuple(_line(each, use.peak) for each in shares) for shares in (use.lines, use.modules)
    )
    names = node_names(trace)
    let_go = tuple(
        f"{byte_count(each.bytes)} by {names.title(each.node)}"
        f"{f' ({each.site.place})' if each.site.place else ''}"
        for each in sorted(use.let_go, key=lambda each: -each.bytes)
    )
    sections = filled(
        Topic("names that held graphs of earlier steps", tuple(_kept(trace, a) for a in use.kept)),
        Topic("held at the peak, by line", at_peak),
        Topic("held at the peak, by module", by_module),
        Topic("by backward", tuple(_spans(use.spans))),
        Topic(f"released in backward {use.peak_backward}, largest first", let_go),
        Topic("released by no backward", tuple(_line(each, use.never_bytes) for each in use.never)),
        Topic("nodes that no backward reached, by line", tuple(map(_unused, use.for_nothing))),
    )
    return Answer(_title(use), tuple(_facts(trace, use)), sections, notes, use)


def _unseen(trace: Trace, use: MemoryUse) -> Iterator[str]:
    if trace.meta.get("producer") != "pytorch":
        return
    if not trace.sees("unreached"):
        yield from (UNSEEN,) if use.saved else ()
    elif any(each.unknown for each in use.for_nothing):
        yield UNREACHED


def _unused(line: ForNothing) -> str:
    text = f": {line.site.text}" if line.site.text else ""
    ends = ""
    if line.left != NONE:
        ends = f"; {count(line.left)} still alive at the end" if line.left else "; freed by the end"
    place = line.site.place or "an unknown line"
    return f"{plural(line.nodes, 'node')} at {place}{text}{ends}"


def _title(use: MemoryUse) -> str:
    peak = f"Saved tensors held at most {byte_count(use.peak)} at once"
    return f"{peak}: at {duration(use.peak_t)}{_whose(use)}."


def _whose(use: MemoryUse) -> str:
    for span in use.spans:
        if span.backward == use.peak_backward:
            place = f" at {span.called.place}" if span.called.place else ""
            return f", for backward {span.backward}{place}"
    return ", which no backward released" if use.peak_backward == NONE else ""


def _facts(trace: Trace, use: MemoryUse) -> Iterator[tuple[str, str]]:
    yield "saved values", count(use.saved)
    if use.parameters:
        yield "of the peak", f"{byte_count(use.parameters)} are parameters, which are needed anyway"
    if use.never:
        many = sum(each.storages for each in use.never)
        what = f"{byte_count(use.never_bytes)} in {plural(many, 'storage')}"
        seen = trace.sees("node.died")
        end = "still alive at the end" if seen else "not recorded as freed"
        yield "never released", f"{what}: released by no backward, {end}"
    else:
        yield "never released", "nothing: each value was released by a backward, or freed"


def _line(share: Share, whole: int) -> str:
    part = f" ({share.bytes / whole:.0%})" if whole else ""
    place = share.site.place or share.name or "outside of modules"
    text = f": {share.site.text}" if share.site.text else ""
    savers = ", ".join(
        f"{slot} of {node}" + f" ×{times}" * (times > 1) for node, slot, times in share.savers[:FEW]
    )
    more = f" and {plural(len(share.savers) - FEW, 'other')}" * (len(share.savers) > FEW)
    return f"{byte_count(share.bytes)}{part} {place}{text}; {savers}{more}"


def _spans(spans: tuple[HeldSpan, ...]) -> Iterator[str]:
    """A line for each run of backwards that held the same."""
    alike: list[list[HeldSpan]] = []
    for span in spans:
        pattern = (span.before, span.most, span.after, span.called.place)
        last = alike[-1][0] if alike else None
        if last and (last.before, last.most, last.after, last.called.place) == pattern:
            alike[-1].append(span)
        else:
            alike.append([span])
    for several in alike:
        first, last = several[0], several[-1]
        which = f"backward {first.backward}"
        if len(several) > 1:
            which = f"backwards {first.backward} to {last.backward}"
        place = f" at {first.called.place}" if first.called.place else ""
        most = f", peak {byte_count(first.most)}" if first.most > first.before else ""
        after = "did not end" if first.after == NONE else f"{byte_count(first.after)} after"
        yield f"{which}{place}: {byte_count(first.before)} before{most}, {after}"


def _kept(trace: Trace, act: Done[KeptAct]) -> str:
    facts, site = act.facts, trace.once(Acts).site(act)
    name = f".{facts.name}" if facts.attribute else facts.name
    container = f"the {facts.container} " if facts.container else ""
    place = f", stored at {site.place}" if site.place else ""
    many, steps = facts.many, facts.steps
    kept = f"{container}`{name}`: {plural(many, 'tensor')} with graphs of {steps} steps{place}"
    return f"{kept}; --who-holds {name}"
