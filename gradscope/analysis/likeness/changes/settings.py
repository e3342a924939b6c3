"""Changes of what the program calls besides operations: optimizers, seeds, clipping, modes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gradscope.analysis.identity.sites import Site
from gradscope.analysis.identity.steps import step_numbers
from gradscope.analysis.likeness.aspects import Both
from gradscope.analysis.likeness.changes.change import Change, ChangeKind, counted
from gradscope.analysis.lookups import grouped
from gradscope.analysis.program.acts import Acts, Done, Optimizer
from gradscope.trace.schema import (
    ActFacts,
    CheckpointAct,
    ClipAct,
    CutAct,
    GradOffAct,
    HookAct,
    RequiresGradAct,
    ScaleAct,
    ScheduleAct,
    SeedAct,
    TrainAct,
    ZeroGradAct,
)
from gradscope.trace.trace import Trace

GROUP_SETTINGS = ("lr", "weight_decay", "momentum")


def settings(both: Both) -> Iterator[Change]:
    """Changes of optimizers and seeds, and calls that only one of the programs has."""
    one, other = both.one.who.trace, both.other.who.trace
    yield from _optimizers(one, other)
    yield from _seeds(one, other)
    if one.meta.get("producer") == other.meta.get("producer"):
        yield from _calls(one, other)
    yield from _rates_of_steps(one, other)


# -- optimizers ---------------------------------------------------------------------------------


def _optimizers(one: Trace, other: Trace) -> Iterator[Change]:
    acts = one.once(Acts), other.once(Acts)
    before, now = (each.optimizers for each in acts)
    for was, is_ in _pairs(one, other):
        sites = _sites(one, other, was, is_)
        if was.type != is_.type:
            yield _setting(f"optimizer {was.type} → {is_.type}", sites)
        yield from _group_settings(was, is_, sites)
    for optimizer in before[len(now) :]:
        site = acts[0].site(optimizer.built)
        yield _setting(f"optimizer {optimizer.type} is gone", (site, Site()))
    for optimizer in now[len(before) :]:
        site = acts[1].site(optimizer.built)
        yield _setting(f"optimizer {optimizer.type} is new", (Site(), site))


def _group_settings(was: Optimizer, now: Optimizer, sites: tuple[Site, Site]) -> Iterator[Change]:
    """Settings that differ; of two types only those that both have."""
    alike = was.type == now.type
    for name in GROUP_SETTINGS:
        one, other = (getattr(each.built.facts, name) for each in (was, now))
        if not same(one, other) and (alike or not (nothing(one) or nothing(other))):
            yield _setting(f"{name} {values(one)} → {values(other)} ({now.type})", sites)


def _rates_of_steps(one: Trace, other: Trace) -> Iterator[Change]:
    """The first step whose learning rate differs, of optimizers created with the same one."""
    for was, now in _pairs(one, other):
        if not same(was.built.facts.lr, now.built.facts.lr):
            continue
        for a, b in zip(was.steps, now.steps, strict=False):
            if not same(a.facts.lr, b.facts.lr):
                step = one.once(step_numbers).get(a.step, a.step)
                words = f"lr {values(a.facts.lr)} → {values(b.facts.lr)} ({now.type})"
                yield _setting(f"{words} from step {step} on", _sites(one, other, was, now))
                break


def updated(both: Both) -> Iterator[Change]:
    """Optimizers that update another number of tensors."""
    one, other = both.one.who.trace, both.other.who.trace
    for was, now in _pairs(one, other):
        counts = [sum(each.built.facts.many) for each in (was, now)]
        if counts[0] != counts[1]:
            words = f"{now.type} updates {counts[0]:,} → {counted(counts[1], 'tensor')}"
            yield _setting(words, _sites(one, other, was, now))


def _pairs(one: Trace, other: Trace) -> Iterator[tuple[Optimizer, Optimizer]]:
    return zip(one.once(Acts).optimizers, other.once(Acts).optimizers, strict=False)


def _sites(one: Trace, other: Trace, was: Optimizer, now: Optimizer) -> tuple[Site, Site]:
    return one.once(Acts).site(was.built), other.once(Acts).site(now.built)


def same(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether two lists of settings are equal; NaN equals NaN."""
    pairs = zip(one, other, strict=False)
    return len(one) == len(other) and all(
        a == b or (math.isnan(a) and math.isnan(b)) for a, b in pairs
    )


