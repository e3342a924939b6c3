"""The law of resuming: a run that goes on from a checkpoint does what the whole run did there."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any

from gradscope.analysis.identity.sites import Site
from gradscope.analysis.likeness.laws.happened import Happened, Key, MeasuredValue
from gradscope.analysis.program.acts import Acts
from gradscope.errors import UsageError
from gradscope.trace.schema import (
    NONE,
    LoadedAct,
    Op,
    ParameterSummary,
    Phase,
    Place,
    StepAct,
    StepSummary,
    Tensor,
    Value,
)
from gradscope.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class NotRestored:
    """A state that the resumed run does not have."""

    what: str  # "parameters"
    how: str  # what shows it
    one: str  # of the whole run
    other: str
    site: Site  # the line where it shows
    step: int  # of the whole run
    seen: bool  # it was recorded itself; if not, it is the only thing left that can differ


@dataclass(frozen=True, slots=True)
class Resumed:
    """A resumed run, compared with the whole one."""

    offset: int  # the step of the whole run at which the resumed one begins
    steps: int  # steps that were compared
    values: int
    hashes: int
    lost: tuple[NotRestored, ...]
    loads: tuple[Site, ...]  # lines of the resumed run that load a module's state


class StepStates:
    """The state at each step of a run: before it, in it and after it."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.happened = Happened(trace)

    @cached_property
    def ids(self) -> list[int]:
        """Ids of the steps that ended with a step of an optimizer."""
        stepped = {act.step for act in self.trace.once(Acts).of(StepAct)}
        return [row.step for row in self.trace.rows(StepSummary) if row.step in stepped]

    def leaves(self, step: int, *, trained: bool) -> Mapping[str, tuple[Any, ...]]:
        """Of parameters, the last value before a step; of other leaves, the first one in it."""
        if not trained:
            return self._data.get(step, {})
        end = next((act.t for act in self.trace.once(Acts).of(StepAct) if act.step == step), 0)
        return {
            name: values[before - 1][1]
            for name, values in self._parameters.items()
            if (before := bisect_left(values, end, key=itemgetter(0)))
        }

    def sizes(self, step: int) -> Mapping[str, float]:
        """The norm of each parameter before a step, with few digits, as its optimizer saw it."""
        table, found = self.trace.table(Tensor), dict[str, float]()
        for optimizer in self.trace.once(Acts).optimizers:
            for act in optimizer.steps:
                pairs = zip(optimizer.tensors, act.facts.size, strict=False)
                if act.step == step:
                    found |= {table.row(t).name: size for t, size in pairs if table.has(t)}
        return found

    @cached_property
    def _data(self) -> Mapping[int, dict[str, tuple[Any, ...]]]:
        found: dict[int, dict[str, tuple[Any, ...]]] = {}
        for name, row, said in self._leaves(trained=False):
            found.setdefault(row.step, {}).setdefault(name, said)
        return found

    @cached_property
    def _parameters(self) -> Mapping[str, list[tuple[int, tuple[Any, ...]]]]:
        """The values of each parameter, with their times: there is one where it has changed."""
        found: dict[str, list[tuple[int, tuple[Any, ...]]]] = {}
        for name, row, said in self._leaves(trained=True):
            found.setdefault(name, []).append((row.t, said))
        return found

    def _leaves(self, *, trained: bool) -> Iterator[tuple[str, Value, tuple[Any, ...]]]:
        table = self.trace.table(Tensor)
        for row in sorted(self.trace.rows(Value), key=lambda row: row.t):
            if row.place == Place.LEAF and row.node == NONE and table.has(row.tensor):
                leaf = table.row(row.tensor)
                if leaf.requires_grad == trained:
                    name = leaf.name or f"a tensor {leaf.dtype} {list(leaf.shape)}"
                    numbers = row.min, row.max, row.mean, row.norm
                    yield name, row, (row.count, row.nan, row.zero, *map(repr, numbers))

    def rates(self, step: int) -> list[tuple[float, ...]]:
        """The learning rates of each step of an optimizer in this step."""
        return [act.facts.lr for act in self.trace.once(Acts).of(StepAct) if act.step == step]

    def random(self, step: int) -> list[int]:
        """Digests of the random generator's state after steps of optimizers in this step."""
        states = [act.facts.random for act in self.trace.once(Acts).of(StepAct) if act.step == step]
        return [state for state in states if state != NONE]

    def site(self, step: int) -> Site:
        """The line of the optimizer's step."""
        acts = self.trace.once(Acts)
        return next((acts.site(act) for act in acts.of(StepAct) if act.step == step), Site())

    def parameters(self, step: int) -> Mapping[str, ParameterSummary]:
        """The parameters after a step, by name."""
        table = self.trace.table(Tensor)
        return {
            table.row(row.tensor).name: row
            for row in self.trace.rows(ParameterSummary)
            if row.step == step and table.has(row.tensor)
        }

    def outputs(self, step: int) -> list[tuple[Key, MeasuredValue]]:
        """What the calls of a step returned, except the optimizer's own, each with its name."""
        return self._outputs.get(step, [])

    @cached_property
    def _outputs(self) -> Mapping[int, list[tuple[Key, MeasuredValue]]]:
        found: dict[int, list[tuple[Key, MeasuredValue]]] = {}
        ops = self.trace.table(Op)
        for value in sorted(self.happened.values.values(), key=lambda each: each.t):
            if value.op != NONE and ops.row(value.op).phase != Phase.OPTIMIZER:
                key = value.words, value.module
                found.setdefault(value.step, []).append((key, value))
        return found


