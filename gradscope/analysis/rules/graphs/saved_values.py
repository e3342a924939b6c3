"""Rules about tensors saved for backward: written to, or released, before the backward ran."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np

from gradscope.analysis.findings import Certainty, Evidence, Severity, known_rows
from gradscope.analysis.identity.names import node_made_at as _node
from gradscope.analysis.identity.sites import Site, at, site_of, site_of_row
from gradscope.analysis.program.acts import Acts
from gradscope.analysis.program.culprits import Overwritten, carried, overwritten, release, stepped
from gradscope.analysis.program.endings import WENT_ON, went_on
from gradscope.analysis.rules.own_line import (
    OTHER_ALIASES,
    carried_detached,
    carried_name,
    code_of,
    instead,
    kept_detached,
    out_of_place,
    partly_detached,
    rewritten,
)
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.rules.trained.no_slope import following_nodes, reach
from gradscope.analysis.source.files import InSource, SourceFiles
from gradscope.analysis.source.writes import UnseenWrite, writes
from gradscope.trace.schema import (
    NONE,
    AssignedAct,
    CutAct,
    Error,
    GraphTask,
    KeptAct,
    Node,
    Op,
    Phase,
    RanAct,
    Saved,
    Tensor,
    Version,
)
from gradscope.trace.trace import Trace

MODIFIED = "one of the variables needed for gradient computation has been modified by an inplace"
_SHAPE = re.compile(r"\[torch\.\w+ \[([\d, ]*)\]\]")
_VERSIONS = re.compile(r"at version \d+; expected version \d+")
GATHERS = ("Stack", "Cat")
"""Prefixes of names of nodes that put tensors together."""

FREED = "Trying to backward through the graph a second time"


@rule("GS302", "modified-in-place", Severity.ERROR, reads=("version",))
def modified_in_place(trace: Trace) -> Iterator[Found]:
    """A tensor that a backward needed unchanged was written to in place.

    The finding is at the line that wrote. Only saved tensors matter: writing to a tensor that no
    derivative reads is fine.

    Bad:
        x = torch.ones(3, requires_grad=True)
        y = x.exp()
        y.add_(1)
        y.sum().backward()

    Good:
        x = torch.ones(3, requires_grad=True)
        y = x.exp()
        z = y + 1
        z.sum().backward()
    """
    for error in _raised(trace, MODIFIED):
        values = [*overwritten(trace, error.node, error.t)]
        if not values and "version" in trace.meta.get("inferred", ()):
            yield _told(trace, error, _unseen(trace, error))
        # One write may reach several slots: `y * y` saves the same tensor twice.
        for _, same in groupby(values, key=lambda value: (value.tensor, value.saved)):
            yield _told(trace, error, _written(trace, error, list(same)))


def _of_an_older_graph(trace: Trace, error: Error, found: Found) -> Found:
    """The same finding at the line that carries an older graph on, where a step wrote to it."""
    through = carried(trace, error.node, error.task)
    if through == NONE:
        return found
    nodes = trace.table(Node)
    row = nodes.row(through)
    came = site = site_of(trace, row.stack)
    if row.name.startswith(GATHERS):  # what it puts together was kept where created
        site = site_of(trace, nodes.row(_older(trace, row, error.node)).stack)
    if not site.place:
        return found
    new = carried_detached(site.text)
    kept = f", created{at(site)} and kept" if site is not came else ""
    return replace(
        found,
        message=f"{found.message}; it belongs to an earlier graph{kept}, which the backward "
        f"reached through what is carried on{at(came)}",
        site=site,
        evidence=(*found.evidence, Evidence("node", through)),
        fix="detach() what is carried on from the earlier graph, at that line"
        + (f": `{code_of(new)}`" if new else ""),
    )


def _older(trace: Trace, gathers: Node, below: int) -> int:
    """The earlier node that a newer one leads to on the way to another."""
    nodes, following = trace.table(Node), trace.once(following_nodes)
    ends = [each for each in following.get(gathers.id, ()) if below in reach({each}, following, ())]
    return min((each for each in ends if nodes.has(each)), key=nodes.index, default=below)


def _written(trace: Trace, error: Error, values: list[Overwritten]) -> Found:
    value, slots = values[0], " and ".join(f"'{each.slot}'" for each in values)
    site = site_of(trace, value.stack)
    ops = trace.table(Op)
    writer = "A write outside any recorded call"
    if ops.has(value.op):
        writer = trace.text(int(ops["name"][ops.index(value.op)])).partition(".")[0]
    again = "" if not value.later else f", and {value.later} more after it"
    found = Found(
        message=f"{writer}{at(site)} wrote in place to {slots} of "
        f"{_node(trace, error.node)}, which backward needed unchanged: saved at version "
        f"{value.saved}, now {value.written}{again}",
        site=site,
        evidence=_evidence(error, ("op", value.op), ("tensor", value.tensor)),
        why=f"the backward called{at(_called(trace, error.task))} needed it, and would have "
        "computed the gradient from values that the forward pass did not have",
        fix=_out_of_place(site),
        rewrite=rewritten(site, out_of_place(site.text), OTHER_ALIASES),
    )
    by_step = ops.has(value.op) and ops.row(value.op).phase == Phase.OPTIMIZER
    return _of_an_older_graph(trace, error, found) if by_step else found


def _out_of_place(site: Site) -> str:
    new = out_of_place(site.text)
    if new:
        return instead(new, site.text)
    return "write out of place, or before the value is used, or to a clone()"


def _unseen(trace: Trace, error: Error) -> Found:
    """An error whose write is not among the recorded ones, since not all are recorded."""
    site = site_of_row(trace, Node, error.node)
    said = _VERSIONS.search(error.message)
    shape = _SHAPE.search(error.message)
    sizes = tuple(map(int, re.findall(r"\d+", shape[1]))) if shape else ()
    step = stepped(trace, error.node, sizes, error.t) if shape else None
    counts = f": it is {said[0].replace('; ', ', and ')}" if said else ""
    if step is not None:
        acts = trace.once(Acts)
        wrote = acts.site(acts.by_id[step.act]) if step.act != NONE else Site()
        found = Found(
            message=f"{step.optimizer}{at(wrote)} wrote to the parameter that "
            f"{_node(trace, error.node)} had saved as '{step.slot}', which backward needed "
            f"unchanged{counts}",
            site=wrote if wrote.place else site,
            evidence=_evidence(error, ("act", step.act)),
            why=f"{step.optimizer} ran between that line and the backward called"
            f"{at(_called(trace, error.task))}, and writes to parameters in place",
            fix="call that backward before the step, or run the forward pass again after it",
            certainty=Certainty.INFERRED,
        )
        return _of_an_older_graph(trace, error, found)
    wrote_before = _wrote_before(trace, error)
    if wrote_before.place:
        return _by_that_line(trace, error, wrote_before, counts)
    likely = _likely_writes(trace)
    if likely:
        site = likely[0].site
        others = " or".join(at(each.site) for each in likely)
        return Found(
            message=f"Something wrote in place to a tensor that {_node(trace, error.node)} had "
            f"saved, which backward needed unchanged{counts}; under no_grad(), where writes are "
            f"not recorded, the program writes to `{likely[0].found.name}`{others}",
            site=site,
            evidence=_evidence(error, *(("source", each.file.id) for each in likely)),
            why=f"{_not_seen(trace)} in this recording; the backward called"
            f"{at(_called(trace, error.task))} needed it",
            fix="write after the backward, or to a clone()",
            certainty=Certainty.SUSPECTED,
        )
    return Found(
        message=f"Something wrote in place to a tensor that {_node(trace, error.node)} had saved, "
        f"which backward needed unchanged{counts}",
        site=site,
        evidence=_evidence(error),
        why=f"{_not_seen(trace)} in this recording; the backward called"
        f"{at(_called(trace, error.task))} needed it",
        fix="look for an in-place write (x.add_(…), x += …, x[…] = …) between that line and the "
        "backward, and apply it to a clone()",
    )


def _by_that_line(trace: Trace, error: Error, wrote: Site, counts: str) -> Found:
    return Found(
        message=f"Something wrote in place to a tensor that {_node(trace, error.node)} had saved, "
        f"which backward needed unchanged{counts}; the line that wrote to it before is {wrote}",
        site=wrote,
        evidence=_evidence(error),
        why=f"{_not_seen(trace)} in this recording, but earlier writes of that line were; the "
        f"backward called{at(_called(trace, error.task))} needed it",
        fix=_out_of_place(wrote),
        rewrite=rewritten(wrote, out_of_place(wrote.text), OTHER_ALIASES),
        certainty=Certainty.INFERRED,
    )


def _wrote_before(trace: Trace, error: Error) -> Site:
    """The line whose earlier write brought what this node saved to the version it had then.

    Such a line writes repeatedly. Not all writes show the tensor written to, so writes to tensors
    of the same shape count.
    """
    saved, tensors, versions = trace.table(Saved), trace.table(Tensor), trace.table(Version)
    for row in saved.take(np.flatnonzero(saved.array("node") == error.node)):
        if row.version < SEVERAL or not tensors.has(row.tensor):
            continue
        shape = tensors.row(row.tensor).shape
        its = (versions["new"] == row.version) & (versions["t"] < row.t)
        wrote = [each for each in versions.take(np.flatnonzero(its)) if tensors.has(each.tensor)]
        wrote = [each for each in wrote if tensors.row(each.tensor).shape == shape]
        if wrote and (versions["tensor"] == wrote[-1].tensor).sum() >= SEVERAL:
            return site_of(trace, wrote[-1].stack)
    return Site()


SEVERAL = 2
"""How often a line must have written to be expected to write again."""

FEW = 3
"""With more possible lines than this, none is named."""


def _likely_writes(trace: Trace) -> Sequence[InSource[UnseenWrite]]:
    """Lines of the program that write in place where writes are not recorded."""
    found = trace.once(SourceFiles).each(writes)
    return found if len(found) <= FEW else []


def _not_seen(trace: Trace) -> str:
    if not trace.sees("version.OPTIMIZER"):
        return "writes outside PyTorch's calls, and those of optimizers, are not recorded"
    return "writes under no_grad(), and to results that no backward reached, are not recorded"


@rule("GS303", "freed-graph", Severity.ERROR, reads=("saved_released",))
def freed_graph(trace: Trace) -> Iterator[Found]:
    """A backward reached a node whose saved tensors an earlier backward had released.

    If a line connects the new graph to the old one, the finding names it: detach there. Otherwise
    the same graph was traversed twice.

    Bad:
        w = torch.ones(3, requires_grad=True)
        hidden = (w * 2).tanh()
        hidden.sum().backward()
        (hidden * w).sum().backward()

    Good:
        w = torch.ones(3, requires_grad=True)
        hidden = (w * 2).tanh()
        hidden.sum().backward()
        (hidden.detach() * w).sum().backward()
    """
    for error in _raised(trace, FREED):
        found = release(trace, error.node, error.task)
        if found is not None:
            yield _told(trace, error, _released(trace, error, found.task, found.through))


def _released(trace: Trace, error: Error, first: int, through: int) -> Found:
    called = _called(trace, error.task)
    again = f"the backward called{at(called)} reached it again"
    if through == NONE:
        site, why = called, again
        fix = "call the first backward with retain_graph=True, or run the forward pass again"
    else:
        site = site_of_row(trace, Node, through)
        why = f"{again} through {_node(trace, through)}, which is newer than that release"
        cut = _detached_between(trace, first, error.t)
        why += f"; detach(){at(cut)} cuts only a part of what it passes on" if cut.place else ""
        held = _held_at(trace, site)
        new = "" if held.place else carried_detached(site.text)
        fix = "detach() what is carried on from the earlier graph, at that line"
        fix += f": `{code_of(new)}`" if new else ""
        kept = _kept_at(trace, site, first)
        kept = kept if kept.place else held
        if kept.place and not new:
            why += f"; it reads a tensor kept{at(kept)} with its graph"
            better = kept_detached(kept.text)
            fix = instead(better, kept.text) if better else f"detach() what is kept{at(kept)}"
        elif not new:
            back, name = _given_back(trace)
            why += f"; {back} passes `{name}` to the model, which that line created" if name else ""
            fix = f"detach `{name}` before it is passed to the model again" if name else fix
    return Found(
        message=f"The tensors saved by {_node(trace, error.node)} were freed by the backward called"
        f"{at(_called(trace, first))}, and a second backward needed them",
        site=site,
        evidence=_evidence(error, ("graph_task", first), ("node", through)),
        why=why,
        fix=fix,
    )


def _kept_at(trace: Trace, site: Site, first: int) -> Site:
    """The line that, before that backward, set the attribute which a line reads."""
    acts, tasks = trace.once(Acts), trace.table(GraphTask)
    end = tasks.row(first).end if tasks.has(first) else 0
    for act in acts.of(AssignedAct)[::-1]:
        kept = act.facts.what in ("tensor", "buffer") and act.t < end
        kept = kept and act.facts.leaf is False
        if kept and re.search(rf"\.{re.escape(act.facts.name)}\b", site.text):
            return acts.site(act) if acts.site(act) != site else Site()
    return Site()


def _held_at(trace: Trace, site: Site) -> Site:
    """Where a list or an attribute was filled that held an earlier step's graph at the end."""
    acts = trace.once(Acts)
    held = [act for act in acts.of(KeptAct) if act.facts.when == "error"]
    for act in held:
        name = re.escape(act.facts.name)
        read = rf"\.{name}\b" if act.facts.attribute else rf"(?<!\.)\b{name}\b"
        if re.search(read, site.text) and acts.site(act) != site:
            return acts.sites(act)[-1]
    held = [act for act in held if act.facts.attribute or act.facts.container]
    only = len({act.stack for act in held}) == 1
    return acts.sites(held[0])[-1] if only and site not in acts.sites(held[0]) else Site()


