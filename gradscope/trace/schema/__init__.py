"""What a trace holds: the one door to all that is declared about it, and its version.

A table, a kind of event or a kind of act is a frozen dataclass (tables.py, events.py, acts.py and
others); an annotation says how its column is stored (declare.py). Everything else (codec, docs,
spec, property tests) reads these declarations, so a new column or kind is declared there and
nowhere else: what is declared there has its name here, too.
"""

from __future__ import annotations

from gradscope.trace.schema.acts import *  # noqa: F403
from gradscope.trace.schema.acts_of_training import *  # noqa: F403
from gradscope.trace.schema.declare import *  # noqa: F403
from gradscope.trace.schema.events import *  # noqa: F403
from gradscope.trace.schema.plans import *  # noqa: F403
from gradscope.trace.schema.tables import *  # noqa: F403
from gradscope.trace.schema.unreached import *  # noqa: F403

VERSION = 1
"""What this gradscope writes. A reader refuses a higher one: the meaning of something changed."""

MINOR = 13
"""Counts additions (tables, columns, event kinds); an older reader keeps but does not show them."""

HISTORY = {
    (1, 0): "first version",
    (1, 1): "hook_begin.module; in short, single events of several threads",
    (
        1,
        2,
    ): "saved_unpacked, reentrant_enter.pool and storage.freed are written; spans of gradscope's "
    "own work; meta.follows_from; without storage.holder, value.histogram and meta.cost_ns, which "
    "nobody wrote",
    (1, 3): "graph_task.order; in short, runs of nodes that were seen from outside",
    (1, 4): "thread.rank",
    (1, 5): "graph_task.order says where sums differ, graph_task.otherwise where nodes do; "
    "version.old and new may be NONE; in short, what was done with gradients in a run that was "
    "seen from outside",
    (1, 6): "spans of collectives",
    (1, 7): "hooks of optimizers",
    (1, 8): "act",
    (1, 9): "node.arguments",
    (1, 10): "node.died, unreached, alias",
    (1, 11): "captured steps: captured, missed, plan, plan_call, buffer, replay; module.name",
    (1, 12): "node.results",
    (1, 13): "source; act.facts became tables of their own, act.<kind>",
}

SINCE = {
    "act": (1, 8),
    "node.arguments": (1, 9),
    "node.died": (1, 10),
    "unreached": (1, 10),
    "alias": (1, 10),
    "node.results": (1, 12),
    "source": (1, 13),
}
"""What nobody looked at in traces of earlier versions, where empty would mean: none."""

WRITTEN_LAST = frozenset({"source"})
"""Tables that are written as a recording ends: empty in a trace of a program that was killed."""
