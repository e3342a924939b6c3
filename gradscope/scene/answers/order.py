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
    Because.UNDER_WAY: "was already running when it became ready",
    Because.LEAF: "accumulates a leaf's gradient, which always runs first",
    Because.NEWER: "was created later in the forward pass (sequence number {}), so it runs first",
    Because.DEEPER: "belongs to a backward inside this one, which runs first",
    Because.TIE: "has the same priority; the heap returned it first",
    Because.OLDER: "was taken first by another thread",
}
WHY_AFTER = {
    Because.OLDER: "was created earlier (sequence number {})",
    Because.TIE: "has the same priority; the heap returned the other node first",
    Because.NEWER: "was created later (sequence number {})",
}


def order(trace: Trace, wanted: str, task: int = NONE) -> Answer:
    """Why a node ran when it did; the node by id, unique name or finding.

    `task`: the backward to explain in full.
    """
    turns = turns_of(trace, node_meant(trace, wanted), task)
    names = node_names(trace)
    notes = (
        *not_at_level(trace, "engine", "which nodes ran, and why in this order"),
        *(
            inferred(trace, "push", "counts of gradients, queues and reasons")
            if turns.first
            else ()
        ),
    )
    title = f"{names.title(turns.node)}{at(turns.site)}"
    if turns.first is None:
        came = "reached" if turns.recorded else "is known to have reached"
        said = f"None of {plural(turns.backwards, 'backward')} {came} {title}."
        return Answer(said, tuple(_facts(turns, None)), (), notes, turns)
    first = turns.first
    before = tuple(_others(first.before, names, WHY_BEFORE))
    passed = tuple(_others(first.passed, names, WHY_AFTER))
    sections = filled(
        Topic("what it waited for", tuple(_arrivals(first, names))),
        Topic("what ran while it was ready, and why", before),
        Topic("what was also ready, and ran after it", passed),
        Topic("in other backwards", tuple(_in_short(each) for each in turns.others)),
    )
    return Answer(
        f"{title} {_said(first, names)}", tuple(_facts(turns, first)), sections, notes, turns
    )


def _said(turn: Turn, names: NodeNames) -> str:
    backward = f"backward {turn.backward}{at(turn.called)}"
    if turn.skipped:
        return f"was reached by {backward}, but not needed for `inputs=`."
    if turn.position == NONE:
        return f"was reached by {backward}, but never ran."
    ran = f"ran {ordinal(turn.position)} of {count(turn.of)} in {backward}"
    if turn.order is Order.OTHERWISE:
        return f"{ran}; the engine's rules predict another order, so the reason is not known."
    if turn.root:
        ready = "the backward started there"
    elif turn.arrivals:
        last = turn.arrivals[-1]
        which = "the only gradient" if len(turn.arrivals) == 1 else "the last gradient"
        ready = f"it became ready when {names.title(last.node)} had sent {which} it needs"
    else:
        return f"{ran}; what it waited for was not recorded."
    between = [each for each in turn.before if each.because is not Because.UNDER_WAY]
    if not between:
        return f"{ran}: {ready}, and no other node ran before it."
    others = plural(len(between), "other node")
    return f"{ran}: {ready}, and then {others} ran before it."


def _facts(turns: Turns, turn: Turn | None) -> Iterator[tuple[str, str]]:
    yield "node", str(turns.node)
    if turns.name == ACCUMULATE_GRAD:
        yield (
            "priority",
            "highest: it accumulates a leaf's gradient, and runs as soon as it is ready",
        )
    else:
        yield (
            "sequence number",
            f"{count(turns.sequence_nr)}: of ready nodes, the highest number runs first",
        )
    if turn is None:
        return
    if turn.needed != NONE:
        yield "waits for", plural(turn.needed, "gradient")
    if turn.ready != NONE:
        queued = f", then in queue {turn.queue} for {duration(turn.queued_ns)}"
        yield "ready", f"at {duration(turn.ready)}{queued}"


def _arrivals(turn: Turn, names: NodeNames) -> Iterator[str]:
    for each in turn.arrivals:
        ran = "" if each.position == NONE else f", {ordinal(each.position)} to run,"
        left = "the last" if not each.remaining else f"{count(each.remaining)} still missing"
        yield f"{names.title(each.node)}{in_brackets(each.site)}{ran} sent a gradient: {left}"


def _others(others: tuple[Other, ...], names: NodeNames, why: dict[Because, str]) -> Iterator[str]:
    for each in others:
        reason = why.get(each.because, each.because.value).format(count(each.sequence_nr))
        yield f"{names.title(each.node)}{in_brackets(each.site)} {reason}"


def _in_short(turn: Brief) -> str:
    if turn.position == NONE:
        return f"backward {turn.backward}: did not run"
    queued = "" if turn.queued_ns == NONE else f", after {duration(turn.queued_ns)} in the queue"
    return f"backward {turn.backward}: ran {ordinal(turn.position)} of {count(turn.of)}{queued}"