def _given_back(trace: Trace) -> tuple[Site, str]:
    """The line that passes a model its own earlier result, and the name of that result."""
    acts = trace.once(Acts)
    detached = {acts.site(act).text for act in acts.of(CutAct)}
    for act in acts.of(RanAct):
        for site in acts.sites(act):
            name = carried_name(site.text)
            if name and not any(re.search(rf"\b{name}\b", text) for text in detached):
                return site, name
    return Site(), ""


def _detached_between(trace: Trace, first: int, t: int) -> Site:
    """Where one of several was detached after that backward, before this moment."""
    acts, tasks = trace.once(Acts), trace.table(GraphTask)
    end = tasks.row(first).end if tasks.has(first) else t
    for act in acts.of(CutAct):
        between = end < act.t < t and act.task == NONE and act.facts.by == "detach"
        if between and partly_detached(acts.site(act).text):
            return acts.site(act)
    return Site()


def _told(trace: Trace, error: Error, found: Found) -> Found:
    """The finding; as a note if the program caught the error."""
    if not went_on(trace, error):
        return found
    return replace(found, message=found.message + WENT_ON, severity=Severity.NOTE)


def _raised(trace: Trace, text: str) -> Iterator[Error]:
    """The errors of a kind, each once: it passes through the backwards around it."""
    told: set[tuple[int, str]] = set()
    for error in trace.events(Error):
        if error.message.startswith(text) and (error.node, error.message) not in told:
            told.add((error.node, error.message))
            yield error


def _evidence(error: Error, *more: tuple[str, int]) -> tuple[Evidence, ...]:
    rows = ("event", error.seq), ("node", error.node), ("graph_task", error.task), *more
    return known_rows(*rows)


def _called(trace: Trace, task: int) -> Site:
    return site_of_row(trace, GraphTask, task)
