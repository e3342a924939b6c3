"""The state of a node at a moment, in words: what it waits for, and from which nodes."""

from __future__ import annotations

from gradscope.analysis.state.node_at import NodeAt, Receiver, Sender, Stage
from gradscope.scene.moments import MomentWords
from gradscope.scene.readable import count, plural
from gradscope.trace.schema import NONE

FEW = 3
WORDS = {
    Stage.OUTSIDE: "not in this backward",
    Stage.WAITING: "waiting",
    Stage.READY: "ready, in the queue",
    Stage.TAKEN: "taken from the queue, not started",
    Stage.RUNNING: "running",
    Stage.DONE: "done",
    Stage.FAILED: "failed",
    Stage.SKIPPED: "not needed for inputs=",
}


def now(at: NodeAt, say: MomentWords) -> str:
    """As in "waiting: 1 of 3 gradients arrived; missing from MulBackward0, …"."""
    if at.task == NONE:
        return "no backward is running"
    said = WORDS[at.stage]
    if at.since != NONE:
        said += f", since moment {count(at.since)}"
    if at.stage is not Stage.WAITING:
        return said
    missing = [f"{say.node(each.node)} ({WORDS[each.stage]})" for each in at.missing[:FEW]]
    more = ", …" * (len(at.missing) > FEW)
    from_nodes = f"; missing from {', '.join(missing)}{more}" if missing else ""
    return f"{said}: {came(at)}{from_nodes}"


def came(at: NodeAt) -> str:
    """As in "1 of 3 gradients arrived"."""
    if at.count == NONE:
        return "how many gradients it waits for was not recorded"
    return f"{count(at.came)} of {plural(at.count, 'gradient')} arrived"


def hooks(at: NodeAt) -> str:
    """Hooks of the program on it: "clamp called at moment 12; log not called before moment 20"."""
    said = [
        f"{each.name} called at moment {count(each.moment)}" if each.called
        else f"{each.name} not called before moment {count(each.moment)}"
        for each in at.hooks
    ]  # fmt: skip
    return "; ".join(said)


def sender(each: Sender, say: MomentWords) -> str:
    """The node that sends a gradient, for which input, and whether it has arrived."""
    if each.sent != NONE:
        when = f"sent at moment {count(each.sent)}"
    else:
        when = f"not yet: {WORDS[each.stage]}" if each.stage is not Stage.DONE else "sent none"
    return f"{say.node(each.node)} for input {each.input_nr}, {when}"


def receiver(each: Receiver, say: MomentWords) -> str:
    if each.node == NONE:
        return f"output {each.index}: no edge, this gradient is not needed"
    return f"output {each.index}: {say.node(each.node)}, {WORDS[each.stage]}"
