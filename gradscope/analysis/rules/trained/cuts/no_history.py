"""Rules about a loss without a graph, and what cut it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from gradscope.analysis.findings import Certainty, Evidence, Severity
from gradscope.analysis.identity.sites import Site, at, site_of
from gradscope.analysis.program.acts import Done
from gradscope.analysis.program.training import Training
from gradscope.analysis.rules.loop.switches import gradients_left_off
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.source.statements import rebound
from gradscope.trace.schema import NONE, CutAct, Finding, GradOffAct, GraphTask
from gradscope.trace.trace import Trace

NO_HISTORY = "does not require grad and does not have a grad_fn"
READ = frozenset(("item", "tolist", "numpy"))
"""Calls that programs also use for their logs."""

FEW = 3


@rule("GS410", "no-history", Severity.ERROR, reads=("act",))
def no_history(trace: Trace) -> Iterator[Found]:
    """A backward failed because its loss does not require grad: this names what cut the graph.

    argmax, comparisons, `long()`, `item()`, `detach()` and `no_grad()` return tensors without a
    graph. `w = w - lr * w.grad` rebinds the name of a parameter to such a tensor.

    Bad:
        model = torch.nn.Linear(2, 3)
        hits = (model(torch.ones(4, 2)).argmax(1) == 0).float()
        (1 - hits.mean()).backward()

    Good:
        model = torch.nn.Linear(2, 3)
        hits = model(torch.ones(4, 2)).softmax(1)[:, 0]
        (1 - hits.mean()).backward()
    """
    training = trace.once(Training)
    raised = [row for row in trace.rows(Finding) if NO_HISTORY in row.message]
    if not raised or _is_told_elsewhere(training, raised[0]):
        return
    error = raised[0]
    if rebound(trace) and len(trace.table(GraphTask)):
        return  # GS405 reports it
    found = _suspects(training, error)
    if found:
        yield _found(training, error, found)


_Lost: TypeAlias = Done[CutAct] | Done[GradOffAct]


def _is_told_elsewhere(training: Training, error: Finding) -> bool:
    """Gradients that stay switched off are reported by GS514."""
    told = {each.id for found in gradients_left_off(training.trace) for each in found.evidence}
    return error.id in told


def _suspects(training: Training, error: Finding) -> list[_Lost]:
    """What cut the graph since the backward before, the likeliest first, one for each line."""
    ends = training.trace.table(GraphTask)["begin"]
    since = max((t for t in ends.tolist() if t < error.t), default=-1)
    now = [
        act
        for act in training.acts.of(CutAct, GradOffAct)
        if since < act.t < error.t and act.task == NONE
    ]
    cuts = [act for act in now if isinstance(act.facts, CutAct) and act.facts.by not in READ]
    off = [act for act in now if isinstance(act.facts, GradOffAct)]
    read = [act for act in now if isinstance(act.facts, CutAct) and act.facts.by in READ]
    by_line: dict[str, _Lost] = {}
    for act in (*reversed(cuts), *reversed(off), *(() if cuts or off else reversed(read))):
        by_line.setdefault(training.acts.place(act), act)
    return list(by_line.values())[:FEW]


def _found(training: Training, error: Finding, acts: list[_Lost]) -> Found:
    site = training.acts.site(acts[0])
    lost = {each for act in acts for each in act.tensors}
    of = f" of {training.named(lost)}" if lost else ""
    others = "".join(f"; {_by(act)}{at(training.acts.site(act))} also cuts it" for act in acts[1:])
    return Found(
        message=f"The loss has no graph: {_by(acts[0])}{at(site)} cuts the graph{of}, "
        f"and the backward{at(site_of(training.trace, error.stack))} raised{others}",
        site=site,
        evidence=(
            Evidence("finding", error.id),
            *(Evidence("act", act.id) for act in acts),
        ),
        why='its result requires no grad ("element 0 of tensors does not require '
        'grad"), and nothing else that leads to the loss does',
        fix=_instead(acts[0], site),
        certainty=Certainty.INFERRED,
    )


def _by(act: _Lost) -> str:
    by = act.facts.by
    return (
        f".{by}" if by == "data" else f"{by}()" if by.isidentifier() else f"the comparison `{by}`"
    )


def _instead(act: _Lost, site: Site) -> str:
    by = act.facts.by
    if isinstance(act.facts, GradOffAct):
        return "compute the tensors of the loss outside of it"
    if by in READ:
        return "keep using tensors until the loss is computed"
    if by in ("detach", "data"):
        part = f".{by}()" if by == "detach" else f".{by}"
        return f"write `{site.text.replace(part, '')}`" if part in site.text else "remove it"
    return (
        "it has no derivative: use the probabilities themselves (softmax, sigmoid) in the loss, "
        "or a straight-through estimator"
    )
