"""Rules about weights that were meant to be copied."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from gradscope.analysis.findings import Certainty, Evidence, few_tensors
from gradscope.analysis.identity.sites import Site, at, site_of
from gradscope.analysis.lookups import grouped
from gradscope.analysis.program.acts import Done
from gradscope.analysis.program.training import Training
from gradscope.analysis.rules.own_line import code_of
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.source.averages import Average, averages
from gradscope.analysis.source.files import InSource, SourceFiles
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import (
    ActFacts,
    AddedToItselfAct,
    LoadedAct,
    LoadedItselfAct,
    StatementAct,
    StateTakenAct,
    Version,
)
from gradscope.trace.trace import Trace

STEPS = 2
"""In how many steps a parameter must be added to itself: once may be intended."""

FEW = 20
"""Number of loads of a line that are checked: a loop repeats itself."""

FORGETS = 0.1
"""An average that keeps at most this fraction of itself at each update is hardly one."""

AVERAGED = re.compile(
    r"ema|avg|average|running|shadow|teacher|target|momentum|cent(er|re)|mean|var"
)
"""Names of averages, where no method shows that it is one."""

ALIASES = re.compile(r"(\.data|\.detach\(\))(?!\.clone)")
"""Expressions that give the same memory another name."""


@rule("GS917", "not-a-copy", reads=("act",))
def not_a_copy(trace: Trace) -> Iterator[Found]:
    """What was meant as a copy of the weights shares their memory: it changes with them.

    `.data`, `detach()` and the tensors of `state_dict()` share the memory of the parameters. An
    average kept in them is written into the model, and a state that was saved for later restores
    nothing. `clone()`, or `copy.deepcopy` of a state, makes a copy.

    Bad:
        w = torch.ones(3, requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=0.1)
        average = {"w": w.data}
        for _ in range(3):
            optimizer.zero_grad()
            (w * w).sum().backward()
            optimizer.step()
            with torch.no_grad():
                average["w"].mul_(0.9).add_(w, alpha=0.1)

    Good:
        w = torch.ones(3, requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=0.1)
        average = {"w": w.data.clone()}
        for _ in range(3):
            optimizer.zero_grad()
            (w * w).sum().backward()
            optimizer.step()
            with torch.no_grad():
                average["w"].mul_(0.9).add_(w, alpha=0.1)
    """
    training = trace.once(Training)
    every = training.acts.of(AddedToItselfAct)
    added = (act for act in every if act.facts.by == "lerp_" or act.facts.alpha > 0)
    for acts in grouped(added, training.acts.place).values():
        many = len({act.step for act in acts})
        if many >= STEPS and _stepped_between(training, acts[0], acts[-1]):
            yield _averaged(training, acts, many)
    for loads in grouped(training.acts.of(LoadedItselfAct), training.acts.place).values():
        found = next(filter(None, (_loaded(training, each) for each in loads[:FEW])), None)
        if found is None and _stepped_between(training, loads[0], loads[-1]):
            found = _of_one_module(training, loads)
        if found is not None:
            yield found


@rule("GS919", "averaged-the-wrong-way", reads=("act", "source"))
def averaged_the_wrong_way(trace: Trace) -> Iterator[Found]:
    """The factors of a moving average (EMA) are swapped: it forgets its earlier values.

    With a decay of 0.99 the average keeps 0.99 of itself and takes 0.01 of the new value. With
    swapped factors it is a copy of the newest value, and if it is written into the trained model,
    it undoes each step. The factors are read in the source.

    Bad:
        model = torch.nn.Linear(2, 1)
        average = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(3, 2)).pow(2).mean().backward()
            optimizer.step()
            with torch.no_grad():
                for a, p in zip(average.parameters(), model.parameters()):
                    a.mul_(0.01).add_(p, alpha=0.99)

    Good:
        model = torch.nn.Linear(2, 1)
        average = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(3, 2)).pow(2).mean().backward()
            optimizer.step()
            with torch.no_grad():
                for a, p in zip(average.parameters(), model.parameters()):
                    a.mul_(0.99).add_(p, alpha=0.01)
    """
    training = trace.once(Training)
    if not any(each.steps for each in training.stepped):
        return
    for each in trace.once(SourceFiles).each(averages):
        if is_swapped(each.found):
            yield _the_wrong_way(training, each)


def is_swapped(average: Average) -> bool:
    """Whether it keeps so little of itself that its factors must be swapped."""
    is_average = average.in_place or AVERAGED.search(average.name) is not None
    return is_average and 0 < average.kept <= FORGETS


def _the_wrong_way(training: Training, average: InSource[Average]) -> Found:
    site, found = average.site, average.found
    name, new, kept = found.name, found.new, found.kept
    versions, held = training.trace.table(Version), _held(training)
    stacks = distinct(versions["stack"]).tolist()
    here = [each for each in stacks if site_of(training.trace, each).place == site.place]
    leaves = held & set(versions["tensor"][np.isin(versions["stack"], here)].tolist())
    better = f"write `{found.swapped}`"
    message = (
        f"The factors of a moving average are swapped{at(site)}: `{name}` keeps {kept:.2g} of "
        f"its old value, and takes {1 - kept:.2g} of `{new}`"
    )
    if leaves:
        message += f", and it is {training.named(leaves)}, which the optimizer trains"
        better += f"; or, if `{new}` is the average, write into that, and leave `{name}` unchanged"
    return Found(
        message=message,
        site=site,
        evidence=(average.evidence, *few_tensors(training.trace, leaves)),
        why="a slow average keeps nearly all of its old value; here each update replaces it"
        + (", which undoes each step of the optimizer" if leaves else ""),
        fix=better,
        certainty=Certainty.INFERRED,
    )


def _held(training: Training) -> set[int]:
    return {tensor for each in training.stepped for tensor in each.tensors}


def _loaded(training: Training, act: Done[LoadedItselfAct]) -> Found | None:
    """A load of a state that was meant to restore earlier weights, and is the current ones."""
    taken = training.acts.by_id.get(act.of)
    if taken is None:
        return None
    alike = [each for each in training.acts.of(StateTakenAct) if each.stack == taken.stack]
    at_once = training.acts.place(taken) == training.acts.place(act)
    for one in (taken,) if at_once else (taken, alike[0]):  # the first may be the one that was kept
        steps = _stepped_between(training, one, act)
        loads = [
            each
            for each in training.acts.of(LoadedAct)
            if each.module == act.module and one.t < each.t < act.t and each.stack != act.stack
        ]
        if steps or loads:
            return _nothing_back(training, one, act, steps, loads)
    return None


def _stepped_between(training: Training, first: Done[ActFacts], last: Done[ActFacts]) -> int:
    """How often optimizers wrote to these tensors between two events of the program."""
    return sum(
        first.t < step.t < last.t
        for each in training.stepped
        if not set(each.tensors).isdisjoint(last.tensors)
        for step in each.steps
    )


def _averaged(training: Training, acts: list[Done[AddedToItselfAct]], steps: int) -> Found:
    leaves = {tensor for act in acts for tensor in act.tensors}
    written = training.acts.site(acts[0])
    stored = training.acts.by_id.get(acts[0].of)
    site = written if stored is None else training.acts.site(stored)
    named = stored is not None and isinstance(stored.facts, StatementAct) and stored.facts.name
    name = f", and so does `{named}`{at(site)}" if named else ""
    them = "them" if len(leaves) > 1 else "it"
    return Found(
        message=f"{training.named(leaves)} {'are' if len(leaves) > 1 else 'is'} added to "
        f"{them}{'selves' if len(leaves) > 1 else 'self'}{at(written)} in {steps} steps: the "
        f"average shares the memory of the parameter{'s' if len(leaves) > 1 else ''}{name}",
        site=site,
        evidence=(
            *(Evidence("act", each.id) for each in (stored, acts[0]) if each is not None),
            *few_tensors(training.trace, leaves),
        ),
        why=f"both operands of {acts[0].facts.by} were at the same address: there is no "
        "second set of weights, and the average is written into the trained model",
        fix=_with_clone(site),
    )


def _with_clone(site: Site) -> str:
    code = code_of(site.text)
    if ALIASES.search(code):
        return f"write `{ALIASES.sub(_cloned, code)}`"
    return "make copies: `p.detach().clone()`, or `copy.deepcopy` of a model or state"


def _cloned(found: re.Match[str]) -> str:
    return f"{found[0]}.clone()"


def _of_one_module(training: Training, acts: list[Done[LoadedItselfAct]]) -> Found:
    """Two names, such as those of an online and a target net, refer to one module."""
    act, loaded = acts[0], training.acts.site(acts[0])
    loads = {each.id for each in acts}
    equated = (each for each in training.acts.of(StatementAct) if each.of in loads)
    stored = next((each for each in equated if each.facts.what == "equated"), None)
    site = loaded if stored is None else training.acts.site(stored)
    since = f", since{at(site)}" if stored is not None else ""
    target, _, value = code_of(site.text).partition(" = ")
    copied = f"write `{target} = copy.deepcopy({value})`" if stored is not None and value else ""
    return Found(
        message=f"load_state_dict{at(loaded)} loads a module into itself, {len(acts)} times: both "
        f"names refer to the same module{since}, so there is no copy",
        site=site,
        evidence=(
            *(Evidence("act", each.id) for each in (stored, act) if each is not None),
            *few_tensors(training.trace, set(act.tensors)),
        ),
        why="the tensors it received were at the addresses of its own parameters; optimizers "
        "stepped in between, so the module that should lag behind changes with each step",
        fix=copied or "create a second module: `copy.deepcopy(model)`",
        certainty=Certainty.CERTAIN,
    )


def _nothing_back(
    training: Training,
    taken: Done[ActFacts],
    act: Done[LoadedItselfAct],
    steps: int,
    loads: list[Done[LoadedAct]],
) -> Found:
    site, loaded = training.acts.site(taken), training.acts.site(act)
    code = code_of(site.text)
    call = re.search(r"[\w.]+\.state_dict\(\)", code)
    better = f"copy.deepcopy({call[0]})" if call else ""
    whole = len(act.tensors) >= act.facts.many
    since = f"{steps} steps have written to" if steps else ""
    since = since or f"another state, loaded{at(training.acts.site(loads[0]))}, has overwritten"
    what = "nothing" if whole else f"nothing of {training.named(act.tensors)}"
    return Found(
        message=f"load_state_dict{at(loaded)} restores {what}: the state taken{at(site)} shares "
        f"the memory of the parameters, which {since} since",
        site=site,
        evidence=(
            Evidence("act", taken.id),
            Evidence("act", act.id),
            *few_tensors(training.trace, set(act.tensors)),
        ),
        why="state_dict() copies nothing: each of its tensors was at the address of the parameter "
        "that it was loaded into",
        fix=f"write `{code.replace(call[0], better)}`" if call else "take a `copy.deepcopy` of it",
        certainty=Certainty.CERTAIN,
    )
