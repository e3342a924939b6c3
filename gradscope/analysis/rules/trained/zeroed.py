"""Rules about gradients that are zero in every step, and what made them zero."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

import numpy as np

from gradscope.analysis.findings import Certainty, Evidence, Severity, few_tensors
from gradscope.analysis.identity.leaves import ACCUMULATE_GRAD
from gradscope.analysis.identity.sites import Site, at, site_of
from gradscope.analysis.program.acts import Acts
from gradscope.analysis.program.arguments import arguments_of
from gradscope.analysis.program.numbers import TensorNumbers
from gradscope.analysis.program.training import Training
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.rules.trained.no_slope import FLAT, following_nodes, reach
from gradscope.analysis.rules.trained.still import StillParameters
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import HookAct, Node, Place, Value
from gradscope.trace.trace import Trace

STEPS = 3
"""In how many steps a gradient must be zero throughout."""

SAID_ELSEWHERE = (*FLAT, "Relu", "Threshold", "HardtanhBackward", "EmbeddingBackward")
"""Prefixes of names of nodes whose zeros other rules explain, or that are intended."""

TO_BLAME = (
    "Mul",
    "Div",
    "Clamp",
    "Softmax",
    "LogSoftmax",
    "Where",
    "MaskedFill",
    "Sigmoid",
    "Tanh",
)
"""Prefixes of names of nodes that return zeros because of a wrong value; others are a note."""

SHUT = ("Clamp", "Softmax", "LogSoftmax")
"""Those that return zeros whatever else they receive."""

MEANT = re.compile(r"(?<![\w.])0(\.0*)?\s*\*|\*\s*0(\.0*)?(?![\w.])")
"""A line that visibly multiplies by zero."""


@rule("GS413", "zero-gradient", fully="values")
def zero_gradient(trace: Trace) -> Iterator[Found]:
    """Parameters get only zero gradients in every step, because one node returns only zeros.

    Causes are a factor that is always zero, a clamp whose limit is always exceeded, or a softmax
    over one value. Other rules report dead ReLUs and rounding.

    Bad:
        model, spread = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD([*model.parameters(), *spread.parameters()], lr=0.1)
        for step in range(4):
            optimizer.zero_grad()
            x = torch.ones(3, 2)
            (model(x).pow(2).mean() + step // 10 * spread(x).mean()).backward()
            optimizer.step()

    Good:
        model, spread = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD([*model.parameters(), *spread.parameters()], lr=0.1)
        for step in range(4):
            optimizer.zero_grad()
            x = torch.ones(3, 2)
            (model(x).pow(2).mean() + step / 10 * spread(x).mean()).backward()
            optimizer.step()
    """
    training = trace.once(Training)
    still = trace.once(StillParameters)
    if still.zero:
        yield from _of_parameters(still)
        return
    lost = _always_zero(trace) & training.held
    if not lost:
        return
    nodes = trace.table(Node)
    leaves = _leaf_nodes(trace, lost)
    by_line: dict[str, tuple[int, set[int], int]] = {}
    following = trace.once(following_nodes)
    explained: set[int] = set()
    for node in _makers_of_zeros(trace):
        row = nodes.row(node)
        site = site_of(trace, row.stack)
        behind = reach({node}, following, ()) & set(leaves)
        if behind and not row.name.startswith(SAID_ELSEWHERE) and not MEANT.search(site.text):
            first, tensors, times = by_line.get(site.place, (node, set(), 0))
            by_line[site.place] = first, tensors | {leaves[each] for each in behind}, times + 1
    for node, tensors, times in by_line.values():
        if times >= STEPS and tensors - explained:
            explained |= tensors
            yield _found(training, node, tensors, times)


def _of_parameters(still: StillParameters) -> Iterator[Found]:
    """Where only gradients of parameters were recorded: nodes known to return only zeros."""
    trace, acts, explained = still.trace, still.trace.once(Acts), set[int]()
    nodes = trace.table(Node)
    for act, hooked in still.hooked():
        done = acts.by_id[act]
        explained |= hooked
        hook = done.facts.hook if isinstance(done.facts, HookAct) else ""
        said = f"the result of the hook {hook} replaces its gradient"
        yield _told(still, hooked, acts.site(done), Evidence("act", act), said, "the hook")
    found = [(each.node, set(each.tensors)) for each in still.nodes()]
    makers = [each for each in found if nodes.row(each[0]).name.startswith(SHUT)]
    leads = still.leads_to(still.zero - explained)
    for place in np.flatnonzero(leads & (nodes["arguments"] != 0)).tolist():
        row = nodes.take(np.array([place]))[0]
        if row.name.startswith("Mul") and arguments_of(row.arguments).get("other") == 0:
            makers.append((row.id, set(still.behind(place)) & still.zero))
    for node, tensors in makers:
        row = nodes.row(node)
        site = site_of(trace, row.stack)
        if tensors - explained and not MEANT.search(site.text):
            explained |= tensors
            why = f"{row.name} passes on only zeros: {_remedy(row.name)}"
            yield _told(still, tensors, site, Evidence("node", node), why, row.name)


def _told(
    still: StillParameters, some: Collection[int], site: Site, shown: Evidence, why: str, by: str
) -> Found:
    training = still.trace.once(Training)
    return Found(
        message=f"{training.named(some)} get{'' if len(some) > 1 else 's'} only zero gradients in "
        f"each of {still.looks} checked steps: {by}{at(site)} sets them to zero",
        site=site,
        evidence=(shown, *few_tensors(still.trace, some)),
        why=f"{why}; other parameters get gradients that are not zero",
        fix="print the factor there: how many elements of it, or of a mask, are not zero; to "
        "freeze a parameter on purpose, set requires_grad to False",
        certainty=Certainty.INFERRED,
    )


def _found(training: Training, node: int, tensors: set[int], times: int) -> Found:
    row = training.trace.table(Node).row(node)
    site = site_of(training.trace, row.stack)
    return Found(
        message=f"{training.named(tensors)} get{'' if len(tensors) > 1 else 's'} only zero "
        f"gradients in every step: {row.name}{at(site)} received one that was not zero, and "
        "returned zeros",
        site=site,
        evidence=(Evidence("node", node), *few_tensors(training.trace, tensors)),
        why=f"it received a gradient other than zero {times} times, and passed on only zeros: a "
        "factor was zero, a limit was exceeded, or there was one value to choose from",
        fix=_remedy(row.name),
        certainty=Certainty.INFERRED,
        severity=None if row.name.startswith(TO_BLAME) else Severity.NOTE,
    )


def _remedy(name: str) -> str:
    if name.startswith(("Softmax", "LogSoftmax")):
        return "a softmax over one value is always 1: use a sigmoid, or two outputs"
    if name.startswith("Clamp"):
        return "remove the limit, or move it to the range of the values"
    return "check the factor on this line: integer division by `//` gives 0 below the divisor"


def _always_zero(trace: Trace) -> set[int]:
    """Leaves whose `.grad` was zero throughout in each step that was seen."""
    values = trace.table(Value)
    found = set()
    for series in trace.once(TensorNumbers).gradients:
        rows = series.rows
        if len(rows) >= STEPS and (values["zero"][rows] == values["count"][rows]).all():
            found.add(series.tensor)
    return found


def _leaf_nodes(trace: Trace, leaves: set[int]) -> dict[int, int]:
    rows = trace.rows(Node)
    return {
        row.id: row.inputs[0]
        for row in rows
        if row.name == ACCUMULATE_GRAD and row.inputs and row.inputs[0] in leaves
    }


def _makers_of_zeros(trace: Trace) -> list[int]:
    """Nodes that received something other than zeros, and returned only zeros."""
    values = trace.table(Value)
    given = values["place"] == Place.NODE_INPUT
    made = values["place"] == Place.NODE_OUTPUT
    some = values["zero"] < values["count"]
    came = distinct(values["node"][given & some])
    some_out = distinct(values["node"][made & some])
    out = distinct(values["node"][made & ~some])
    found: list[int] = came[np.isin(came, out) & ~np.isin(came, some_out)].tolist()
    return [each for each in found if trace.table(Node).has(each)]
