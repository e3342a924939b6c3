"""Rules about work without use: forwards without a loss, gradients without a step."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from gradscope.analysis.findings import Certainty, Evidence, Severity, few_tensors
from gradscope.analysis.identity.leaves import fill_leaves, leaves_with_node
from gradscope.analysis.identity.sites import Site, at, is_installed, own_site, site_of
from gradscope.analysis.lookups import as_written
from gradscope.analysis.program.acts import Done
from gradscope.analysis.program.training import Training
from gradscope.analysis.rules.own_line import code_of
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.rules.trained.no_slope import following_nodes, reach
from gradscope.analysis.rules.training import explained, never_reached
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import (
    NONE,
    ActFacts,
    ClipAct,
    DataSetAct,
    DataWrittenAct,
    GradSetAct,
    GradZeroedAct,
    GraphTask,
    HookAct,
    Module,
    Node,
    Op,
    RanAct,
    Tensor,
    Version,
    ZeroGradAct,
)
from gradscope.trace.trace import Trace

MOST_LOSSES = 3
"""Number of lines that are named as where backwards begin."""


@rule("GS411", "unused", reads=("act",))
def unused(trace: Trace) -> Iterator[Found]:
    """A layer is computed, but its result reaches no loss: it learns nothing.

    An optimizer holds its parameters, it ran with gradients on, and nothing cut the graph after
    it: its result was dropped or overwritten. Or it was never called, while a sibling of the same
    shapes is called on two lines. It is a note where a library's model contains the layer.

    Bad:
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.main, self.side = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)

            def forward(self, x):
                side = self.side(x)
                return self.main(x)

        net = Net()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.ones(3, 2)).sum().backward()
            optimizer.step()

    Good:
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.main, self.side = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)

            def forward(self, x):
                return self.main(x) + self.side(x)

        net = Net()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.ones(3, 2)).sum().backward()
            optimizer.step()
    """
    yield from trace.once(unused_layers)


def unused_layers(trace: Trace) -> tuple[Found, ...]:
    """The findings of GS411, which others refer to."""
    return (*_unused_layers(trace),)


def _unused_layers(trace: Trace) -> Iterator[Found]:
    training = trace.once(Training)
    missing = never_reached(training)
    if not missing or training.backwards < 2:
        return
    missing = missing - explained(training, missing) - training.behind_a_loss
    ran: dict[int, Done[RanAct]] = {}
    for act in training.acts.of(RanAct):
        if act.facts.grad:
            ran.setdefault(act.module, act)
    by_line: dict[str, tuple[Done[RanAct], set[int]]] = {}
    for tensor in as_written(training.trace.table(Tensor), missing):
        first = ran.get(training.parameters.get(tensor, NONE))
        if first is not None and _is_used(training, tensor):
            place = " ".join(str(site) for site in training.acts.sites(first))
            by_line.setdefault(place, (first, set()))[1].add(tensor)
    for act, lost in by_line.values():
        if training.is_most_of_a_module(lost):
            yield _found(training, act, lost)
    yield from _called_instead(training, missing, set(ran))


def _is_used(training: Training, tensor: int) -> bool:
    """Whether a forward computed with a parameter, as far as that is known.

    gradscope's engine records the node of each leaf. PyTorch has none for a graph that no backward
    reached; there, a layer without further layers inside it uses all of its parameters.
    """
    if training.trace.meta.get("producer") == "gradscope.runtime":
        return tensor in training.trace.once(leaves_with_node)
    owner = training.parameters.get(tensor, NONE)
    return not any(each.parent == owner for each in training.trace.rows(Module))


def _called_instead(training: Training, missing: set[int], ran: set[int]) -> Iterator[Found]:
    """Layers that were never called, next to one of the same shapes that is called twice."""
    trace, modules = training.trace, training.trace.table(Module)
    shapes = {each: _shapes(trace, modules.row(each)) for each in modules["id"].tolist()}
    for id in dict.fromkeys(training.parameters.get(each, NONE) for each in sorted(missing)):
        idle = modules.row(id) if modules.has(id) and id not in ran else None
        if idle is None or idle.parent not in ran or not missing.issuperset(idle.parameters):
            continue
        for other in trace.rows(Module):
            beside = other.parent == idle.parent and other.type == idle.type and other.id in ran
            if beside and shapes[other.id] == shapes[id] and len(found := _lines(trace, other)) > 1:
                yield _never_called(training, idle, other, found)
                break


def _shapes(trace: Trace, module: Module) -> list[tuple[int, ...]]:
    tensors = trace.table(Tensor)
    return [tensors.row(each).shape for each in module.parameters if tensors.has(each)]


def _lines(trace: Trace, module: Module) -> list[Site]:
    """The lines that call a module with gradients on."""
    ops = trace.table(Op)
    stacks = distinct(ops["stack"][(ops["module"] == module.id) & (ops["node"] != NONE)]).tolist()
    sites = {site.place: site for each in stacks if (site := own_site(trace, each)).place}
    return sorted(sites.values(), key=lambda each: each.line)


def _never_called(training: Training, idle: Module, other: Module, sites: list[Site]) -> Found:
    own, its = (each.path.rpartition(".")[2] for each in (idle, other))
    last = sites[-1]
    better = re.sub(rf"\b{re.escape(its)}\b", own, code_of(last.text))
    return Found(
        message=f"{training.named(idle.parameters)} get no gradient: `{own}` is never called, but "
        f"`{its}`, which has the same shapes, is called{' and'.join(map(at, sites))}",
        site=last,
        evidence=few_tensors(training.trace, idle.parameters),
        why=f"the optimizer holds them, but none of {training.backwards} backwards reached them; "
        f"`{its}` is called in both places",
        fix=f"write `{better}`" if better != code_of(last.text) else f"call `{own}`",
        certainty=Certainty.SUSPECTED,
        parameters=frozenset(idle.parameters),
    )


def _found(training: Training, act: Done[ActFacts], lost: set[int]) -> Found:
    site, *callers = training.acts.sites(act)
    callers = [each for each in callers if each != site]
    called = f", called{at(callers[0])}," if callers else ""
    are, them = ("are", "them") if len(lost) > 1 else ("is", "it")
    return Found(
        message=f"{training.named(lost)} {are} used{at(site)}{called} without effect: the result "
        "reaches no loss that a backward begins from",
        site=site,
        evidence=(Evidence("act", act.id), *few_tensors(training.trace, lost)),
        why=f"the optimizer holds {them}, gradients were on, nothing cut the graph there, but none "
        f"of {training.backwards} backwards reached {them}{_begun(training.trace)}",
        fix="use its result in the loss, or remove the layer",
        certainty=Certainty.INFERRED,
        severity=Severity.NOTE if _is_a_librarys(training, act, lost) else None,
        parameters=frozenset(lost),
    )


def _is_a_librarys(training: Training, act: Done[ActFacts], lost: set[int]) -> bool:
    """Whether no line of the program itself calls the unused part: a library's model contains it.

    It was then called on the same line as the model that contains it, since most stacks leave out
    lines of libraries.
    """
    modules = training.trace.table(Module)
    ran = {each.module: each for each in training.acts.of(RanAct)[::-1]}
    part = act.module
    while modules.has(part) and modules.has(above := modules.row(part).parent):
        if not training.parameters_in(above) <= lost:
            outer = ran.get(above)
            same = outer is not None and part in ran and outer.stack == ran[part].stack
            return same or is_installed(training.acts.site(act).file)
        part = above
    return False


def _begun(trace: Trace) -> str:
    """The lines of the program that create the tensors where backwards begin."""
    nodes, roots = trace.table(Node), trace.table(GraphTask).ragged("roots").values
    known = [each for each in distinct(roots).tolist() if nodes.has(each)]
    stacks = distinct(nodes["stack"][nodes.positions(np.array(known, np.int64))]).tolist()
    sites = dict.fromkeys(own_site(trace, each) for each in stacks)
    said = [f"`{code_of(each.text)}`{at(each)}" for each in sites if each.place]
    return f", which begin from {' and '.join(said)}" if 0 < len(said) <= MOST_LOSSES else ""


@rule("GS412", "gradients-unused", reads=("act", "accumulate"))
def gradients_unused(trace: Trace) -> Iterator[Found]:
    """Each backward goes through a part that is not trained: its graph is built for nothing.

    No optimizer holds these parameters. Nothing updates them or clears their gradients, which add
    up from step to step, and no trained parameter comes before them.

    Bad:
        backbone, head = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
        for _ in range(4):
            optimizer.zero_grad()
            head(backbone(torch.ones(3, 2))).sum().backward()
            optimizer.step()

    Good:
        backbone, head = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
        for _ in range(4):
            with torch.no_grad():
                features = backbone(torch.ones(3, 2))
            optimizer.zero_grad()
            head(features).sum().backward()
            optimizer.step()
    """
    training = trace.once(Training)
    for root, tensors, often in trained_by_nobody(training):
        acts = [act for act in training.acts.of(RanAct) if act.module == root]
        site = training.acts.site(acts[0])
        built = training.stepped[0]
        others = f"{built.type}, built{at(training.acts.site(built.built))}, holds other tensors"
        yield Found(
            message=f"Gradients of {training.named(tensors)}, which ran{at(site)}, are computed in "
            f"{often} backwards but never used: no optimizer holds "
            f"{'them' if len(tensors) > 1 else 'it'}; {others}",
            site=site,
            evidence=(Evidence("act", acts[0].id), *few_tensors(training.trace, tensors)),
            why="the graph through it was recorded and traversed each time, and `.grad` was never "
            "cleared, so it added up; no trained tensor comes before it",
            fix="run it under `with torch.no_grad():`, or freeze it: `requires_grad_(False)`; if "
            "it should learn, pass its parameters to the optimizer",
            certainty=Certainty.INFERRED,
        )


def trained_by_nobody(training: Training) -> list[tuple[int, set[int], int]]:
    """Models whose gradients are not used: outermost module, parameters, number of backwards.

    They ran, and no part of them is trained.
    """
    lost = frozenset(training.parameters) & training.reached - training.held - touched(training)
    if not lost or not training.stepped:
        return []
    steps = sum(len(each.steps) for each in training.stepped)
    by_root: dict[int, set[int]] = defaultdict(set)
    for tensor in lost:
        by_root[training.root_of(tensor)].add(tensor)
    trained = {training.root_of(each) for each in training.held & set(training.parameters)}
    ran = {act.module for act in training.acts.of(RanAct)}
    found = []
    for root, tensors in (
        (each, by_root[each]) for each in as_written(training.trace.table(Module), by_root)
    ):
        often = min(training.times_reached.get(each, 0) for each in tensors)
        for_nothing = root in ran - trained and often >= MANY and 2 * often >= steps
        if for_nothing and not _leads_on(training, tensors):
            found.append((root, tensors, often))
    return found


MANY = 3
"""Least number of backwards that must reach them."""

AVERAGE = re.compile(
    r"\b(lerp_|copy_)\(|\bmul_\(.*\badd_\(|\b(tau|decay|ema|momentum|polyak|rho)\b"
)
"""In a line that updates a teacher or a target network."""


def _leads_on(training: Training, tensors: set[int]) -> bool:
    """Whether backwards through results of these tensors reach others that are trained."""
    trace = training.trace
    nodes, following = trace.table(Node), trace.once(following_nodes)
    rows = nodes.take(np.flatnonzero(fill_leaves(trace)))
    leaves = {row.id: row.inputs[0] for row in rows if row.inputs}
    users = {
        node
        for node, after in following.items()
        if any(leaves.get(each) in tensors for each in after)
    }
    behind = {leaves[each] for each in reach(users, following, ()) if each in leaves}
    return bool((behind - tensors) & training.held)


def touched(training: Training) -> set[int]:
    """Tensors that the program itself clears, hooks or writes to, except averages."""
    found: set[int] = set()
    for act in training.acts.of(ZeroGradAct, GradSetAct, GradZeroedAct, HookAct, ClipAct):
        found.update(act.tensors)
    for act in training.acts.of(DataSetAct, DataWrittenAct):
        if not _averages(training.acts.site(act).text):
            found.update(act.tensors)
    return found | written_later(training, averages=False)


def _averages(text: str) -> bool:
    """Whether a line makes one of two copies the average of both, or the other: no gradient."""
    return AVERAGE.search(text) is not None and "grad" not in text


def written_later(training: Training, *, averages: bool) -> set[int]:
    """What was written after the first backward: on lines that average, or on other lines."""
    trace, versions = training.trace, training.trace.table(Version)
    its = np.isin(versions["tensor"], np.array([*training.written], np.int64))
    stacks = distinct(versions["stack"][its]).tolist()
    chosen = [each for each in stacks if _averages(site_of(trace, each).text) is averages]
    its &= np.isin(versions["stack"], np.array(chosen, np.int64))
    return set(versions["tensor"][its].tolist())
