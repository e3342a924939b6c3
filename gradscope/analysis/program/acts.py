"""Events of the program other than operations, in the order of time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar, overload

import numpy as np

from gradscope.analysis.identity.sites import Site, at, site_of
from gradscope.analysis.lookups import grouped
from gradscope.trace.schema import (
    ACTS,
    NONE,
    Act,
    ActFacts,
    CameInAct,
    Module,
    OptimizerAct,
    ParamGroupAct,
    Stack,
    StepAct,
    ZeroGradAct,
    columns,
)
from gradscope.trace.trace import Trace

UNNAMED = frozenset(("", "lift_fresh"))
"""Calls with which PyTorch itself converts data, for any function."""

BRING_IN = UNNAMED | {
    "tensor", "as_tensor", "asarray", "from_numpy", "frombuffer", "from_dlpack", "Tensor",
    "FloatTensor", "DoubleTensor", "load", "full", "new_tensor", "new_full", "empty", "new_empty",
}  # fmt: skip
"""Calls whose result contains their input data, or uninitialized memory."""

F_co = TypeVar("F_co", bound=ActFacts, covariant=True)
F = TypeVar("F", bound=ActFacts)
G = TypeVar("G", bound=ActFacts)


@dataclass(frozen=True, slots=True)
class Done(Generic[F_co]):
    """One act: a row of `act` with the columns of its kind. An id is NONE if there is none."""

    id: int
    kind: str
    t: int  # time in nanoseconds
    of: int  # the act that created the optimizer concerned, unless the kind says otherwise
    tensors: tuple[int, ...]  # the leaves concerned, unless the kind says otherwise
    module: int  # the module concerned
    inside: int  # the module whose forward was running
    facts: F_co
    stack: int  # the line: see `Acts.site`
    step: int  # the step of the training, which begins after the previous `optimizer.step()`
    task: int  # the backward in which it happened
    thread: int


@dataclass(frozen=True, slots=True)
class Optimizer:
    """An optimizer, with parameter groups that were added later."""

    built: Done[OptimizerAct]
    type: str
    tensors: tuple[int, ...]
    steps: tuple[Done[StepAct], ...]
    cleared: tuple[Done[ZeroGradAct], ...]  # calls of its own zero_grad


def found_gradients(act: Done[ActFacts]) -> bool:
    """Whether this is a step of an optimizer in which some tensor had a gradient."""
    facts = act.facts
    return isinstance(facts, StepAct) and facts.none != facts.many


class Acts:
    """All events of the program in a trace (table `act`)."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    @cached_property
    def all(self) -> tuple[Done[ActFacts], ...]:
        table, found = self.trace.table(Act), list[Done[ActFacts]]()
        said = {kind.KIND: self._facts(kind) for kind in ACTS.values() if self._has(kind)}
        nothing: Mapping[int, ActFacts] = {}
        for row in table.take(np.lexsort((table["id"], table["t"]))):
            if row.kind in ACTS:  # a later version may have more
                facts = said.get(row.kind, nothing).get(row.id) or ACTS[row.kind]()
                found.append(Done(
                    row.id, row.kind, row.t, row.of, row.tensors, row.module, row.inside, facts,
                    row.stack, row.step, row.task, row.thread,
                ))  # fmt: skip
        return tuple(found)

    def _has(self, kind: type[ActFacts]) -> bool:
        return len(self.trace.tables.get(kind.TABLE, ())) > 0

    def _facts(self, kind: type[F]) -> Mapping[int, F]:
        return {row.id: row for row in self.trace.rows(kind)}

    @cached_property
    def _by_kind(self) -> Mapping[type[ActFacts], list[Done[Any]]]:
        return grouped(self.all, lambda act: type(act.facts))

    @overload
    def of(self, kind: type[F], /) -> list[Done[F]]: ...
    @overload
    def of(self, one: type[F], two: type[G], /) -> list[Done[F] | Done[G]]: ...
    @overload
    def of(self, *kinds: type[ActFacts]) -> list[Done[Any]]: ...
    def of(self, *kinds: type[ActFacts]) -> list[Done[Any]]:
        """Acts of some kinds, by time."""
        if len(kinds) == 1:
            return self._by_kind.get(kinds[0], [])
        return [act for act in self.all if isinstance(act.facts, kinds)]

    @cached_property
    def by_id(self) -> Mapping[int, Done[ActFacts]]:
        return {act.id: act for act in self.all}

    @cached_property
    def optimizers(self) -> tuple[Optimizer, ...]:
        """All optimizers that were created or first seen in the trace."""
        added = grouped(self.of(ParamGroupAct), lambda act: act.of)
        steps = grouped(self.of(StepAct), lambda act: act.of)
        cleared = grouped(self.of(ZeroGradAct), lambda act: act.of)
        return tuple(
            Optimizer(
                act, act.facts.type,
                sum((group.tensors for group in added.get(act.id, ())), act.tensors),
                tuple(steps.get(act.id, ())), tuple(cleared.get(act.id, ())),
            )
            for act in self.of(OptimizerAct)
        )  # fmt: skip

    def site(self, act: Done[ActFacts]) -> Site:
        """The innermost line of the program at which it happened."""
        return site_of(self.trace, act.stack)

    def place(self, act: Done[ActFacts]) -> str:
        """Its line, as in "train.py:41"."""
        return self.site(act).place

    def called(self, act: Done[ActFacts]) -> str:
        """ ", called at train.py:41,": the calling line, if it was recorded."""
        sites = self.sites(act)
        return f", called{at(sites[1])}," if len(sites) > 1 else ""

    def sites(self, act: Done[ActFacts]) -> tuple[Site, ...]:
        """The recorded lines, from the innermost outwards; a single empty one if there are none."""
        return tuple(lines(self.trace, act.stack)) or (Site(),)