def resumed(whole: Trace, rest: Trace) -> Resumed:
    """Compare the last steps of a whole run with those of a run that resumed before them."""
    runs = StepStates(whole), StepStates(rest)
    offset = len(runs[0].ids) - len(runs[1].ids)
    if not runs[1].ids or offset < 0:
        raise UsageError(
            "the second trace must be the run that was resumed: it has "
            f"{len(runs[1].ids)} steps of optimizers, the first {len(runs[0].ids)}"
        )
    pairs = list(zip(runs[0].ids[offset:], runs[1].ids, strict=True))
    lost, values, hashes, steps = list[NotRestored](), 0, 0, 0
    for pair in pairs:
        steps += 1
        found = list(_lost(runs, pair))
        values += len(runs[0].outputs(pair[0])) + len(runs[0].leaves(pair[0], trained=True))
        hashes += len(runs[0].parameters(pair[0]))
        lost += found
        if found:
            break
    acts = rest.once(Acts)
    loads = dict.fromkeys(acts.site(act) for act in acts.of(LoadedAct))
    return Resumed(offset, steps, values, hashes, tuple(lost), tuple(loads))


def _lost(runs: tuple[StepStates, StepStates], pair: tuple[int, int]) -> Iterator[NotRestored]:
    """What differs in one step, without what follows from it."""
    before = _other_leaves(runs, pair, trained=True)
    sizes = runs[0].sizes(pair[0]), runs[1].sizes(pair[1])
    larger = [
        name for name, size in sizes[0].items() if repr(sizes[1].get(name, size)) != repr(size)
    ]
    data = _other_leaves(runs, pair, trained=False)
    site = runs[1].site(pair[1])
    if before:
        yield _of_leaves("parameters", before, runs, pair, site)
    elif larger:
        a, b = (f"{larger[0]} with norm {each[larger[0]]:.4g}" for each in sizes)
        yield NotRestored("parameters", _before(larger), a, b, site, pair[0], seen=True)
    rates = runs[0].rates(pair[0]), runs[1].rates(pair[1])
    if repr(rates[0]) != repr(rates[1]):
        one, other = (", ".join(str(rate) for of in side for rate in of) for side in rates)
        how = "the step's learning rate differs: the scheduler, or the optimizer's groups"
        yield NotRestored("learning rate", how, one, other, site, pair[0], seen=True)
    states = runs[0].random(pair[0]), runs[1].random(pair[1])
    random = bool(states[0] and states[1]) and states[0] != states[1]
    if random:
        how = "the state of the engine's generator differs after the step"
        yield NotRestored("random state", how, "", "", site, pair[0], seen=True)
    elif data:  # data that is drawn, and masks, follow from the generator
        yield _of_leaves("data", data, runs, pair, site)
    if before or larger or data:
        return  # what calls return, and gradients, follow from them
    apart = _first_output(runs, pair)
    if apart is not None:
        if not random:
            mine, theirs = apart
            how = f"parameters are the same, and {mine.words} is not"
            said = _numbers(mine, theirs), _numbers(theirs, mine)
            what = "data, buffers or mode"
            yield NotRestored(what, how, *said, theirs.site, pair[0], seen=False)
        return
    calls = [len(outputs) for outputs in _outputs(runs, pair)]
    if calls[0] != calls[1]:
        how = "the step has another number of results of calls"
        yield NotRestored("calls", how, f"{calls[0]}", f"{calls[1]}", site, pair[0], seen=True)
    elif repr(rates[0]) == repr(rates[1]):
        yield from _optimizer(runs, pair, site)


