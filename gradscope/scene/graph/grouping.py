"""Which boxes belong together: the calls of modules, and what a double backward made.

A module that is called several times gives several groups: each is an unbroken run of nodes in the
order in which they were made, so that folding one into a box never makes a cycle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gradscope.analysis.graph.graph import GraphNode
from gradscope.analysis.program.modules import parts_of
from gradscope.scene.graph.picture import Group
from gradscope.trace.schema import NONE


@dataclass(frozen=True, slots=True)
class Call:
    """One call of one module: `layer1`, the second time."""

    id: str
    path: str
    number: int  # from 1
    parent: str  # the id of the call it is inside, or of the double backward, or ""


@dataclass(frozen=True, slots=True)
class Calls:
    """All calls, and for each node the chain of calls it is inside, outermost first."""

    calls: dict[str, Call]
    chains: dict[int, tuple[str, ...]]
    tops: dict[int, str]  # node → the id of the group of the double backward that made it
    backwards: dict[str, int]  # the id of such a group → the number of the backward


def module_calls(nodes: Iterable[GraphNode]) -> Calls:
    """Split nodes into calls of modules. Leaves belong to whoever uses them, so to none here."""
    calls: dict[str, Call] = {}
    chains: dict[int, tuple[str, ...]] = {}
    tops: dict[int, str] = {}
    backwards: dict[str, int] = {}
    numbers: Counter[str] = Counter()
    before: tuple[str, ...] = ()
    made_before = NONE
    for node in sorted((n for n in nodes if n.leaf is None), key=lambda n: n.id):
        top = f"backward{node.made_in}" if node.made_in != NONE else ""
        chain = tuple(
            _chain(node.module, before if node.made_in == made_before else (), calls, numbers, top)
        )
        chains[node.id] = chain
        if top:
            tops[node.id] = top
            backwards[top] = node.made_in
        before, made_before = chain, node.made_in
    return Calls(calls, chains, tops, backwards)


def _chain(
    path: str, before: tuple[str, ...], calls: dict[str, Call], numbers: Counter[str], top: str
) -> Iterator[str]:
    """The ids of the calls around a node; those of the node before it, as far as they agree."""
    parent = top
    same = True
    for depth, part in enumerate(parts_of(path)):
        same = same and depth < len(before) and calls[before[depth]].path == part
        if same:
            parent = before[depth]
        else:
            numbers[part] += 1
            number = numbers[part]
            id = f"{part}/{number}"
            calls[id] = Call(id, part, number, parent)
            parent = id
        yield parent


def groups_of(calls: Calls, used: Iterable[str], types: dict[str, str]) -> tuple[Group, ...]:
    """The groups that are used, with those around them, parents first."""
    total = Counter(call.path for call in calls.calls.values())
    found: dict[str, Group] = {}
    for id in used:
        for around in reversed(list(_outward(calls, id))):
            if around not in found:
                found[around] = _group(calls, around, total, types)
    return tuple(found.values())


def _outward(calls: Calls, id: str) -> Iterator[str]:
    while id:
        yield id
        id = calls.calls[id].parent if id in calls.calls else ""


def _group(calls: Calls, id: str, total: Counter[str], types: dict[str, str]) -> Group:
    if id in calls.backwards:
        return Group(id, f"made during backward {calls.backwards[id]} (create_graph)", "")
    call = calls.calls[id]
    return Group(id, call_title(call, total[call.path], types), call.parent)


def call_title(call: Call, total: int, types: dict[str, str]) -> str:
    """As in "layer1.0 · BasicBlock · call 2 of 3"."""
    parts = [call.path, types.get(call.path, "")]
    if total > 1:
        parts.append(f"call {call.number} of {total}")
    return " · ".join(part for part in parts if part)
