"""Threads and stacks at a moment: the running node, its origin, modules and backward."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gradscope.analysis.state.backward import BackwardState
from gradscope.analysis.state.state import State
from gradscope.debug.dap.sources import Sources
from gradscope.scene.moments import MomentWords
from gradscope.trace.schema import NONE, Module, Node, Thread


@dataclass(frozen=True, slots=True)
class StackLevel:
    """One level of a stack."""

    name: str
    file: str = ""
    line: int = 0
    node: int = NONE
    task: int = NONE


def threads(state: State) -> list[dict[str, Any]]:
    rows = list(state.trace.rows(Thread))
    found = [{"id": row.id + 1, "name": row.name or f"thread {row.id}"} for row in rows]
    return found or [{"id": 1, "name": "program"}]


def thread_of(state: State) -> int:
    """The thread of this moment, as numbered for the editor."""
    return max(int(getattr(state.happened, "thread", NONE)), 0) + 1


def levels(state: State, thread: int) -> list[StackLevel]:
    """The stack of a thread, the innermost level first."""
    say = state.trace.once(MomentWords)
    found: list[StackLevel] = []
    for backward in reversed(state.backwards):
        found += _of_backward(state, backward, thread, say)
    for call in reversed(state.calls):
        if call.thread == thread:
            found += _lines(state, call.stack, f"{call.name}()", call.node)
            found += _modules(state, call.module)
    if thread_of(state) == thread + 1 and not found:
        row = state.happened
        found += _lines(state, int(getattr(row, "stack", NONE)), say.said(row))
        found = found or [StackLevel(say.said(row))]
    return found


def _of_backward(
    state: State, backward: BackwardState, thread: int, say: MomentWords
) -> Iterator[StackLevel]:
    """The nodes of a backward that run on this thread, and its caller."""
    running = [each for each in backward.running if each.thread == thread]
    here = getattr(state.happened, "node", NONE)
    nodes = [each.node for each in reversed(running)]
    task = backward.task
    if not nodes and here != NONE and getattr(state.happened, "task", NONE) == task.id:
        nodes = [here] * (thread_of(state) == thread + 1)
    table = state.trace.table(Node)
    for node in nodes:
        row = table.row(node) if table.has(node) else None
        stack = NONE if row is None else row.stack
        yield from _lines(state, stack, say.node(node), node, task.id)
        if row is not None:
            yield from _modules(state, row.module)
    if task.thread == thread:
        yield from _lines(state, task.stack, f"backward {backward.number}", NONE, task.id)


def _lines(
    state: State, stack: int, name: str, node: int = NONE, task: int = NONE
) -> Iterator[StackLevel]:
    """The levels of a recorded stack, the innermost with this name."""
    frames = state.trace.frames(stack) if stack != NONE else ()
    if not frames:
        yield StackLevel(name, node=node, task=task)
    for depth, frame in enumerate(frames):
        shown = name if depth == 0 else frame.function
        yield StackLevel(shown, frame.file, frame.line, node, task)


def _modules(state: State, module: int) -> Iterator[StackLevel]:
    for row in state.trace.table(Module).chain(module, "parent"):
        if row.path:
            yield StackLevel(f"module {row.path} ({row.type})")


def told(level: StackLevel, number: int, sources: Sources) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": number, "name": level.name, "line": level.line, "column": 1}
    if level.file:
        shown["source"] = sources.told(level.file)
    else:
        shown |= {"presentationHint": "label", "line": 0, "column": 0}
    return shown