def _optimizer(
    runs: tuple[StepStates, StepStates], pair: tuple[int, int], site: Site
) -> Iterator[NotRestored]:
    """An optimizer that moved a parameter differently, with the same gradient and rate."""
    one, other = runs[0].parameters(pair[0]), runs[1].parameters(pair[1])
    names = [name for name in one if name in other and one[name].bits != other[name].bits]
    if not names:
        return
    grads = [name for name in names if repr(one[name].gradient) != repr(other[name].gradient)]
    if grads:
        how = f"the gradient of {_listed(grads)} differs, and nothing before it"
        a, b = (f"norm {each[grads[0]].gradient:.6g}" for each in (one, other))
        yield NotRestored("gradients", how, a, b, site, pair[0], seen=True)
        return
    how = (
        f"the step moved {_listed(names)} differently, with the same parameters, gradients "
        "and learning rate"
    )
    a, b = (f"update {each[names[0]].update:.6g}" for each in (one, other))
    yield NotRestored("optimizer state", how, a, b, site, pair[0], seen=False)


def _other_leaves(
    runs: tuple[StepStates, StepStates], pair: tuple[int, int], *, trained: bool
) -> list[str]:
    one, other = (run.leaves(step, trained=trained) for run, step in zip(runs, pair, strict=True))
    return [name for name in one if name in other and one[name] != other[name]]


def _of_leaves(
    what: str,
    names: list[str],
    runs: tuple[StepStates, StepStates],
    pair: tuple[int, int],
    site: Site,
) -> NotRestored:
    trained = what == "parameters"
    a, b = (
        f"{names[0]} with norm {float(run.leaves(step, trained=trained)[names[0]][-1]):.9g}"
        for run, step in zip(runs, pair, strict=True)
    )
    return NotRestored(what, _before(names), a, b, site, pair[0], seen=True)


def _before(names: list[str]) -> str:
    return f"{_listed(names)} {'differ' if len(names) > 1 else 'differs'} before the step"


def _first_output(
    runs: tuple[StepStates, StepStates], pair: tuple[int, int]
) -> tuple[MeasuredValue, MeasuredValue] | None:
    """The first value that a call returned in one run only with these bits."""
    sides = _outputs(runs, pair)
    for (key, one), (others, other) in zip(*sides, strict=False):
        if key != others or one.content != other.content:
            return one, other
    return None


def _outputs(
    runs: tuple[StepStates, StepStates], pair: tuple[int, int]
) -> tuple[list[tuple[Key, MeasuredValue]], list[tuple[Key, MeasuredValue]]]:
    """What the calls of one step returned; of a first step, without what came before."""
    one, other = runs[0].outputs(pair[0]), runs[1].outputs(pair[1])
    if pair[1] == runs[1].ids[0] and len(other) > len(one):  # it builds and loads the model, too
        other = other[-len(one) :] if one else []
    return one, other


def _numbers(one: MeasuredValue, other: MeasuredValue) -> str:
    pairs = zip(one.facts, other.facts, strict=True)
    apart = [f"{name} {value:.9g}" for (name, value), (_, of) in pairs if repr(value) != repr(of)]
    return ", ".join(apart[:2])


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    return f"{', '.join(names[:MOST])}{more}"


MOST = 3