def brought(by: str) -> str:
    """The name of a call that creates a tensor from data, in words."""
    return "data converted to a tensor" if by in UNNAMED else by


def cut_in_words(by: str) -> str:
    """What cut a graph, as the program writes it: "detach()", ".data"."""
    if by == "data":
        return ".data"
    return f"{by}()" if by.isidentifier() else f"`{by}`"


@dataclass(frozen=True, slots=True)
class TensorOrigin:
    """The call that created a tensor from data."""

    act: Done[ActFacts]
    by: str  # "from_numpy"
    site: Site

    @property
    def words(self) -> str:
        """As in "from_numpy at train.py:8"."""
        return f"{brought(self.by)}{at(self.site)}"


class Origins:
    """The origins of tensors in a trace, as far as they were recorded."""

    def __init__(self, trace: Trace) -> None:
        self._acts = trace.once(Acts)

    @cached_property
    def _of(self) -> dict[int, Done[CameInAct]]:
        return {tensor: act for act in self._acts.of(CameInAct) for tensor in act.tensors}

    def of(self, tensor: int) -> TensorOrigin | None:
        """The origin of a tensor; None: not known, or a recorded call created it."""
        act = self._of.get(tensor)
        if act is None:
            return None
        return TensorOrigin(act, act.facts.by, self._acts.site(act))


def moved_by(act: Done[ActFacts], optimizer: Optimizer | None, tensor: int) -> tuple[float, float]:
    """The norms of the update of a parameter by a step, and of the parameter; NaN: not measured."""
    if optimizer is None or not isinstance(act.facts, StepAct):
        return math.nan, math.nan
    place = optimizer.tensors.index(tensor)
    listed = act.facts.moved, act.facts.size
    moved, size = (each[place] if place < len(each) else math.nan for each in listed)
    return moved, size


ALSO_NO = frozenset(("to", "grad", "training", "set_to_none", "strict", "keeps_random"))
"""Columns whose value False is information."""


def said_by(facts: ActFacts) -> Iterator[tuple[str, Any]]:
    """The columns with information, with their cells."""
    for column in columns(type(facts)):
        cell = getattr(facts, column.name)
        empty = column.name == "id" or cell in ("", (), NONE) or cell != cell  # noqa: PLR0124
        if not empty and (cell is not False or column.name in ALSO_NO):
            yield column.name, cell


def by_of(facts: ActFacts | None) -> str:
    """The method or operation of the act; "" for kinds that have none."""
    return getattr(facts, "by", "")


def stacks_of(trace: Trace, stack: int) -> Iterator[int]:
    """The ids of a stack and of those of its callers, from the innermost outwards."""
    return (row.id for row in trace.table(Stack).chain(stack, "parent"))


def lines(trace: Trace, stack: int) -> Iterator[Site]:
    """The lines of a stack, from the innermost outwards."""
    return (site_of(trace, each) for each in stacks_of(trace, stack))


def parameters(trace: Trace) -> dict[int, int]:
    """The module of each parameter, by the id of the tensor; the first one if it is shared."""
    found: dict[int, int] = {}
    for module in trace.rows(Module):
        for tensor in module.parameters:
            found.setdefault(tensor, module.id)
    return found
