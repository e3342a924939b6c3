"""Variables of a stack level: the node, values, the queue, saved values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gradscope.analysis.state.node_at import node_at
from gradscope.analysis.state.state import State
from gradscope.debug.dap.stack import StackLevel
from gradscope.scene.answers.node_now import hooks, now
from gradscope.scene.answers.state import state_answer
from gradscope.scene.cells import kind_in_words
from gradscope.scene.moments import MomentWords
from gradscope.scene.readable import byte_count
from gradscope.trace.schema import NONE, Edge, Node, Place, Value

MOST = 200
"""Largest number of rows of a list."""

CAME = (Place.SEED, Place.BUFFER, Place.HOOK, Place.NODE_INPUT)
LEFT = (Place.NODE_OUTPUT,)
"""Places of values that a node receives and returns."""


@dataclass(frozen=True, slots=True)
class Variable:
    """One row; `inside` creates its children on demand."""

    name: str
    value: str
    inside: Callable[[], Sequence[Variable]] | None = None
    watch: str = ""  # the breakpoint for watching it


class Variables:
    """References of lists that can be opened, until the next stop."""

    def __init__(self) -> None:
        self._lists: list[Callable[[], Sequence[Variable]]] = []

    def clear(self) -> None:
        self._lists.clear()

    def reference(self, inside: Callable[[], Sequence[Variable]] | None) -> int:
        """The reference of a list; 0 for none."""
        if inside is None:
            return 0
        self._lists.append(inside)
        return len(self._lists)

    def rows(self, reference: int) -> Sequence[Variable]:
        """The rows of a list; none if its moment was left."""
        if not 0 < reference <= len(self._lists):
            return ()
        return self._lists[reference - 1]()

    def told(self, row: Variable) -> dict[str, Any]:
        number = self.reference(row.inside)
        return {"name": row.name, "value": row.value, "variablesReference": number}


def scopes(state: State, level: StackLevel) -> list[Variable]:
    """The lists below a level of the stack."""
    found = []
    if level.node != NONE:
        node, task = level.node, level.task
        found += [
            Variable("node", "", lambda: [*_node(state, node, task)]),
            Variable("gradients in", "", lambda: _numbers(state, node, task, CAME)),
            Variable("gradients out", "", lambda: _numbers(state, node, task, LEFT)),
            Variable("saved", "", lambda: [*_saved(state, node)]),
        ]
    return [
        *found,
        Variable("moment", "", lambda: [*_moment(state)]),
        Variable("gradients (.grad)", "", lambda: [*_gradients(state)]),
        *_sections(state),
    ]


def _moment(state: State) -> Iterator[Variable]:
    answer = state_answer(state)
    yield Variable("here", answer.title)
    for name, value in answer.facts:
        yield Variable(name, value)
    for note in answer.notes:
        yield Variable("note", note)


def _sections(state: State) -> Iterator[Variable]:
    """The queue, waiting nodes and buffers, if any."""
    for section in state_answer(state).sections:
        lines = section.lines[:MOST]
        yield Variable(
            section.title, "",
            lambda lines=lines: [Variable(str(at), text) for at, text in enumerate(lines)],  # type: ignore[misc]
        )  # fmt: skip


def _node(state: State, node: int, task: int) -> Iterator[Variable]:
    table, say = state.trace.table(Node), state.trace.once(MomentWords)
    if not table.has(node):
        return
    here = node_at(state.trace, node, task, state.moment)
    yield Variable("now", now(here, say))
    if here.hooks:
        yield Variable("hooks", hooks(here))
    for name, value in say.cells.words(table.row(node)):
        yield Variable(name, value)
    edges = state.trace.table(Edge)
    for row in edges.take(np.flatnonzero(np.asarray(edges["node"]) == node)[:MOST]):
        to = "no edge" if row.next == NONE else f"{say.node(row.next)}, input {row.input_nr}"
        yield Variable(f"gradient {row.index} goes to", to)


def _numbers(state: State, node: int, task: int, places: tuple[Place, ...]) -> list[Variable]:
    """Statistics of gradients that a node received or returned in this backward so far."""
    table, say = state.trace.table(Value), state.trace.once(MomentWords)
    chosen = (
        (np.asarray(table["node"]) == node) & (np.asarray(table["task"]) == task)
        & np.isin(np.asarray(table["place"]), places) & (np.asarray(table["seq"]) <= state.seq)
    )  # fmt: skip
    if not len(table):
        return [Variable("not recorded", "use --level values")]
    return [
        Variable(
            f"{row.index} ({kind_in_words(Place, row.place)})",
            f"norm {row.norm:.4g}, {row.nan} NaN, {row.posinf + row.neginf} Inf",
            partial(_statistics, say, row),
        )
        for row in table.take(np.flatnonzero(chosen)[:MOST])
    ]


def _statistics(say: MomentWords, row: Value) -> list[Variable]:
    leave_out = ("id", "place", "op", "node", "task", "step", "seq", "t")
    return [Variable(*each) for each in say.cells.words(row, leave_out=leave_out)]


def _saved(state: State, node: int) -> Iterator[Variable]:
    say = state.trace.once(MomentWords)
    for row in state.saved_by(node):
        text = f"{say.cells.tensor(row.tensor)}, version {row.version}, {byte_count(row.bytes)}"
        yield Variable(row.slot, text, watch=f"write {row.tensor}" if row.tensor != NONE else "")


def _gradients(state: State) -> Iterator[Variable]:
    say = state.trace.once(MomentWords)
    for each in state.gradients[:MOST]:
        since = f"since moment {each.since:,}, {say.cells.backward(each.task)}"
        yield Variable(say.short(each.tensor), since, watch=f"grad {each.tensor}")
