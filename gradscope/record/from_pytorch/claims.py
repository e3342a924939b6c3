"""What a trace of PyTorch has observed, what it has inferred, and what nobody could see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from gradscope.record.from_pytorch.tasks import HOOKS
from gradscope.trace.schema import HookKind, Meta
from gradscope.trace.shortcomings import COMPILED

if TYPE_CHECKING:
    from gradscope.trace.writer import Writer

GRAPH = {
    "observed": [
        "device", "edge", "graph_task", "module", "node", "span", "step", "tensor", "thread",
    ],
    "inferred": ["node.topological_nr", "op", "op.inputs", "op.name"],
    "absent": [
        "op.end", "op.path", "op.why", "storage.freed", "value", "version",
        "graph_task.needed", "graph_task.captured", "node.arguments", "node.died", "unreached",
    ],
}  # fmt: skip
"""From walks over the graph: calls that made no node are not there, and how long calls took."""

ENGINE = {
    "observed": [
        "callback", "error", "hook_begin", "hook_end", "node.arguments", "node_begin", "node_end",
        "reentrant_enter", "reentrant_leave", "saved", "task_begin", "task_end",
    ],
    "inferred": [
        "accumulate", "buffer_added", "buffer_made", "capture", "decrement", "dependency", "pop",
        "error.node", "push", "graph_task.captured", "graph_task.needed", "saved.tensor",
        "saved.version", "saved_released", "skipped",
    ],
    "absent": [
        "accumulate.how", "buffer_added.in_place", "buffer_added.undefined",
        "buffer_made.undefined", "reentrant_enter.node",
        *(f"hook_begin.{kind.name}" for kind in HookKind if kind not in HOOKS.values()),
        "reentrant_enter.pool", "saved_unpacked", "wait", "wake",
    ],
}  # fmt: skip
"""Runs of nodes and hooks are seen; counts, queue and buffers are replayed from the graph.

`saved_unpacked` is absent: PyTorch tells nobody when a node reads what it keeps. It does not follow
from a run, either: a custom function reads what its code asks for, if it does, and a node that
raises has read only some; to tell of the others alone would let silence look like a fact.
"""

CALLS = {
    "observed": ["accumulate.how", "buffer_added.in_place", "op", "op.end", "op.name"],
    "inferred": ["act.came_in", "saved.version", "version"],
    "absent": ["version.OPTIMIZER"],
}
"""Where calls are seen as they happen: what is here is neither inferred nor absent then.

Which tensor a write is to, or a call has brought in, follows from its memory; an optimizer's writes
are told as its step.
"""

VALUES = {
    "observed": ["value"],
    "inferred": ["value.GRAD", "value.NODE_OUTPUT"],
    "absent": ["value.data"],
}
"""Where numbers are looked at.

What a node returned is seen where it arrives, and a gradient that is taken over as it is, where its
node takes it.
"""

ENDS = {"observed": ["node.died", "unreached"], "inferred": [], "absent": []}
"""Where nodes keep records of ours, which tell when they go."""

LARGE = 1 << 18
"""Storages of so many bytes and more are followed, from level `engine` on, where that is so."""

STORAGES = {"observed": [], "inferred": ["storage.freed"], "absent": []}
"""That one has gone is seen at the next end of a backward or step."""

OPERANDS = {"observed": [], "inferred": ["op.outputs", "tensor.op"], "absent": []}
"""Where it is seen where all lies that calls are given and return (level `full`).

Who that was, follows from the order of calls: identities.py.
"""


def claims(
    level: str,
    *,
    calls: bool = False,
    values: bool = False,
    operands: bool = False,
    ends: bool = False,
) -> dict[str, Any]:
    """The parts of `meta` that say so: tables, columns and event kinds by name."""
    parts = [GRAPH] if level == "graph" else [GRAPH, ENGINE]
    parts += [ENDS] if ends else []
    follows = ends and level != "graph"
    parts += [STORAGES] if follows else []
    parts += [CALLS] if calls else []
    parts += [VALUES] if values else []
    parts += [OPERANDS] if operands else []
    latest = {name: kind for part in parts for kind, names in part.items() for name in names}
    found = {kind: sorted(name for name, is_ in latest.items() if is_ == kind) for kind in GRAPH}
    return {**found, "follows_from": LARGE} if follows else found


def put_claims(writer: Writer, facts: dict[str, Any]) -> None:
    """The rows of these parts."""
    writer.block(Meta, {
        "key": [writer.intern(key) for key in facts],
        "value": [writer.intern(orjson.dumps(names).decode()) for names in facts.values()],
    })  # fmt: skip


MISSED = {
    "unknown": "results of calls that no backward came to for long",
    "lost": "numbers in tensors, of which more came at once than are kept",
    "unread": "numbers in tensors that are not plain ones on the CPU",
    "operands": "what calls were given and returned, of which more came at once than is kept",
    "unnamed": "calls that made nodes: their names follow from those of the nodes",
    "former": "nodes from before the recording began: what hooks they have is not known",
    "ends": "ends of nodes, of which more came at once than are kept",
    "compiled_steps": COMPILED,
    "compiled": "what runs inside regions of torch.compile: each is one node, "
    "CompiledFunctionBackward",
}
"""What may not be seen, in words."""


def missed(**many: int) -> dict[str, int]:
    """The same with how often, for `meta.unseen`."""
    return {MISSED[name]: times for name, times in many.items() if times}
