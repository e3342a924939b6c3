"""Rules about which parameters are trained."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from gradscope.analysis.findings import Certainty, Evidence, few_tensors
from gradscope.analysis.identity.sites import Site, at
from gradscope.analysis.program.acts import Done, cut_in_words
from gradscope.analysis.program.calls import Calls
from gradscope.analysis.program.training import Training
from gradscope.analysis.rules.own_line import code_of
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.rules.trained.forwards import Forwards, looked_up, only_looked_at
from gradscope.analysis.rules.trained.switched_off import named as blocks, off_before_steps
from gradscope.trace.schema import (
    NONE,
    CutAct,
    DataSetAct,
    DataWrittenAct,
    GradOffAct,
    RanAct,
    Tensor,
)  # fmt: skip
from gradscope.trace.trace import Trace

REMOVED = {"detach": ".detach()", "data": ".data", "item": ".item()"}
"""What is removed from a line to keep the graph."""

MOST = 0.5
"""Share of the parameters before a cut that get no gradient, from which the cut explains it."""


@rule("GS401", "graph-cut")
def graph_cut(trace: Trace) -> Iterator[Found]:
    """Parameters of an optimizer get no gradient, because the graph was cut after them.

    `detach()`, `.data`, `item()`, `tolist()`, `numpy()` and `no_grad()` return tensors or numbers
    without a graph: what was computed before them learns nothing. The finding names the line of the
    cut.

    Bad:
        first, second = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            hidden = first(torch.ones(3, 2)).detach()
            second(hidden).sum().backward()
            optimizer.step()

    Good:
        first, second = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            hidden = first(torch.ones(3, 2))
            second(hidden).sum().backward()
            optimizer.step()
    """
    yield from trace.once(graph_cuts)


def graph_cuts(trace: Trace) -> tuple[Found, ...]:
    """The findings of GS401, which others refer to."""
    return (*_graph_cuts(trace),)


def _graph_cuts(trace: Trace) -> Iterator[Found]:
    training = trace.once(Training)
    missing = never_reached(training) - training.behind_a_loss
    for each in looked_up(trace) if missing else ():
        missing -= each.behind(trace.once(Calls))  # GS419 reports it
    if not missing:
        return
    by_cut: dict[tuple[str, str], list[tuple[Done[CutAct], set[int]]]] = defaultdict(list)
    explained: set[int] = set()
    for act, lost in _cuts(training, missing):
        site = training.acts.site(act)
        by_cut[site.place, act.facts.by].append((act, lost))
        explained |= lost
    by_lost: dict[frozenset[int], list[list[Done[CutAct]]]] = defaultdict(list)
    for acts in by_cut.values():
        together = frozenset[int]().union(*(each for _, each in acts))
        by_lost[together].append([act for act, _ in acts])
    for leaves, several in by_lost.items():
        first, *others = sorted(
            several, key=lambda acts: (_rank(acts[0]), _of_another(training, leaves, acts[0]))
        )
        also = [acts[0] for acts in others] or _choices(training, leaves, first[0])
        yield _of_cut(training, first, set(leaves), also)
    for found, lost in (*_without_grad(training, missing - explained),):
        explained |= lost
        yield found
    yield from _sampled(training, missing - explained)


def explained(training: Training, missing: set[int]) -> set[int]:
    """Those parameters for which GS401 explains why no gradient reaches them."""
    found = set().union(*(lost for _, lost in _cuts(training, missing)))
    found = found.union(*(lost for _, lost in _without_grad(training, missing - found)))
    sampled = any(act.facts.by in SAMPLES for act in training.acts.of(GradOffAct))
    return missing if sampled else found


def never_reached(training: Training) -> set[int]:
    """Parameters of optimizers that could learn but got no gradient, though others did."""
    held = {tensor for each in training.stepped for tensor in each.tensors}
    tensors = training.trace.table(Tensor)  # one without elements may be on another rank
    empty = tensors["id"][tensors["bytes"] == 0].tolist()
    can = held & training.thawed - training.frozen.union(empty)
    reached = training.reached - training.roots
    return can - training.sharing_memory(training.reached) - training.sharded if reached else set()


def _cuts(training: Training, missing: set[int]) -> Iterator[tuple[Done[CutAct], set[int]]]:
    """The cuts that explain these best: with the largest share of them before the cut."""
    best: dict[int, list[tuple[float, Done[CutAct]]]] = defaultdict(list)
    looks = only_looked_at(training.trace)
    own = {each for act in training.acts.of(DataWrittenAct, DataSetAct) for each in act.tensors}
    for act in training.acts.of(CutAct):
        lost = missing.intersection(act.tensors)
        place, by = training.acts.place(act), act.facts.by
        if by == "data" and lost & own:
            continue
        if lost and act.task == NONE and (place, by) not in looks:
            share = len(lost) / len(act.tensors)
            for tensor in lost:
                best[tensor].append((share, act))
    forwards = training.trace.once(Forwards)
    best = {tensor: _not_aside(found, forwards) for tensor, found in best.items()}
    chosen: dict[int, tuple[Done[CutAct], set[int]]] = {}
    for tensor, found in best.items():
        most = max((share for share, _ in found), default=0.0)
        for share, act in found:
            if share == most:
                chosen.setdefault(act.id, (act, set()))[1].add(tensor)
    yield from chosen.values()


def _not_aside(
    found: list[tuple[float, Done[CutAct]]], forwards: Forwards
) -> list[tuple[float, Done[CutAct]]]:
    """The cuts without those whose result was only looked at.

    A result that is cut after its backward and before anything else is computed with a graph is
    read for a log; a cut after the last backward takes nothing from it. If parameters also lead to
    a cut before which most get no gradient, other cuts only made a copy on the side, as for a
    print.
    """
    found = [each for each in found if forwards.between(each[1].t) or forwards.takes(each[1])]
    on = [each for each in found if len(each[1].tensors) > 1 and each[0] >= MOST]
    return on or found


def _choices(training: Training, lost: frozenset[int], other: Done[CutAct]) -> list[Done[CutAct]]:
    """Choices (such as argmax) in a module that may be all that was passed on.

    One for each line.
    """
    found: dict[str, Done[CutAct]] = {}
    for act in training.acts.of(CutAct):
        if act.inside != NONE and lost <= set(act.tensors) and not _rank(act) and act is not other:
            found.setdefault(training.acts.place(act), act)
    return list(found.values())


def _of_another(training: Training, lost: frozenset[int], act: Done[CutAct]) -> bool:
    """Whether the next step after a cut is by an optimizer that holds none of the lost ones."""
    after = (step.t for each in training.stepped for step in each.steps if step.t > act.t)
    now = min(after, default=0)
    own = (each for each in training.stepped if lost.intersection(each.tensors))
    return now not in {step.t for each in own for step in each.steps}


def _rank(act: Done[CutAct]) -> int:
    """How unlikely a cut is a mistake, among several that cut the same."""
    return {"detach": 1, "data": 1, "item": 2, "tolist": 2, "numpy": 2}.get(act.facts.by, 0)


def _of_cut(
    training: Training, acts: list[Done[CutAct]], lost: set[int], others: list[Done[CutAct]]
) -> Found:
    act, by = acts[0], acts[0].facts.by
    site = training.acts.site(act)
    called = cut_in_words(by)
    times = f", {len(acts)} times" if len(acts) > 1 else ""
    return Found(
        message=f"{training.named(lost)} {_get(lost)} no gradient: {called} cut the graph after "
        f"{'them' if len(lost) > 1 else 'it'}{at(site)}{times}"
        + "".join(
            f", and {cut_in_words(each.facts.by)}{at(training.acts.site(each))}"
            for each in others[:2]
        ),
        site=site,
        evidence=tuple(Evidence("act", each.id) for each in acts[:3]),
        why=f"the optimizer holds {'them' if len(lost) > 1 else 'it'}, the cut tensor was computed "
        f"from {'them' if len(lost) > 1 else 'it'}, but none of {training.backwards} backwards "
        f"reached {'them' if len(lost) > 1 else 'it'}",
        fix=_uncut(site, by, "they" if len(lost) > 1 else "it"),
        certainty=Certainty.INFERRED,
        parameters=frozenset(lost),
    )


CUTS_TOO = re.compile(r"\bnp\.|\bnumpy\b|\.tolist\(|\.item\(|torch\.(?:tensor|from_numpy)\(")
"""A line with one of these has no graph after its other cut is removed either."""


def _uncut(site: Site, by: str, they: str) -> str:
    part = REMOVED.get(by, "")
    cuts_twice = CUTS_TOO.search(site.text.replace(part, "")) is not None
    if part and part in site.text and not cuts_twice:
        return f"if {they} should learn, write `{code_of(site.text).replace(part, '')}`"
    if cuts_twice or by in ("tolist", "numpy"):
        return f"if {they} should learn, keep using tensors: `torch.stack`, `torch.where`, indexing"
    return f"if {they} should learn, keep the tensor with its graph"


def _without_grad(training: Training, missing: set[int]) -> Iterator[tuple[Found, set[int]]]:
    """Findings about modules that only ran where gradients were switched off."""
    ran: dict[int, set[bool]] = defaultdict(set)
    where: dict[int, Done[RanAct]] = {}
    for act in training.acts.of(RanAct):
        ran[act.module].add(act.facts.grad)
        where.setdefault(act.module, act)
    lost: dict[str, tuple[Done[RanAct], set[int]]] = {}
    for tensor in missing:
        module = training.parameters.get(tensor, NONE)
        if ran.get(module) == {False}:
            act = where[module]
            place = training.acts.place(act)
            lost.setdefault(place, (act, set()))[1].add(tensor)
    for act, tensors in lost.values():
        site = training.acts.site(act)
        every = training.acts.of(GradOffAct)
        off = off_before_steps(training, tensors) or [e for e in every if e.t <= act.t][-1:]
        lines = " and".join(at(training.acts.site(each)) for each in off)
        said = f"; gradients were switched off{lines}" if off else ""
        found = Found(
            message=f"{training.named(tensors)} {_get(tensors)} no gradient: the module only ran "
            f"under no_grad(){at(site)}{said}",
            site=site,
            evidence=(Evidence("act", act.id), *(Evidence("act", each.id) for each in off)),
            why="without gradients, no graph is recorded that a backward could traverse",
            fix=f"call it outside {blocks(training, off) or '`torch.no_grad()`'} while training",
            certainty=Certainty.INFERRED,
            parameters=frozenset(tensors),
        )
        yield found, tensors


SAMPLES = ("sample", "sample_n")


def _sampled(training: Training, missing: set[int]) -> Iterator[Found]:
    """Samples of distributions have no graph; those of `rsample` have one."""
    told: set[str] = set()
    for act in training.acts.of(GradOffAct):
        by, site = act.facts.by, training.acts.site(act)
        if missing and by in SAMPLES and site.place not in told:
            told.add(site.place)
            yield Found(
                message=f"{training.named(missing)} {_get(missing)} no gradient: {by}(){at(site)} "
                "cuts the graph",
                site=site,
                evidence=(Evidence("act", act.id), *few_tensors(training.trace, missing)),
                why="a sample is drawn under no_grad(), so no graph leads back to the "
                "parameters of its distribution",
                fix=f"write `{site.text.replace(f'.{by}(', '.rsample(')}`, where the distribution "
                "supports it; otherwise use `log_prob` of the sample (as in REINFORCE)",
                certainty=Certainty.SUSPECTED,
                parameters=frozenset(missing),
            )


def _get(tensors: set[int]) -> str:
    return "get" if len(tensors) > 1 else "gets"
