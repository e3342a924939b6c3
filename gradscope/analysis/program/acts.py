"""What the program did that is no operation, in the order in which it did it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import orjson

from gradscope.analysis.identity.sites import Site, at, site_of
from gradscope.trace.schema import NONE, Act, Deed, Module, Stack
from gradscope.trace.trace import Trace

UNNAMED = frozenset(("", "lift_fresh"))
"""What PyTorch calls to take numbers in, whoever asked for it."""

BRING_IN = UNNAMED | {
    "tensor", "as_tensor", "asarray", "from_numpy", "frombuffer", "from_dlpack", "Tensor",
    "FloatTensor", "DoubleTensor", "load", "full", "new_tensor", "new_full", "empty", "new_empty",
}  # fmt: skip
"""Calls whose result holds what they are given, or what nobody has written."""

NUMBER = int, float
OR_NULL = int, float, type(None)
SCALAR = str, int, float
NUMBERS = frozenset(
    ("alpha", "dim", "high", "kept", "last", "longest", "low", "many", "max", "none", "norm", "off",
     "place", "side", "steps", "times")
)  # fmt: skip
TEXTS = frozenset(
    ("by", "container", "hook", "name", "signs", "text", "type", "value", "what", "when", "within")
)
LISTS: Mapping[str, type | tuple[type, ...]] = {
    "alike": list, "callers": int, "dims": int, "drew": str, "first": OR_NULL, "grad": OR_NULL,
    "groups": dict, "left": str, "lr": OR_NULL, "missing": str, "moved": OR_NULL, "size": OR_NULL,
    "stack": int, "there": OR_NULL, "to": NUMBER, "unexpected": str, "weight_decay": OR_NULL,
    "words": str,
}  # fmt: skip
"""Facts that are lists, by the type of their items."""
EITHER = frozenset(("grad", "there", "to"))
"""Lists of one kind of act, and single values of another."""


@dataclass(frozen=True, slots=True)
class Done:
    """One act; `facts` are those that `Deed` names for its kind."""

    id: int
    kind: Deed
    t: int
    of: int
    tensors: tuple[int, ...]
    module: int
    inside: int
    facts: Mapping[str, Any]
    stack: int
    step: int
    task: int
    thread: int


@dataclass(frozen=True, slots=True)
class Optimizer:
    """An optimizer, as it was built and added to."""

    built: Done
    type: str
    tensors: tuple[int, ...]
    steps: tuple[Done, ...]
    cleared: tuple[Done, ...]  # its own zero_grad


class Acts:
    """All acts of a trace."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    @cached_property
    def all(self) -> tuple[Done, ...]:
        """All, by time."""
        kinds = {kind.value: kind for kind in Deed}
        facts: dict[str, Mapping[str, Any]] = {"": {}}
        found = []
        table = self.trace.table(Act)
        for row in table.take(np.lexsort((table["id"], table["t"]))):
            if row.facts not in facts:
                facts[row.facts] = act_facts(row.facts)
            if row.kind in kinds:  # of a later version there may be more
                found.append(Done(
                    row.id, kinds[row.kind], row.t, row.of, row.tensors, row.module, row.inside,
                    facts[row.facts], row.stack, row.step, row.task, row.thread,
                ))  # fmt: skip
        return tuple(found)

    @cached_property
    def _by_kind(self) -> Mapping[Deed, list[Done]]:
        found: dict[Deed, list[Done]] = defaultdict(list)
        for act in self.all:
            found[act.kind].append(act)
        return found

    def of(self, *kinds: Deed) -> list[Done]:
        """Those of some kinds, by time."""
        if len(kinds) == 1:
            return self._by_kind.get(kinds[0], [])
        return [act for act in self.all if act.kind in kinds]

    @cached_property
    def by_id(self) -> Mapping[int, Done]:
        return {act.id: act for act in self.all}

    @cached_property
    def optimizers(self) -> tuple[Optimizer, ...]:
        """All that were built, or met."""
        added: dict[int, list[int]] = defaultdict(list)
        steps: dict[int, list[Done]] = defaultdict(list)
        cleared: dict[int, list[Done]] = defaultdict(list)
        for act in self.of(Deed.PARAM_GROUP):
            added[act.of] += act.tensors
        for act in self.of(Deed.STEP):
            steps[act.of].append(act)
        for act in self.of(Deed.ZERO_GRAD):
            if act.of != NONE:
                cleared[act.of].append(act)
        return tuple(
            Optimizer(
                act, str(act.facts.get("type", "optimizer")), (*act.tensors, *added[act.id]),
                tuple(steps[act.id]), tuple(cleared[act.id]),
            )
            for act in self.of(Deed.OPTIMIZER)
        )  # fmt: skip

    def site(self, act: Done) -> Site:
        """The innermost line of the program's on which it was done."""
        return site_of(self.trace, act.stack)

    def sites(self, act: Done) -> tuple[Site, ...]:
        """The lines from there outwards, as many as were kept; one that is empty, if none was."""
        return tuple(lines(self.trace, act.stack)) or (Site(),)


