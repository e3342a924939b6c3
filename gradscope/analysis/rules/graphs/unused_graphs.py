"""The rule about graphs that no backward uses: of evaluations, samples and predictions."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from gradscope.analysis.findings import Certainty, Evidence, Severity
from gradscope.analysis.graph.unreached import IdleGraphs, IdleStretch
from gradscope.analysis.identity.sites import Site, at, site_of
from gradscope.analysis.lookups import Ids
from gradscope.analysis.program.acts import Acts, Done
from gradscope.analysis.rules.graphs.kept_graphs import holder
from gradscope.analysis.rules.registry import Found, rule
from gradscope.trace.schema import NONE, GraphTask, KeptAct, Node, NodeBegin, TrainAct
from gradscope.trace.trace import Trace

MANY = 3
"""Runs of a model whose graphs are alive together: replacing one by the next makes two."""

FIX = (
    "run it under `with torch.no_grad():`, or put `@torch.no_grad()` above its function; use "
    "`.item()` for a number that is only printed or logged"
)


@rule("GS602", "graph-unused")
def graph_unused(trace: Trace) -> Iterator[Found]:
    """An evaluation recorded graphs that no backward used.

    `model.eval()` still records the graph, and saves all that a backward would need, unless the
    evaluation runs under `torch.no_grad()`. Graphs of an evaluation are checked when training
    continues. Others, such as those of samples that a model draws, are checked when their nodes are
    freed. It is a note if the graph belongs to one result. Nothing is reported if it happens only
    once, as for a line that is printed after training.

    Bad:
        model = torch.nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        def evaluate():
            model.eval()
            total = sum(model(torch.ones(2, 3)).mean() for _ in range(2))
            model.train()
            return total.item()
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.ones(2, 3)).sum().backward()
            optimizer.step()
            evaluate()

    Good:
        model = torch.nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        def evaluate():
            model.eval()
            with torch.no_grad():
                total = sum(model(torch.ones(2, 3)).mean() for _ in range(2))
            model.train()
            return total.item()
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.ones(2, 3)).sum().backward()
            optimizer.step()
            evaluate()
    """
    acts, graphs = trace.once(Acts), trace.once(IdleGraphs)
    told: dict[int, list[Done[KeptAct]]] = defaultdict(list)
    began = [act.t for act in acts.of(TrainAct) if not act.facts.to]
    ran = _times_of_nodes_that_ran(trace)
    tasks = np.sort(trace.table(GraphTask)["begin"])
    windows: list[tuple[int, int]] = []
    for act in acts.of(KeptAct):
        since = _last_before(began, act.t)
        if act.facts.when == "evaluation" and since is not None:
            walked = np.searchsorted(ran, act.t) - np.searchsorted(ran, since)
            backwards = np.searchsorted(tasks, act.t) - np.searchsorted(tasks, since)
            if not walked and not backwards:
                told[act.stack].append(act)
    for same in told.values():
        found = _unused(acts, same)
        if found.severity is not Severity.NOTE:
            windows += [(_last_before(began, act.t) or 0, act.t) for act in same]
        elif len(same) == 1:
            continue
        yield found
    if len(tasks):
        yield from _gathered(trace, graphs, windows)


def _gathered(trace: Trace, graphs: IdleGraphs, windows: list[tuple[int, int]]) -> Iterator[Found]:
    """Consecutive runs of a model whose graphs were alive together."""
    alike: dict[frozenset[tuple[int, int]], list[IdleStretch]] = defaultdict(list)
    ended = trace.meta.get("exit_code") in (None, 0) and not trace.truncated
    for stretch in graphs.stretches:
        if stretch.passes < MANY or (stretch.last and not ended):
            continue
        if any(begin <= stretch.end and stretch.begin <= end for begin, end in windows):
            continue
        rows = stretch.rows
        pairs = zip(graphs.module[rows].tolist(), graphs.stack[rows].tolist(), strict=True)
        alike[frozenset(pairs)].append(stretch)
    places: dict[str, tuple[Site, list[IdleStretch], tuple[Site, ...]]] = {}
    for same in alike.values():
        site, others = _where(trace, graphs, same[0])
        places.setdefault(site.place, (site, [], others))[1].extend(same)
    for site, same, others in places.values():
        found = _for_nothing(graphs, site, same, others)
        if found.severity is not Severity.NOTE or len(same) > 1:
            yield found


def _where(trace: Trace, graphs: IdleGraphs, stretch: IdleStretch) -> tuple[Site, tuple[Site, ...]]:
    """The line to report, and other lines of the same graphs."""
    acts, call = trace.once(Acts), graphs.called_from(stretch)
    own = [site_of(trace, stack) for stack in graphs.own_lines(stretch)]
    called = [acts.site(call)] if call is not None else []
    sites = [site for site in (*called, *own) if site.place]
    if not sites:
        sites = [site_of(trace, int(graphs.stack[stretch.rows[0]]))]
    others = {site.place: site for site in sites[1:] if site.place != sites[0].place}
    return sites[0], tuple(others.values())


def _for_nothing(
    graphs: IdleGraphs, site: Site, same: list[IdleStretch], others: tuple[Site, ...]
) -> Found:
    call = graphs.called_from(same[0])
    most = max(same, key=lambda each: (each.together, each.passes))
    often = f", {len(same)} times" if len(same) > 1 else ""
    held = f", and {most.together} of these graphs are alive at once" * (most.together >= MANY)
    lines = f"; they continue{','.join(map(at, others[:2]))}" if others else ""
    ends = _ends(graphs, most)
    return Found(
        message=f"{most.passes} consecutive runs of the model record graphs that no backward "
        f"uses{at(site)}{held}{often}",
        site=site,
        evidence=() if call is None else (Evidence("act", call.id),),
        why=f"gradients were on, {most.nodes:,} nodes were created, with their saved tensors, and "
        f"no backward reached any of them; {ends}{lines}",
        fix=FIX,
        severity=None if most.together >= MANY else Severity.NOTE,
        certainty=Certainty.CERTAIN,
    )


def _ends(graphs: IdleGraphs, stretch: IdleStretch) -> str:
    if not graphs.sees_ends:
        return "this level does not record when these nodes were freed"
    left = int(graphs.many[stretch.rows][graphs.died[stretch.rows] == NONE].sum())
    return f"{left:,} of them still exist at the end" if left else "all were freed without one"


def _times_of_nodes_that_ran(trace: Trace) -> Ids:
    nodes = trace.table(Node)
    ran = np.isin(nodes["id"], trace.table(NodeBegin)["node"])
    return np.sort(nodes["t"][ran])


def _last_before(times: list[int], t: int) -> int | None:
    """The beginning of the evaluation that ends at t: the last `eval()` before it."""
    place = int(np.searchsorted(times, t))
    return times[place - 1] if place else None


def _unused(acts: Acts, same: list[Done[KeptAct]]) -> Found:
    act, sites = same[0], acts.sites(same[0])
    sites_of = [acts.site(each) for each in same]
    often = f", {len(same)} times" if len(same) > 1 else ""
    return Found(
        message=f"An evaluation records a graph that no backward uses{often}: {holder(act)} keeps "
        f"it{at(sites[0])}",
        site=sites[0],
        evidence=tuple(Evidence("act", each.id) for each in same),
        why="the model was in eval mode, which does not switch recording off; when training "
        f"continued, {act.facts.many} tensor(s) held a graph recorded since, without a backward",
        fix="run the evaluation under `with torch.no_grad():`, or put `@torch.no_grad()` above its "
        "function",
        severity=None if any(map(_gathers, same, sites_of)) else Severity.NOTE,
    )


def _gathers(act: Done[KeptAct], site: Site) -> bool:
    """Whether graphs of several batches are kept, rather than one result until it is replaced."""
    facts, text = act.facts, site.text
    _, _, value = text.partition("=")
    summed = "+=" in text or "sum(" in value or facts.name in re.findall(r"\w+", value)
    return bool(facts.container) or facts.many > 1 or summed
