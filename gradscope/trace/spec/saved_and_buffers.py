"""Rules about values: saved, summed, accumulated, written in place and measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gradscope.trace.schema.declare import NONE
from gradscope.trace.schema.events import (
    Accumulate,
    Accumulation,
    BufferAdded,
    BufferMade,
    NodeBegin,
    SavedReleased,
    SavedUnpacked,
)
from gradscope.trace.schema.tables import GraphTask, Node, Saved, Value, Version
from gradscope.trace.spec.checked_trace import groups, running, timeline
from gradscope.trace.spec.rule import RuleFault, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gradscope.trace.spec.checked_trace import CheckedTrace


@rule
def buffers_are_made_once_and_then_added_to(facts: CheckedTrace) -> Iterator[RuleFault]:
    """The first gradient for an input of a node makes its buffer; further ones are added to it.

    An undefined gradient has an event, but there is nothing to store or to add.
    """
    made, added = (
        stretch.where(~stretch["undefined"])
        for stretch in (facts.of(BufferMade), facts.of(BufferAdded))
    )
    line = timeline([(made, 1), (added, 0)], by=["task", "node", "input_nr"])
    for place in np.flatnonzero(line.after != 1):
        events = (made, added)[line.kind[place]]
        node = facts.node(events["node"][line.place[place]])
        what = "is made again" if line.after[place] else "is added to before it is made"
        yield RuleFault(f"an input buffer of {node} {what}", events.table, seq=int(line.seq[place]))


@rule
def buffers_are_complete_when_their_node_runs(facts: CheckedTrace) -> Iterator[RuleFault]:
    """No gradient arrives at a node that is running or has run."""
    begins = facts.of(NodeBegin)
    for kind in (BufferMade, BufferAdded):
        arriving = facts.of(kind)
        line = timeline([(begins, 1), (arriving, 0)], by=["task", "node"])
        for place in np.flatnonzero((line.kind == 1) & (line.after > 0)):
            node = facts.node(arriving["node"][line.place[place]])
            message = f"a gradient arrives at {node}, which has already run"
            yield RuleFault(message, arriving.table, seq=int(line.seq[place]))


@rule
def saved_values_are_released_once(facts: CheckedTrace) -> Iterator[RuleFault]:
    """A node releases what it saved once, in an event, and does not read it afterwards."""
    saved, released = facts.trace.table(Saved), facts.of(SavedReleased)
    saving = np.isin(released["node"], saved.array("node"))
    again = running(released["node"], np.ones(len(released), np.int64)) > 1
    for place in np.flatnonzero(saving & again):
        message = f"{facts.node(released['node'][place])} releases what it saved again"
        yield RuleFault(message, released.table, seq=int(released["seq"][place]))
    task, node = saved.array("task"), saved.array("node")
    if len(released) and not facts.trace.truncated:
        every = groups(
            [np.concatenate([task, released["task"]]), np.concatenate([node, released["node"]])]
        )
        told = np.isin(every[: len(saved)], every[len(saved) :])
        judged = (task != NONE) & (saved.array("released") != NONE) & facts.judges(task)
        for place in np.flatnonzero(judged & ~told):
            id = int(saved["id"][place])
            message = f"saved value {id} is released by graph task {task[place]} without an event"
            yield RuleFault(message, saved.name, id=id)
    read = facts.of(SavedUnpacked)
    line = timeline([(released, 1), (read, 0)], by=["node"])
    for place in np.flatnonzero((line.kind == 1) & (line.after > 0)):
        message = f"{facts.node(read['node'][line.place[place]])} reads a value it has released"
        yield RuleFault(message, read.table, seq=int(line.seq[place]))


@rule
def versions_rise_by_one(facts: CheckedTrace) -> Iterator[RuleFault]:
    """A write increases the version of a storage by one; `.data` starts a counter at zero.

    If not all writes are recorded, there may be others in between, also by other counters.
    """
    writes = facts.trace.table(Version)
    all_seen = not facts.dropped and writes.name not in facts.trace.meta.get("inferred", ())
    counters: dict[int, set[int]] = {}
    order = np.argsort(writes.array("t"), kind="stable")
    cells = (writes.array(name)[order].tolist() for name in ("storage", "old", "new"))
    for storage, old, new in zip(*cells, strict=True):
        if old == new == NONE or storage == NONE:  # not known
            continue
        known = counters.get(storage)
        if new != old + 1:
            message = f"a write changes storage {storage} from version {old} to {new}"
            yield RuleFault(message, writes.name, id=storage)
        elif all_seen and known and old not in known and old != 0:
            message = f"storage {storage} is written at version {old} but was at {max(known)}"
            yield RuleFault(message, writes.name, id=storage)
        counters[storage] = {*(known or ()), new} - {old}


@rule
def gradients_accumulate_in_leaves(facts: CheckedTrace) -> Iterator[RuleFault]:
    """Only AccumulateGrad and nodes in `inputs=` accumulate, with one first gradient each.

    With create_graph no gradient is moved or written in place.
    """
    events, tasks, nodes = (
        facts.of(Accumulate),
        facts.trace.table(GraphTask),
        facts.trace.table(Node),
    )
    name_of = dict(zip(nodes.array("id").tolist(), nodes.texts("name"), strict=True))
    graphs = set(tasks.array("id")[tasks.array("create_graph")].tolist())
    inputs = tasks.ragged("inputs")
    asked = set(inputs.values.tolist())
    first = {Accumulation.STOLEN, Accumulation.CLONED}
    begun: set[tuple[int, int]] = set()
    names = ("seq", "task", "node", "tensor", "how")
    for seq, task, node, tensor, how in zip(
        *(events[name].tolist() for name in names), strict=True
    ):
        name = name_of.get(node, "AccumulateGrad")
        if not name.endswith("AccumulateGrad") and node not in asked:
            yield RuleFault(
                f"{facts.node(node)} accumulates a gradient but is no AccumulateGrad",
                events.table,
                seq=seq,
            )
        if how in first and (task, tensor) in begun and tensor != NONE:
            message = (
                f"tensor {tensor} already had a gradient from graph task {task}, which is lost"
            )
            yield RuleFault(message, events.table, seq=seq)
        if task in graphs and how in {Accumulation.STOLEN, Accumulation.IN_PLACE}:
            message = f"tensor {tensor} receives a gradient without a copy under create_graph"
            yield RuleFault(message, events.table, seq=seq)
        begun.add((task, tensor))


@rule
def statistics_add_up(facts: CheckedTrace) -> Iterator[RuleFault]:
    """The counts in a tensor's statistics do not exceed the total, and min is not above max."""
    values = facts.trace.table(Value)
    parts = np.stack([values.array(name) for name in ("nan", "posinf", "neginf", "zero")])
    wrong = (parts < 0).any(axis=0) | (parts.sum(axis=0) > values.array("count"))
    wrong |= values.array("min") > values.array("max")
    for place in np.flatnonzero(wrong):
        id = int(values["id"][place])
        yield RuleFault(f"the statistics of value {id} contradict each other", values.name, id=id)
