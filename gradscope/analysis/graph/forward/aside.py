"""Calls without a box unless everything is drawn; their results count as data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from gradscope.analysis.graph.forward.calls import ForwardCalls
from gradscope.analysis.lookups import Ids
from gradscope.trace.arrays import distinct, without
from gradscope.trace.schema import NONE, Module, Phase, Tensor
from gradscope.trace.trace import Trace

TOLD = ("detach_", "requires_grad_")
"""Their names end like those of in-place writes, but they write no element."""


class Aside:
    """The places of such calls, by reason."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        calls = self._calls = trace.once(ForwardCalls)
        self._alone: list[int] = np.flatnonzero(calls.node == NONE).tolist()
        rows = calls.rows
        self.passing = np.array([*self._passing()], np.int64)
        """Calls that returned their input unchanged."""

        stepping = np.flatnonzero(calls.ops["phase"][rows] == Phase.OPTIMIZER)
        self.fillings = distinct(np.concatenate([stepping, self._fillings()]))
        """Calls that fill parameters or data before any use, or belong to an optimizer step."""

        by_nobody = (calls.ops["stack"][rows] == NONE) & (calls.module == NONE)
        in_backward = calls.ops["task"][rows] != NONE
        self.engines = np.flatnonzero(in_backward & by_nobody & (calls.node == NONE))
        """Calls made by the engine in a backward."""

        self.all: Ids = distinct(np.concatenate([self.fillings, self.engines, self.passing]))

    def counted(self, chosen: np.ndarray) -> tuple[int, int, int]:
        """The number of selected calls for each reason, each counted once."""
        engines = without(self.engines, self.fillings)
        passing = without(without(self.passing, self.fillings), engines)
        reasons = self.fillings, engines, passing
        filled, engine, passed = (int(chosen[each].sum()) for each in reasons)
        return filled, engine, passed

    def _fillings(self) -> Ids:
        calls, owned = self._calls, _owned(self._trace)
        theirs = owned | _parameters(self._trace)
        known: set[int] = set()  # tensors that were read or made
        found: set[int] = set()
        alone, passing = set(self._alone), set(self.passing.tolist())
        for place in range(max(alone, default=-1) + 1):
            inputs, outputs = calls.inputs[place], calls.outputs[place]
            writes = {write.tensor for write in calls.written(place)}
            if calls.names[place].endswith("_"):
                writes |= {*inputs} & {*outputs}
            changed = {*outputs, *writes}
            if place in passing:
                continue
            fills = changed == writes and (changed <= theirs or changed.issuperset(inputs))
            makes = changed <= owned and not changed.intersection(inputs)
            if place in alone and changed and (fills or makes) and not changed & known:
                found.add(place)
                known.update(set(inputs) - changed)
            else:
                known.update(inputs, outputs)
        return self._with_what_is_only_for(found)

    def _with_what_is_only_for(self, found: set[int]) -> Ids:
        """Also calls whose results are used by nothing else."""
        calls = self._calls
        users: defaultdict[int, set[int]] = defaultdict(set)
        passing = set(self.passing.tolist())
        alone = [place for place in self._alone if place not in found and place not in passing]
        made = {tensor for place in alone for tensor in calls.outputs[place]}
        for place, inputs in enumerate(calls.inputs) if made else ():
            for tensor in made.intersection(inputs) if place not in passing else ():
                users[tensor].add(place)
        for place in reversed(alone):
            takes = [users.get(tensor, set()) - {place} for tensor in calls.outputs[place]]
            workspace = calls.names[place] == "empty" and not any(takes)
            if takes and (workspace or all(each and each <= found for each in takes)):
                found.add(place)
        return np.array(sorted(found), np.int64)

    def _passing(self) -> Iterable[int]:
        calls = self._calls
        for place in self._alone:
            outputs = calls.outputs[place]
            same = bool(outputs) and {*outputs} <= {*calls.inputs[place]}
            name = calls.names[place]
            written = calls.written(place) or (name.endswith("_") and name not in TOLD)
            if same and not written:
                yield place


def _parameters(trace: Trace) -> set[int]:
    tensors = trace.table(Tensor)
    leaves = tensors["id"][tensors["leaf"] & tensors["requires_grad"]]
    return {*leaves.tolist(), *trace.table(Module).ragged("parameters").values.tolist()}


def _owned(trace: Trace) -> set[int]:
    """Tensors of modules: parameters, and buffers by name."""
    paths = {trace.text(each) for each in trace.table(Module)["path"].tolist()}
    table = trace.table(Tensor)
    named = zip(table["id"].tolist(), table.texts("name"), strict=True)
    return {id for id, name in named if name and name.rpartition(".")[0] in paths}