def nothing(of: Sequence[float]) -> bool:
    """Whether an optimizer has no such setting."""
    return all(math.isnan(each) for each in of)


def values(of: Sequence[float]) -> str:
    """As in "0.1", or "0.1, 0.01" for groups that differ."""
    several = list(dict.fromkeys(f"{each:.6g}" for each in of))
    return ", ".join("none" if each == "nan" else each for each in several) or "none"


# -- seeds --------------------------------------------------------------------------------------


def _seeds(one: Trace, other: Trace) -> Iterator[Change]:
    """The first seed of each generator that differs, or that only one program sets."""
    acts = one.once(Acts), other.once(Acts)
    found = [
        grouped([act for act in of.of(SeedAct) if not act.facts.by], lambda act: act.facts.whose)
        for of in acts
    ]
    for whose in {**found[0], **found[1]}:
        before, now = (side.get(whose, []) for side in found)
        of = f" of {whose}" if whose else ""
        for was, is_ in zip(before, now, strict=False):
            if was.facts.seed != is_.facts.seed:
                words = f"seed{of} {was.facts.seed or 'unknown'} → {is_.facts.seed or 'unknown'}"
                yield _setting(words, (acts[0].site(was), acts[1].site(is_)))
                break
        if not now:
            yield _setting(f"no seed{of} is set any more", (acts[0].site(before[0]), Site()))
        if not before:
            yield _setting(
                f"a seed{of} is set, which was not before", (Site(), acts[1].site(now[0]))
            )


# -- calls --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CallKind:
    """A kind of call that a program makes or not: its name, and what tells two of them apart."""

    facts: type[ActFacts]
    name: Callable[[ActFacts], str]


def _said(text: str, *columns: str) -> Callable[[ActFacts], str]:
    return lambda facts: text.format(*(_value(getattr(facts, name)) for name in columns))


def _value(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


CALL_KINDS = (
    CallKind(ClipAct, _said("{}(max {})", "by", "max")),
    CallKind(ZeroGradAct, _said("zero_grad()")),
    CallKind(ScheduleAct, _said("scheduler {}", "type")),
    CallKind(CutAct, _said("{}()", "by")),
    CallKind(GradOffAct, _said("{}()", "by")),
    CallKind(RequiresGradAct, _said("requires_grad = {}", "to")),
    CallKind(TrainAct, _said("training = {}", "to")),
    CallKind(HookAct, _said("{}()", "by")),
    CallKind(CheckpointAct, _said("a checkpoint")),
    CallKind(ScaleAct, _said("a gradient scaler")),
)


def _calls(one: Trace, other: Trace) -> Iterator[Change]:
    """Calls of a kind that only one of the programs has, and those with another argument."""
    for kind in CALL_KINDS:
        gone, new = _only(kind, one, other), _only(kind, other, one)
        if len(gone) == len(new) == 1:
            (was, before), (now, after) = *gone.items(), *new.items()
            yield _setting(f"{was} → {now}", (before, after))
            continue
        for name, site in gone.items():
            yield _setting(f"{name} is gone", (site, Site()))
        for name, site in new.items():
            yield _setting(f"{name} is new", (Site(), site))


def _only(kind: CallKind, trace: Trace, others: Trace) -> dict[str, Site]:
    """The names of calls that a trace has and another does not, each with its first line."""
    there = {kind.name(each.facts) for each in others.once(Acts).of(kind.facts)}
    acts = trace.once(Acts)
    found: dict[str, Site] = {}
    each: Done[ActFacts]
    for each in acts.of(kind.facts):
        name = kind.name(each.facts)
        if name not in there and name not in found:
            found[name] = acts.site(each)
    return found


def _setting(words: str, sites: tuple[Site, Site]) -> Change:
    return Change(ChangeKind.SETTING, words, one=sites[0], other=sites[1])


def steps(both: Both) -> Iterator[Change]:
    """Another number of steps or of backwards."""
    numbers = [set(part.nodes["step"].tolist()) - {-1} for part in (both.one, both.other)]
    tasks = [len(part.tasks["step"]) for part in (both.one, both.other)]
    if all(numbers) and len(numbers[0]) != len(numbers[1]):
        words = f"{len(numbers[0]):,} → {counted(len(numbers[1]), 'step')}"
        yield Change(ChangeKind.STEPS, words)
    elif tasks[0] != tasks[1]:
        yield Change(ChangeKind.STEPS, f"{tasks[0]:,} → {counted(tasks[1], 'backward')}")
