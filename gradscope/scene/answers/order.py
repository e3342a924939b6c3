"""Why a node ran when it did, in words."""

from __future__ import annotations

from collections.abc import Iterator

from gradscope.analysis.answers.meant import node_meant
from gradscope.analysis.answers.order import Because, Brief, Other, Turn, Turns, turns_of
from gradscope.analysis.identity.leaves import ACCUMULATE_GRAD
from gradscope.analysis.identity.names import NodeNames, node_names
from gradscope.analysis.identity.sites import at, in_brackets
from gradscope.scene.answers.answer import Answer, Topic, filled
from gradscope.scene.answers.not_recorded import inferred, not_at_level
from gradscope.scene.readable import count, duration, ordinal, plural
from gradscope.trace.schema import NONE, Order
from gradscope.trace.trace import Trace

WHY_BEFORE = {
    Because.UNDER_WAY: "was under way when it became ready",
    Because.LEAF: "gathers a leaf's gradient, which goes before all others",
    Because.NEWER: "was made later in the forward pass (sequence number {}), which goes first",
    Because.DEEPER: "is of a backward inside this one, which goes first",
    Because.TIE: "counts as equal; the heap gave it out first",
    Because.OLDER: "was taken first, by another thread",
}
WHY_AFTER = {
    Because.OLDER: "was made earlier (sequence number {})",
    Because.TIE: "counts as equal; the heap gave this one out first",
    Because.NEWER: "was made later (sequence number {})",
}


def order(trace: Trace, wanted: str, task: int = NONE) -> Answer:
    """Of a node, by its id, a name that only it has, or a finding; first of all in this task."""
    turns = turns_of(trace, node_meant(trace, wanted), task)
    names = node_names(trace)
    notes = (
        *not_at_level(trace, "engine", "which nodes ran, and why then"),
        *(inferred(trace, "push", "counts, queue and why") if turns.first else ()),
    )
    title = f"{names.title(turns.node)}{at(turns.site)}"
    if turns.first is None:
        came = "came to" if turns.recorded else "is known to have come to"
        said = f"None of {plural(turns.backwards, 'backward')} {came} {title}."
        return Answer(said, tuple(_facts(turns, None)), (), notes, turns)
    first = turns.first
    before = tuple(_others(first.before, names, WHY_BEFORE))
    passed = tuple(_others(first.passed, names, WHY_AFTER))
    sections = filled(
        Topic("what it waited for", tuple(_arrivals(first, names))),
        Topic("what ran while it was ready, and why", before),
        Topic("what was ready, too, and came after it", passed),
        Topic("in other backwards", tuple(_in_short(each) for each in turns.others)),
    )
    return Answer(
        f"{title} {_said(first, names)}", tuple(_facts(turns, first)), sections, notes, turns
    )


def _said(turn: Turn, names: NodeNames) -> str:
    backward = f"backward {turn.backward}{at(turn.called)}"
    if turn.skipped:
        return f"was reached by {backward}, and not needed for what `inputs=` asked."
    if turn.position == NONE:
        return f"was counted in {backward}, and never ran there."
    ran = f"ran {ordinal(turn.position)} of {count(turn.of)} in {backward}"
    if turn.order is Order.OTHERWISE:
        return f"{ran}; the engine's rules foretell another order, so why is not known."
    if turn.root:
        ready = "the backward began there"
    elif turn.arrivals:
        last = turn.arrivals[-1]
        which = "its only gradient" if len(turn.arrivals) == 1 else "the last of its gradients"
        ready = f"it became ready when {names.title(last.node)} had sent {which}"
    else:
        return f"{ran}; what it waited for was not recorded."
    between = [each for each in turn.before if each.because is not Because.UNDER_WAY]
    if not between:
        return f"{ran}: {ready}, and then nothing went before it."
    went = "1 other node went" if len(between) == 1 else f"{count(len(between))} other nodes went"
    return f"{ran}: {ready}, and then {went} before it."


def _facts(turns: Turns, turn: Turn | None) -> Iterator[tuple[str, str]]:
    yield "node", str(turns.node)
    if turns.name == ACCUMULATE_GRAD:
        yield "priority", "highest: it gathers a leaf's gradient, and runs as soon as it is ready"
    else:
        yield "sequence number", f"{count(turns.sequence_nr)}: of what is ready, the highest runs"
    if turn is None:
        return
    if turn.needed != NONE:
        yield "waits for", plural(turn.needed, "gradient")
    if turn.ready != NONE:
        queued = f", was in queue {turn.queue} for {duration(turn.queued_ns)}"
        yield "ready", f"at {duration(turn.ready)}{queued}"


def _arrivals(turn: Turn, names: NodeNames) -> Iterator[str]:
    for each in turn.arrivals:
        ran = "" if each.position == NONE else f", {ordinal(each.position)} to run,"
        left = "the last" if not each.remaining else f"{count(each.remaining)} still to come"
        yield f"{names.title(each.node)}{in_brackets(each.site)}{ran} sent one: {left}"


def _others(others: tuple[Other, ...], names: NodeNames, why: dict[Because, str]) -> Iterator[str]:
    for each in others:
        reason = why.get(each.because, each.because.value).format(count(each.sequence_nr))
        yield f"{names.title(each.node)}{in_brackets(each.site)} {reason}"


def _in_short(turn: Brief) -> str:
    if turn.position == NONE:
        return f"backward {turn.backward}: did not run"
    queued = "" if turn.queued_ns == NONE else f", after {duration(turn.queued_ns)} in the queue"
    return f"backward {turn.backward}: ran {ordinal(turn.position)} of {count(turn.of)}{queued}"
