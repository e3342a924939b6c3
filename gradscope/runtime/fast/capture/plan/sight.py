"""The display form of a plan: calls, arrays, fused kernels, guards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from gradscope.runtime.fast.capture.recording.trees import made_by, read_by

if TYPE_CHECKING:
    from gradscope.runtime.fast.capture.plan.fusing import Chain
    from gradscope.runtime.fast.capture.plan.plan import ReplayPlan
    from gradscope.runtime.fast.capture.plan.playing import Played


@dataclass(frozen=True, slots=True)
class CallSeen:
    """One call of a plan."""

    label: str
    part: str
    line: str
    reads: tuple[int, ...]
    makes: tuple[int, ...]
    kernel: int  # calls with the same number are one compiled loop; -1: none
    formula: str
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class BufferSeen:
    """One array of a plan."""

    number: int
    shape: tuple[int, ...]
    dtype: Any
    bytes: int
    role: str
    name: str
    tensor: int  # index among the tensors that the plan reaches or receives; -1: none


@dataclass(frozen=True, slots=True)
class Sight:
    """A whole plan."""

    calls: tuple[CallSeen, ...]
    buffers: tuple[BufferSeen, ...]
    guards: tuple[str, ...]


def sight_of(plan: ReplayPlan) -> Sight:
    """The display form of a plan."""
    return Sight(tuple(_calls(plan)), tuple(_buffers(plan)), tuple(_guards(plan)))


def _calls(plan: ReplayPlan) -> Iterator[CallSeen]:
    in_one_call: list[Chain | Played] = [*plan.chains, *plan.played]
    kernels = {
        several.first + nr: (number, line)
        for number, several in enumerate(in_one_call)
        for nr, line in enumerate(several.lines)
    }
    for number, join in enumerate(plan.joins, len(in_one_call)):
        for nr in range(join.count):
            kernels[join.first + nr] = (number, join.call.label)
    for place, call in enumerate(plan.calls):
        reads = read_by(call)
        kernel, formula = kernels.get(place, (-1, ""))
        yield CallSeen(
            call.label, call.part, call.line, tuple(dict.fromkeys(reads)), tuple(made_by(call)),
            kernel, formula, call.begin, call.end,
        )  # fmt: skip


def _buffers(plan: ReplayPlan) -> Iterator[BufferSeen]:
    constants = {call.made for call in plan.calls if call.label == "constant"}
    wanted = set(plan.results.wanted)
    used = {nr for call in _calls(plan) for nr in (*call.reads, *call.makes)} | wanted
    for nr in sorted(used):
        facts = plan.facts[nr]
        role, name, tensor = plan.named.get(nr, ("made", "", -1))
        if nr in constants:
            role = "constant"
        elif nr in wanted and role == "made":
            role = "result"
        size = prod(facts.shape) * facts.dtype.itemsize
        yield BufferSeen(nr, facts.shape, facts.dtype, size, role, name, tensor)


def _guards(plan: ReplayPlan) -> Iterator[str]:
    guards = plan.guards
    for leaf in guards.arguments.leaves:
        if not isinstance(leaf.value, (list, tuple, dict)):
            yield leaf.place
    for state in guards.states:
        yield f"{state.name}: memory, requires_grad, hooks, .grad"
    yield from (holding.name for holding in guards.holdings)
