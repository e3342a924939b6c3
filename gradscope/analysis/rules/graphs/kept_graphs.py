"""Rules about graphs that outlive the step or the backward they were recorded for."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from gradscope.analysis.findings import Evidence
from gradscope.analysis.identity.sites import Site, site_of
from gradscope.analysis.identity.steps import step_numbers
from gradscope.analysis.program.acts import Acts, Done
from gradscope.analysis.rules.graphs.retained_graphs import walked_again
from gradscope.analysis.rules.own_line import detached, instead, rewritten
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.source.files import SourceFiles
from gradscope.analysis.source.functions import last_name
from gradscope.analysis.source.looked_at import looked_at
from gradscope.trace.schema import NONE, Edge, KeptAct, Node, Saved
from gradscope.trace.trace import Trace

MANY = 3
"""Steps whose graphs are kept together: two may be the current and the previous one."""

OF_TENSORS = frozenset(("backward", "item", "mean", "sum", "pow", "square"))
"""Methods that show that an object is a tensor, not a container of tensors."""


@rule("GS601", "graph-kept")
def graph_kept(trace: Trace) -> Iterator[Found]:
    """Graphs of earlier steps are still alive, because something holds tensors that have a graph.

    A loss that is put into a list, or added to a running total, keeps its graph alive, with all
    tensors saved there that no backward released. So memory grows from step to step. Values kept
    for later need `.item()` or `.detach()`. The rule checks Python names at the ends of some steps;
    it does not see what only C++ code holds, and checks nothing where several threads train.

    Bad:
        w = torch.ones(3, requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=0.1)
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = (w * w).sum()
            loss.backward()
            optimizer.step()
            losses.append(loss)

    Good:
        w = torch.ones(3, requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=0.1)
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = (w * w).sum()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    """
    acts = trace.once(Acts)
    looks: dict[tuple[object, ...], list[Done[KeptAct]]] = defaultdict(list)
    for act in acts.of(KeptAct):
        if act.facts.when not in ("evaluation", "error"):
            facts = act.facts
            key = facts.name, facts.attribute, facts.container, act.stack
            looks[key].append(act)
    kept: list[tuple[Done[KeptAct], int]] = []
    for same in looks.values():
        last = max(same, key=lambda act: act.facts.steps)
        if not last.facts.container and any(walked_again(trace)):
            continue  # GS603 reports it
        if last.facts.steps >= MANY and (len(same) == 1 or same[0].facts.steps < last.facts.steps):
            kept.append((last, len(same)))
    chains = [(act, many) for act, many in kept if _is_a_chain(act)]
    for act, many in kept:
        if not _is_a_chain(act):
            yield _kept(acts, act, many)
    if chains:  # several names of one chain are one cause
        chains.sort(key=lambda each: (not acts.place(each[0]), not each[0].facts.container))
        act, many = chains[0]
        names = {holder(each): each for each, _ in chains}
        others = [each for name, each in names.items() if name != holder(act)]
        yield _kept(acts, act, many, others, _link(trace))


def _is_a_chain(act: Done[KeptAct]) -> bool:
    """Whether the graph of each step was built on that of the step before."""
    return act.facts.longest > 2


def _link(trace: Trace) -> Site:
    """The line that most often creates what a later step continues with."""
    nodes, edges = trace.table(Node), trace.table(Edge)
    its = np.flatnonzero(edges["next"] != NONE)
    if not len(its) or not len(nodes):
        return Site()
    after, before = (nodes.positions(edges[name][its]) for name in ("node", "next"))
    known = (after != NONE) & (before != NONE)
    after, before = after[known], before[known]
    steps = nodes["step"]
    linked = before[(steps[after] > steps[before]) & (steps[before] != NONE)]
    stacks = nodes["stack"][linked]
    stacks = stacks[stacks != NONE]  # a leaf's node has no line
    if not len(stacks):
        return Site()
    which, many = np.unique(stacks, return_counts=True)
    return site_of(trace, int(which[np.argmax(many)]))


def _kept(
    acts: Acts,
    act: Done[KeptAct],
    looks: int,
    also: Sequence[Done[KeptAct]] = (),
    link: Site | None = None,
) -> Found:
    facts, sites = act.facts, acts.sites(act)
    what, many, steps = holder(act), facts.many, act.facts.steps
    grows = _is_a_chain(act)
    stored = f", stored at {sites[0]}{_callers(act, sites[0])}" if sites[0].place else ""
    if facts.container:
        said = f"{what} holds {many} tensors with the graphs of {steps} steps{stored}"
    else:
        said = f"{what} has a graph that goes back over {steps} steps{stored}"
    if link is not None and link.place and link not in sites:
        said += f"; the result of {link} is carried on from step to step"
    others = f"; also stored at {', '.join(map(str, sites[1:]))}" if len(sites) > 1 else ""
    if also:
        others += f"; {', '.join(map(holder, also))} {'leads' if len(also) == 1 else 'lead'} there"
    better = detached(sites[0].text)
    shown = bool(better) and _only_shown(acts.trace, sites[0], better)
    unsafe = "" if shown else "a loss may use what is stored, or it is more than a tensor"
    return Found(
        message=f"A graph is kept alive: {said}",
        site=sites[0],
        evidence=(Evidence("act", act.id),),
        why=f"seen {_when(acts, act)}{f', in the last of {looks} checks' * (looks > 1)}; a tensor "
        f"that was not detached keeps the nodes of its graph alive{_let_go(acts)}{others}"
        + ("; each step adds its graph to the one before, so steps take longer and longer" * grows),
        fix=instead(better, sites[0].text)
        if better
        else "keep `x.item()` or `x.detach()` instead of `x`",
        rewrite=rewritten(sites[0], better, unsafe),
    )


def _only_shown(trace: Trace, site: Site, better: str) -> bool:
    """Whether this line stores a tensor that reaches no loss, so that it can be detached."""
    found = trace.once(SourceFiles).rewritten(site, better)
    if found is None:
        return False
    number, trees = found
    every = [each for tree in trees for each in ast.walk(tree) if isinstance(each, ast.Call)]
    if any(last_name(each.func) == "grad" for each in every):
        return False  # it may differentiate what is stored
    called = [each.func for each in every if isinstance(each.func, ast.Attribute)]
    stored = (each.value for each in called if each.attr == "detach" and each.lineno == site.line)
    tensors = {ast.unparse(each.value) for each in called if each.attr in OF_TENSORS}
    if not any(ast.unparse(each) in tensors for each in stored):
        return False  # it may be a dict of tensors
    try:
        cuts = [each for at, each in looked_at(trees) if at == number]
    except RecursionError:
        return False
    return any(each.line == site.line and each.by == "detach" for each in cuts)


def _when(acts: Acts, act: Done[KeptAct]) -> str:
    if act.facts.when == "end":
        return "at the end of the program"
    number = step_numbers(acts.trace).get(act.step)
    return "at the end of a step" if number is None else f"at the end of step {number}"


def _callers(act: Done[KeptAct], site: Site) -> str:
    """As in ", called at train.py:28 and train.py:31", of the function that stores."""
    lines, file = act.facts.callers, site.place.rpartition(":")[0]
    return f", called at {' and '.join(f'{file}:{each}' for each in lines)}" if lines else ""


def _let_go(acts: Acts) -> str:
    """What is known about whether backwards released the saved tensors."""
    released = acts.trace.table(Saved)["released"]
    if not len(released):
        return ""
    left = int((released == NONE).sum())
    if not left:
        return " (a backward has released the tensors they saved)"
    return f", and {left:,} of {len(released):,} saved tensors, which no backward released"


def holder(act: Done[KeptAct]) -> str:
    """What holds the tensors, as the program writes it."""
    name, container = act.facts.name, act.facts.container
    shown = f"`.{name}`" if act.facts.attribute else f"`{name}`"
    return f"the {container} {shown}" if container else shown
