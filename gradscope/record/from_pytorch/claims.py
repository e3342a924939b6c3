"""What is observed in a trace of PyTorch, what is inferred, and what is not recorded."""

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
        "compilation", "device", "edge", "graph_break", "graph_task", "module", "node", "span",
        "step", "tensor", "thread",
    ],
    "inferred": ["node.topological_nr", "op", "op.inputs", "op.name", "region"],
    "absent": [
        "device_time", "op.end", "op.path", "op.why", "storage.freed", "value", "version",
        "graph_task.needed", "graph_task.captured", "node.arguments", "node.died", "unreached",
    ],
}  # fmt: skip
"""From traversals of the graph: calls without a node and durations of calls are not recorded."""

ENGINE = {
    "observed": [
        "callback", "device_time", "error", "hook_begin", "hook_end", "node.arguments",
        "node_begin", "node_end", "reentrant_enter", "reentrant_leave", "saved", "task_begin",
        "task_end",
    ],
    "inferred": [
        "accumulate", "buffer_added", "buffer_made", "capture", "decrement", "dependency", "pop",
        "error.node", "push", "graph_task.captured", "graph_task.needed", "saved.tensor",
        "saved.version", "saved_released", "skipped", "wait", "wake",
    ],
    "absent": [
        "accumulate.how", "buffer_added.in_place", "buffer_added.undefined",
        "buffer_made.undefined", "reentrant_enter.node",
        *(f"hook_begin.{kind.name}" for kind in HookKind if kind not in HOOKS.values()),
        "reentrant_enter.pool", "saved_unpacked",
    ],
}  # fmt: skip
"""Runs of nodes and hooks are observed; counts, queue and buffers are inferred from the graph.

`saved_unpacked` is absent: PyTorch does not report when a node reads what it has saved, and it does
not follow from a run: a custom Function reads what its code requests, and a node that raises has
read only a part. Recording only the other cases would suggest that these did not read anything.
"""

CALLS = {
    "observed": ["accumulate.how", "buffer_added.in_place", "op", "op.end", "op.name"],
    "inferred": ["act.came_in", "saved.version", "version"],
    "absent": ["version.OPTIMIZER"],
}
"""If calls are observed as they happen: these are then neither inferred nor absent.

The tensor that was written to, or that a call returned as input, is inferred from its memory.
Writes of an optimizer are recorded as its step.
"""

VALUES = {
    "observed": ["value"],
    "inferred": ["value.GRAD", "value.NODE_OUTPUT"],
    "absent": ["value.data", "device_time"],
}
"""If values are measured.

What a node returned is measured where it arrives. A gradient that is moved into `.grad` is measured
where its node receives it.
"""

LATER = {"observed": [], "inferred": ["value.OP_OUTPUT"], "absent": []}
"""Without observed calls, results are measured when a backward begins. A write that PyTorch does
not count (`x.data.mul_()`) may have changed them since.
"""

ENDS = {"observed": ["node.died", "unreached"], "inferred": [], "absent": []}
"""If nodes hold native records, which report when the nodes are released."""

HOOKED = {
    "observed": ["accumulate.how"],
    "inferred": ["buffer_added.in_place"],
    "absent": [],
}
"""If hooks on nodes show gradients before and after they are added (level `engine`)."""

PUBLIC_ENDS = {"observed": ["unreached"], "inferred": ["node.died"], "absent": []}
"""If the release of a node is known without its time: it came before the next recorded time."""

LARGE = 1 << 18
"""Smallest storage in bytes whose release is recorded, from level `engine` on."""

STORAGES = {"observed": [], "inferred": ["storage.freed"], "absent": []}
"""The release of a storage is noticed at the next end of a backward or step."""

OPERANDS = {"observed": [], "inferred": ["op.outputs", "tensor.op"], "absent": []}
"""If the memory of all arguments and results of calls is recorded (level `full`).

Which tensors they are is inferred from the order of calls: identities.py.
"""


def claims(
    level: str,
    *,
    calls: bool = False,
    values: bool = False,
    operands: bool = False,
    ends: bool = False,
    hooked: bool = False,
) -> dict[str, Any]:
    """The keys of `meta` that list observed, inferred and absent tables, columns and events."""
    parts = [GRAPH] if level == "graph" else [GRAPH, ENGINE]
    parts += [ENDS if ends else PUBLIC_ENDS]
    follows = level != "graph"
    parts += [STORAGES] if follows else []
    parts += [HOOKED] if hooked else []
    parts += [CALLS] if calls else []
    parts += [VALUES] if values else []
    parts += [LATER] if values and not calls else []
    parts += [OPERANDS] if operands else []
    latest = {name: kind for part in parts for kind, names in part.items() for name in names}
    found = {kind: sorted(name for name, is_ in latest.items() if is_ == kind) for kind in GRAPH}
    return {**found, "follows_from": LARGE} if follows else found


def put_claims(writer: Writer, facts: dict[str, Any]) -> None:
    """Write these facts as rows of `meta`."""
    writer.block(Meta, {
        "key": [writer.intern(key) for key in facts],
        "value": [writer.intern(orjson.dumps(names).decode()) for names in facts.values()],
    })  # fmt: skip


MISSED = {
    "unknown": "results of calls that no backward reached in time",
    "lost": "values of tensors, because the buffer was full",
    "late": "values of tensors on a device, which did not arrive before the recording ended",
    "unread": "values of tensors that are not plain CPU tensors",
    "operands": "arguments and results of calls, because the buffer was full",
    "unnamed": "calls that created nodes: their names are derived from those of the nodes",
    "former": "hooks of nodes that were created before the recording began",
    "ends": "releases of nodes, because the buffer was full",
    "compiled_steps": COMPILED,
    "compiled": "operations inside some regions of torch.compile (CompiledFunctionBackward): their "
    "compilation was not recorded, or PyTorch does not say which one it was",
    "graphs_unread": "operations inside regions of torch.compile, because the text of the graph "
    "could not be read",
}
"""What may not be recorded, in words."""


def missed(**many: int) -> dict[str, int]:
    """Texts about what may be missing, with their counts, for `meta.unseen`."""
    return {MISSED[name]: times for name, times in many.items() if times}