def brought(by: str) -> str:
    """What a call that brings numbers in is called."""
    return "data that is made a tensor" if by in UNNAMED else by


@dataclass(frozen=True, slots=True)
class Origin:
    """The call that brought a tensor in."""

    act: Done
    by: str  # "from_numpy"
    site: Site

    @property
    def words(self) -> str:
        """As in "from_numpy at train.py:8"."""
        return f"{brought(self.by)}{at(self.site)}"


class Origins:
    """Those of a trace, as far as they were seen."""

    def __init__(self, trace: Trace) -> None:
        self._acts = trace.once(Acts)

    @cached_property
    def _of(self) -> dict[int, Done]:
        return {tensor: act for act in self._acts.of(Deed.CAME_IN) for tensor in act.tensors}

    def of(self, tensor: int) -> Origin | None:
        """Where this one was made; None: that is not known, or a call that is told of did."""
        act = self._of.get(tensor)
        if act is None:
            return None
        return Origin(act, str(act.facts.get("by", "")), self._acts.site(act))


def moved_by(step: Done, optimizer: Optimizer | None, tensor: int) -> tuple[float, float]:
    """The norms of what a step added to a parameter, and of it before; NaN where not looked at."""
    if optimizer is None:
        return math.nan, math.nan
    place = optimizer.tensors.index(tensor)
    listed = (step.facts.get(name) or [] for name in ("moved", "size"))
    found = [each[place] if place < len(each) else None for each in listed]
    moved, size = (math.nan if each is None else float(each) for each in found)
    return moved, size


def stacks_of(trace: Trace, stack: int) -> Iterator[int]:
    """A stack, that of its caller, and so on outwards."""
    return (row.id for row in trace.table(Stack).chain(stack, "parent"))


def lines(trace: Trace, stack: int) -> Iterator[Site]:
    """The lines of a stack, from the innermost outwards."""
    return (site_of(trace, each) for each in stacks_of(trace, stack))


def parameters(trace: Trace) -> dict[int, int]:
    """Parameters of modules by their tensor ids: the module that has each, the first met."""
    found: dict[int, int] = {}
    for module in trace.rows(Module):
        for tensor in module.parameters:
            found.setdefault(tensor, module.id)
    return found


def act_facts(text: str) -> Mapping[str, Any]:
    """What `act.facts` says. A fact that is null, or of another type, is left out."""
    found = orjson.loads(text or "{}")
    return {name: value for name, value in found.items() if _is_expected(name, value)}


def _is_expected(name: str, value: object) -> bool:
    if isinstance(value, list):
        return name in LISTS and all(isinstance(v, LISTS[name]) for v in value)
    if name in LISTS and name not in EITHER:
        return False
    if name in NUMBERS:
        return isinstance(value, NUMBER)
    return isinstance(value, str if name in TEXTS else SCALAR)
