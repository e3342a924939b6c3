"""Calls that are part of something larger: a hook, or the engine's own arithmetic.

A NaN that originates in such a call is reported where the larger part passes it on: the hook's
result, the node's output, the sum at an input.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import count

import numpy as np

from gradscope.trace.schema import NONE, GraphTask, HookBegin, HookEnd, HookKind, Op, Stack
from gradscope.trace.trace import Trace

LOOKED_AT_AS_ONE = (HookKind.TENSOR, HookKind.PRE, HookKind.POST)


def inner_ops(trace: Trace) -> frozenset[int]:
    """Calls that ran in a hook, or that the engine made under `create_graph`."""
    ops = trace.table(Op)
    backward = np.flatnonzero(ops["task"] != NONE)
    apart = np.flatnonzero((ops["task"] == NONE) & (ops["node"] == NONE))
    hooked = apart[_in_hook(trace, ops["thread"][apart], ops["begin"][apart])]
    alone = frozenset(ops["id"][hooked].tolist())  # PyTorch's, whose task is unknown
    if not len(backward):
        return alone
    tasks, stacks = trace.table(GraphTask), trace.table(Stack)
    innermost = dict(zip(stacks["id"].tolist(), stacks["frame"].tolist(), strict=True))
    called = (innermost.get(stack, NONE) for stack in tasks["stack"].tolist())
    called_at = dict(zip(tasks["id"].tolist(), called, strict=True))
    lines = np.array([innermost.get(each, NONE) for each in ops["stack"][backward].tolist()])
    theirs = [called_at.get(task, NONE) for task in ops["task"][backward].tolist()]
    own = (lines == theirs) & (lines != NONE)
    inside = own | _in_hook(trace, ops["thread"][backward], ops["begin"][backward])
    return alone | frozenset(ops["id"][backward][inside].tolist())


def _in_hook(trace: Trace, thread: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Whether a hook of the thread was running at each time."""
    begins, ends = (_times(trace, kind) for kind in (HookBegin, HookEnd))
    spans: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for key in begins.keys() & ends.keys():
        spans[key[0]].append((begins[key], ends[key]))
    inside = np.zeros(len(t), bool)
    for number, pairs in spans.items():
        opened, closed = (np.sort(times) for times in zip(*pairs, strict=True))
        running = np.searchsorted(opened, t, side="right") - np.searchsorted(closed, t, side="left")
        inside |= (thread == number) & (running > 0)
    return inside


def _times(trace: Trace, kind: type[HookBegin | HookEnd]) -> dict[tuple[int, ...], int]:
    """The time of each event, by thread, hook, and the number of the call of this hook."""
    table = trace.table(kind)
    chosen = np.flatnonzero(np.isin(table["hook"], LOOKED_AT_AS_ONE))
    names = ("thread", "task", "node", "hook", "index", "t")
    calls: defaultdict[tuple[int, ...], count[int]] = defaultdict(count)
    found = {}
    for *key, t in zip(*(table[name][chosen].tolist() for name in names), strict=True):
        found[*key, next(calls[*key])] = t
    return found
