"""Where a node is on its way at a moment, in words: what it waits for, and from whom."""

from __future__ import annotations

from gradscope.analysis.state.node_at import NodeAt, Receiver, Sender, Stage
from gradscope.scene.moments import MomentWords
from gradscope.scene.readable import count, plural
from gradscope.trace.schema import NONE

FEW = 3
WORDS = {
    Stage.OUTSIDE: "not in this backward",
    Stage.WAITING: "waits",
    Stage.READY: "ready, in the queue",
    Stage.TAKEN: "taken from the queue, not begun",
    Stage.RUNNING: "runs",
    Stage.DONE: "has run",
    Stage.FAILED: "has raised",
    Stage.SKIPPED: "not needed for what inputs= asks",
}


def now(at: NodeAt, say: MomentWords) -> str:
    """As in "waits: 1 of 3 gradients have come; to come from MulBackward0, …"."""
    if at.task == NONE:
        return "no backward is under way"
    said = WORDS[at.stage]
    if at.since != NONE:
        said += f", since moment {count(at.since)}"
    if at.stage is not Stage.WAITING:
        return said
    missing = [f"{say.node(each.node)} ({WORDS[each.stage]})" for each in at.missing[:FEW]]
    more = ", …" * (len(at.missing) > FEW)
    from_whom = f"; to come from {', '.join(missing)}{more}" if missing else ""
    return f"{said}: {came(at)}{from_whom}"


def came(at: NodeAt) -> str:
    """As in "1 of 3 gradients have come"."""
    if at.count == NONE:
        return "nobody counted for how many gradients it waits"
    verb = "has" if at.count == 1 else "have"
    return f"{count(at.came)} of {plural(at.count, 'gradient')} {verb} come"


def hooks(at: NodeAt) -> str:
    """Those of the program's that are called for it: "clamp at moment 12; log to come, at 20"."""
    said = [
        f"{each.name} at moment {count(each.moment)}" if each.called
        else f"{each.name} to come, at moment {count(each.moment)}"
        for each in at.hooks
    ]  # fmt: skip
    return "; ".join(said)


def sender(each: Sender, say: MomentWords) -> str:
    """Who sends a gradient, for which input, and whether it has come."""
    if each.sent != NONE:
        when = f"sent at moment {count(each.sent)}"
    else:
        when = f"not yet: {WORDS[each.stage]}" if each.stage is not Stage.DONE else "sent none"
    return f"{say.node(each.node)} for input {each.input_nr}, {when}"


def receiver(each: Receiver, say: MomentWords) -> str:
    if each.node == NONE:
        return f"output {each.index}: nobody, this gradient is not wanted"
    return f"output {each.index}: {say.node(each.node)}, {WORDS[each.stage]}"
