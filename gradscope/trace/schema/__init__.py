"""The declarations of everything in a trace, and the version of the format.

A table, a kind of event or a kind of act is a frozen dataclass (tables.py, events.py, acts.py and
others); an annotation says how its column is stored (declare.py). Everything else (codec, docs,
spec, property tests) reads these declarations, so a new column or kind is declared there and
nowhere else. This package exports all of them.
"""

from __future__ import annotations

from gradscope.trace.schema.acts import *  # noqa: F403
from gradscope.trace.schema.acts_of_data import *  # noqa: F403
from gradscope.trace.schema.acts_of_training import *  # noqa: F403
from gradscope.trace.schema.compiled import *  # noqa: F403
from gradscope.trace.schema.declare import *  # noqa: F403
from gradscope.trace.schema.device_times import *  # noqa: F403
from gradscope.trace.schema.events import *  # noqa: F403
from gradscope.trace.schema.plans import *  # noqa: F403
from gradscope.trace.schema.sharding import *  # noqa: F403
from gradscope.trace.schema.summaries import *  # noqa: F403
from gradscope.trace.schema.tables import *  # noqa: F403
from gradscope.trace.schema.unreached import *  # noqa: F403

VERSION = 1
"""Version that is written. A reader refuses a higher one: the meaning of something changed."""

MINOR = 19
"""Number of additions (tables, columns, event kinds). An older reader keeps them, unshown."""

HISTORY = {
    (1, 0): "first version",
    (1, 1): "hook_begin.module; single events of several threads in short tables",
    (
        1,
        2,
    ): "saved_unpacked, reentrant_enter.pool and storage.freed are written; spans of gradscope's "
    "own work; meta.follows_from; removed: storage.holder, value.histogram and meta.cost_ns, which "
    "were never written",
    (1, 3): "graph_task.order; short tables for runs of nodes in an engine observed from outside",
    (1, 4): "thread.rank",
    (1, 5): "graph_task.order marks tasks with other sums than predicted, graph_task.otherwise the "
    "first node that differs; version.old and version.new may be NONE; a short table for what was "
    "done with gradients in a run observed from outside",
    (1, 6): "spans of collectives",
    (1, 7): "hooks of optimizers",
    (1, 8): "act",
    (1, 9): "node.arguments",
    (1, 10): "node.died, unreached, alias",
    (1, 11): "captured steps: captured, missed, plan, plan_call, buffer, replay; module.name",
    (1, 12): "node.results",
    (1, 13): "source; act.facts was split into one table per kind, act.<kind>",
    (1, 14): "shard, gathered, replicated, process_group, collective; compilation, graph_break, "
    "region, region_kernel, region_op, node.region; runs of nodes on several threads "
    "(short.ran.thread)",
    (1, 15): "short.move.how 8; in graph tasks with other sums than predicted, only the events of "
    "buffers are missing",
    (1, 16): "bucket, work; collective.caller, bucket, holds, parameters",
    (1, 17): "passed, used, handle; collective.reduces, held_as, makes; calls that make groups of "
    "ranks; acts of data: split, sampler, loader, pass, batch, given, drew; came_in.taken; "
    "replicated.stack, searches, broadcasts",
    (
        1,
        18,
    ): "step_summary, parameter_summary; step.joined; meta.summary; rows of these tables and of "
    "step also after the limit of a file; act.node_check and recompute; "
    "meta.checked_nodes",
    (1, 19): "device_time; act.ran.found, act.truncated.whole; act.row_shares",
}

SINCE = {
    "act": (1, 8),
    "node.arguments": (1, 9),
    "node.died": (1, 10),
    "unreached": (1, 10),
    "alias": (1, 10),
    "node.results": (1, 12),
    "source": (1, 13),
    "shard": (1, 14),
    "gathered": (1, 14),
    "collective": (1, 14),
    "replicated": (1, 14),
    "process_group": (1, 14),
    "compilation": (1, 14),
    "graph_break": (1, 14),
    "region": (1, 14),
    "bucket": (1, 16),
    "work": (1, 16),
    "passed": (1, 17),
    "used": (1, 17),
    "handle": (1, 17),
    "collective.makes": (1, 17),
    "replicated.stack": (1, 17),
    "replicated.searches": (1, 17),
    "replicated.broadcasts": (1, 17),
    "step_summary": (1, 18),
    "parameter_summary": (1, 18),
    "device_time": (1, 19),
}
"""Tables and columns that earlier versions did not record: there, empty does not mean "none"."""

WRITTEN_LAST = frozenset({"source"})
"""Tables that are written when a recording ends: empty in a trace of a program that was killed."""

ALWAYS_WRITTEN = frozenset({"step", "step_summary", "parameter_summary"})
"""Tables whose rows are written after a file has reached its limit, too. They hold no text."""
