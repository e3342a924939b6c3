"""Completions of a line that is being typed."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from gradscope.analysis.identity.leaves import leaf
from gradscope.analysis.identity.sites import site
from gradscope.analysis.report import inspect
from gradscope.analysis.state.breakpoints.kinds import KINDS
from gradscope.debug.commands import COMMANDS
from gradscope.debug.walk import Walk
from gradscope.render.text import visible
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import NONE, Accumulate, Act, HookBegin, Mark, Module, Node, Op
from gradscope.trace.schema.declare import EVENTS, Row
from gradscope.trace.trace import Trace

MOST = 2_000
"""Number of names of a kind that are offered."""
TO_STOP_AT = ("break", "continue", "reverse", "goto")
OF_NODES = ("node", "why", "saved")


class TypedNames:
    """The names of things in a trace that can be typed."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    @cached_property
    def nodes(self) -> list[str]:
        return self._texts(Node, "name")

    @cached_property
    def ops(self) -> list[str]:
        return self._texts(Op, "name")

    @cached_property
    def hooks(self) -> list[str]:
        return self._texts(HookBegin, "name")

    @cached_property
    def acts(self) -> list[str]:
        return self._texts(Act, "kind")

    @cached_property
    def marks(self) -> list[str]:
        return self._texts(Mark, "name")

    @cached_property
    def modules(self) -> list[str]:
        return self._texts(Module, "path")

    @cached_property
    def leaves(self) -> list[str]:
        tensors = distinct(np.asarray(self._trace.table(Accumulate)["tensor"]))[:MOST]
        known = (leaf(self._trace, id) for id in tensors.tolist())
        return _typed(each.name for each in known if each is not None)

    @cached_property
    def lines(self) -> list[str]:
        tables = [self._trace.table(kind)["stack"] for kind in (Op, Node, Act)]
        stacks = distinct(np.concatenate([np.asarray(each, np.int64) for each in tables]))
        return _typed(site(self._trace, each) for each in stacks[stacks != NONE][:MOST].tolist())

    @cached_property
    def findings(self) -> list[str]:
        return [f"#{each.id}" for each in self._trace.once(inspect).findings]

    def _texts(self, kind: type[Row], column: str) -> list[str]:
        ids = distinct(np.asarray(self._trace.table(kind)[column]))[:MOST]
        return _typed(self._trace.texts(ids))


def _typed(names: Iterable[str]) -> list[str]:
    """The names that are a single word."""
    return sorted(
        {name for name in names if name and visible(name, 1 << 9) == name and " " not in name}
    )


OF_KINDS = {
    "node": "nodes", "release": "nodes", "op": "ops", "module": "modules", "grad": "leaves",
    "write": "leaves", "line": "lines", "hook": "hooks", "replaced": "hooks", "act": "acts",
    "mark": "marks",
}  # fmt: skip
"""The names that may follow a kind of breakpoint."""


def completions(walk: Walk, text: str) -> list[str]:
    """The completions of a line, for its last word."""
    before, space, word = text.rpartition(" ")
    found = _words(walk, before.split()) if space else [f"{name} " for name in _commands()]
    return [f"{before}{space}{each}" for each in found if each.startswith(word)]


def _commands() -> list[str]:
    return sorted({each.name for each in COMMANDS.values()} | {"quit"})


def _words(walk: Walk, before: list[str]) -> list[str]:
    """The words that may follow these words."""
    named = COMMANDS.get(before[0]) if before else None
    name, names = "" if named is None else named.name, walk.trace.once(TypedNames)
    if name in TO_STOP_AT:
        if len(before) == 1:
            places = ["start", "end", *names.findings] if name == "goto" else []
            return [*places, *(f"{each} " for each in sorted({*KINDS, *EVENTS}))]
        sort = OF_KINDS.get(before[1], "nodes" if before[1] in EVENTS else "")
        return getattr(names, sort) if sort and len(before) == 2 else []
    if len(before) != 1:
        return []
    if name in OF_NODES:
        return sorted({*names.nodes, *names.leaves})
    if name == "delete":
        return [*map(str, walk.stops)]
    return {"tensor": names.leaves, "grad": names.leaves, "op": names.ops, "help": ["break"]}.get(
        name, []
    )
