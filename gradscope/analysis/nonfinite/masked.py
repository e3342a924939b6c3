"""Which NaN and Inf of the forward were masked out: no loss and no gradient received them."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property

import numpy as np

from gradscope.analysis.nonfinite.births import Birth, not_finite
from gradscope.analysis.nonfinite.lineage import are_inputs_inferred
from gradscope.trace.schema import NONE, GraphTask, Op, Place, Saved, Value, Version
from gradscope.trace.trace import Trace

MOST = 1000
"""Maximum number of calls that are followed from one origin."""


class MaskedOut:
    """Follows the results of calls that are not finite to where all results are finite again."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._ops = trace.table(Op)
        self._known = not are_inputs_inferred(trace)

    def holds(self, birth: Birth) -> bool:
        """Whether each call that received it, directly or not, returned only finite values.

        False where this is not known: a result that no call received may have been read.
        """
        if not (self._known and birth.place is Place.OP_OUTPUT and birth.task == NONE):
            return False
        seen, waiting = {birth.op}, [birth.op]
        while waiting:
            op = waiting.pop()
            users = self._users(op)
            if not users or len(seen) > MOST or self._gets_further(op):
                return False
            for user in users - seen:
                finite = self._is_finite.get(user)
                if finite is None:
                    return False
                if not finite:
                    seen.add(user)
                    waiting.append(user)
        return True

    def _users(self, op: int) -> set[int]:
        """The calls that received a result of a call."""
        outputs = self._ops.ragged("outputs")[self._ops.index(op)].tolist()
        return set[int]().union(*(self._takers.get(each, ()) for each in outputs)) - {op}

    def _gets_further(self, op: int) -> bool:
        """Whether a loss is a call's result, or its backward, or one that saves it, is not finite.

        Also if it writes in place: other tensors may share the memory.
        """
        node = int(self._ops["node"][self._ops.index(op)])
        if op in self._in_place or node in self._roots or node in self._bad_nodes:
            return True
        outputs = self._ops.ragged("outputs")[self._ops.index(op)].tolist()
        return any(not self._bad_nodes.isdisjoint(self._savers.get(e, ())) for e in outputs)

    @cached_property
    def _takers(self) -> dict[int, set[int]]:
        """By tensor: the calls that received it."""
        found: dict[int, set[int]] = defaultdict(set)
        rows = zip(self._ops["id"].tolist(), self._ops.ragged("inputs").tuples(), strict=True)
        for op, inputs in rows:
            for tensor in inputs:
                found[tensor].add(op)
        return found

    @cached_property
    def _is_finite(self) -> dict[int, bool]:
        """By call: whether all of its results are finite, if their values were recorded."""
        values = self._trace.table(Value)
        mine = np.flatnonzero((values["place"] == Place.OP_OUTPUT) & (values["op"] != NONE))
        found: dict[int, bool] = {}
        wrong = not_finite(values)[mine].tolist()
        for op, bad in zip(values["op"][mine].tolist(), wrong, strict=True):
            found[op] = found.get(op, True) and not bad
        return found

    @cached_property
    def _bad_nodes(self) -> set[int]:
        """Nodes whose backward returned a gradient that is not finite."""
        values = self._trace.table(Value)
        bad = not_finite(values) & (values["place"] == Place.NODE_OUTPUT)
        return set(values["node"][bad].tolist()) - {NONE}

    @cached_property
    def _savers(self) -> dict[int, set[int]]:
        """By tensor: the nodes that save it."""
        saved, found = self._trace.table(Saved), defaultdict[int, set[int]](set)
        for node, tensor in zip(saved["node"].tolist(), saved["tensor"].tolist(), strict=True):
            found[tensor].add(node)
        return found

    @cached_property
    def _roots(self) -> set[int]:
        return set(self._trace.table(GraphTask).ragged("roots").values.tolist()) - {NONE}

    @cached_property
    def _in_place(self) -> set[int]:
        """Calls that write to a tensor, which others may share memory with."""
        return set(self._trace.table(Version)["op"].tolist()) - {NONE}
