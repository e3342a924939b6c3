"""The place of a birth in words, its source line, and which births share a place."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gradscope.analysis.identity.leaves import leaf
from gradscope.analysis.identity.names import node_names
from gradscope.analysis.identity.sites import Site, at, site_of, site_of_row
from gradscope.analysis.lookups import grouped
from gradscope.analysis.nonfinite.births import Birth, not_finite
from gradscope.analysis.nonfinite.inner import inner_ops
from gradscope.analysis.program.acts import BRING_IN, Origins, TensorOrigin, brought
from gradscope.analysis.program.modules import module_names
from gradscope.trace.schema import (
    NONE,
    GraphTask,
    HookBegin,
    Node,
    Op,
    Phase,
    Place,
    Tensor,
    Value,
)
from gradscope.trace.trace import Trace

STEPS = frozenset(("add", "addcdiv", "addcmul", "lerp", "mul", "sub"))
"""Calls an optimizer's update consists of."""


@dataclass(frozen=True, slots=True)
class PlaceInWords:
    """The place of a birth, as in "in the backward of LogBackward0"."""

    words: str
    function: str  # the function at fault: "log", "LogBackward0", or ""
    site: Site


@dataclass
class BirthPlaces:
    """The places of a trace's births."""

    trace: Trace

    def described(self, birth: Birth) -> PlaceInWords:
        node = self.trace.once(node_names).title(birth.node)
        made = site_of_row(self.trace, Node, birth.node)
        match birth.place:
            case Place.OP_OUTPUT:
                return self._of_op(birth)
            case Place.NODE_OUTPUT:
                function = _name_of_node(self.trace, birth.node)
                inside = self._inside(Node, birth.node)
                return PlaceInWords(f"in the backward of {node}{inside}", function, made)
            case Place.BUFFER:
                words = f"in the sum of the gradients that arrive at input {birth.index} of {node}"
                return PlaceInWords(words, "", made)
            case Place.HOOK:
                return _of_hook(self.trace, birth, node)
            case Place.GRAD:
                words = f"in the accumulation into `.grad` of {self._leaf(birth)}"
                return PlaceInWords(words, "", site_of_row(self.trace, GraphTask, birth.task))
            case Place.SEED:
                words = "in the gradient that was passed to backward"
                return PlaceInWords(words, "", site_of_row(self.trace, GraphTask, birth.task))
            case Place.LEAF:
                origin = self.origin(birth)
                if origin is not None:
                    title = self._leaf(birth)
                    words = f"outside the graph: {brought(origin.by)} brought it into {title}"
                    if self.trace.table(Tensor).row(birth.tensor).version:
                        words = (
                            "outside the graph: it was written into "
                            f"{title}, which {origin.by} created"
                        )
                    elif origin.by not in BRING_IN:
                        words = f"outside the graph: {origin.by} created {title} with it"
                    return PlaceInWords(words, "", origin.site)
                ops = self.trace.table(Op)
                if ops.has(birth.op) and birth.tensor == NONE:
                    words = f"outside the graph: {brought(ops.row(birth.op).name)} brought it in"
                    return PlaceInWords(words, "", self._first_seen(birth))
                words = f"outside the graph: {self._leaf(birth)} already held it"
                return PlaceInWords(words, "", self._first_seen(birth))
            case Place.NODE_INPUT:
                return PlaceInWords(f"on the way to {node}", "", made)

    def grouped(self, births: Iterable[Birth]) -> list[tuple[Birth, int]]:
        """The first birth at each place of the program, and how many there were.

        Repetitions in a loop are one place: calls of one function, or nodes of one name, on one
        line and in one module.
        """
        return [(group[0], len(group)) for group in grouped(births, self.key).values()]

    def key(self, birth: Birth) -> tuple[Hashable, ...]:
        """A key that births at one place of the program share."""
        return (
            birth.place,
            birth.kind,
            birth.index,
            _line_of(self.trace, Op, birth.op),
            _line_of(self.trace, Node, birth.node),
            self._key_of_tensor(birth),
        )

    def _key_of_tensor(self, birth: Birth) -> Hashable:
        """A tensor that exists longer than one step is a separate place."""
        tensors = self.trace.table(Tensor)
        if birth.place is Place.GRAD:
            return birth.tensor
        if not tensors.has(birth.tensor):
            return NONE
        position = tensors.index(birth.tensor)
        if not tensors["leaf"][position]:
            return NONE
        name = self.trace.text(int(tensors["name"][position]))
        origin = self.origin(birth)
        if birth.place is not Place.LEAF or name or origin is not None:
            return name if origin is None else (name, origin.act.stack)
        return self._first_uses.get(birth.tensor, (NONE, birth.tensor))[1]

    def _of_op(self, birth: Birth) -> PlaceInWords:
        ops = self.trace.table(Op)
        if not ops.has(birth.op):
            return PlaceInWords("in a forward call", "", Site())
        op = ops.row(birth.op)
        name = op.name.partition(".")[0]
        site = site_of(self.trace, op.stack)
        if op.phase == Phase.BACKWARD:
            return PlaceInWords(f"in the call {name} during a backward", name, site)
        if op.phase != Phase.OPTIMIZER:
            inside = self._inside(Op, birth.op)
            return PlaceInWords(f"in the forward call {name}{inside}", name, site)
        words = f"in the optimizer's call {name} on {self._leaf(birth)}"
        return PlaceInWords(words, "optimizer" if name.rstrip("_") in STEPS else name, site)

    def _inside(self, kind: type[Node | Op], id: int) -> str:
        """The module in which a call was made, where several modules share its line."""
        table = self.trace.table(kind)
        module = int(table["module"][table.index(id)]) if table.has(id) else NONE
        name = self.trace.once(module_names).get(module, "")
        return f" in module {name}" if name else ""

    def _leaf(self, birth: Birth) -> str:
        found = leaf(self.trace, birth.tensor)
        return found.title if found else self.trace.once(node_names).title(birth.node)

    def origin(self, birth: Birth) -> TensorOrigin | None:
        """The call that created a tensor with non-finite values, if it is not in the graph."""
        outside = birth.place is Place.LEAF and birth.node == NONE and birth.op == NONE
        return self.trace.once(Origins).of(birth.tensor) if outside else None

    def _first_seen(self, birth: Birth) -> Site:
        """The line that created a tensor, or used it first."""
        if self.trace.table(Op).has(birth.op):
            return site_of_row(self.trace, Op, birth.op)
        return site_of(self.trace, self._first_uses.get(birth.tensor, (NONE, NONE))[1])

    def used_first(self, birth: Birth) -> str:
        """As in "; it is first used at train.py:18"."""
        _, stack = self._first_uses.get(birth.tensor, (NONE, NONE))
        site = site_of(self.trace, stack)
        return f"; it is first used{at(site)}" if site.place else ""

    @cached_property
    def _first_uses(self) -> dict[int, tuple[int, int]]:
        """The first call that used each tensor: when it began, and its stack."""
        ops = self.trace.table(Op)
        inputs = ops.ragged("inputs")
        users = inputs.owners
        order = np.argsort(ops["begin"][users], kind="stable")[::-1]  # so that the first use wins
        begin, stack = (ops[name][users][order].tolist() for name in ("begin", "stack"))
        return dict(zip(inputs.values[order].tolist(), zip(begin, stack, strict=True), strict=True))


def _of_hook(trace: Trace, birth: Birth, node: str) -> PlaceInWords:
    """The call that ended at the event of the value is the last one begun before it."""
    table = trace.table(HookBegin)
    before = (table["task"] == birth.task) & (table["node"] == birth.node)
    before &= table["seq"] <= birth.seq
    places = before.nonzero()[0]
    if not len(places):
        return PlaceInWords(f"in a hook of {node}", "", site_of_row(trace, Node, birth.node))
    call = table.at(int(places[table["seq"][places].argmax()]))
    hook = f"the hook {call.name or '(unnamed)'} on {node}"
    inside = _first_wrong(trace, birth, call.t)
    if inside is not None:
        name = inside.name.partition(".")[0]
        return PlaceInWords(f"in the call {name} of {hook}", name, site_of(trace, inside.stack))
    return PlaceInWords(f"in {hook}", "", site_of(trace, call.stack))


def _first_wrong(trace: Trace, birth: Birth, since: int) -> Op | None:
    """The first call of a hook whose result was not finite, where these are recorded."""
    values, ops = trace.table(Value), trace.table(Op)
    wrong = not_finite(values)
    wrong &= values["place"] == Place.OP_OUTPUT
    wrong &= (values["task"] == birth.task) | np.isin(values["op"], [*inner_ops(trace)])
    wrong &= (values["t"] >= since) & (values["t"] <= birth.t)
    places = wrong.nonzero()[0]
    if not len(places):
        return None
    op = int(values["op"][places[values["t"][places].argmin()]])
    return ops.row(op) if ops.has(op) and ops.row(op).stack != NONE else None


def _name_of_node(trace: Trace, node: int) -> str:
    nodes = trace.table(Node)
    return nodes.row(node).name if nodes.has(node) else ""


def _line_of(trace: Trace, kind: type[Node | Op], id: int) -> tuple[int, ...]:
    """What the calls or nodes of one line have in common; the id where that is unknown."""
    table = trace.table(kind)
    if not table.has(id):
        return (id,)
    position = table.index(id)
    name, stack, module = (int(table[column][position]) for column in ("name", "stack", "module"))
    return (id,) if stack == NONE else (name, stack, module)
