"""Rules about writes that autograd does not notice."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from gradscope.analysis.findings import Certainty, Evidence
from gradscope.analysis.identity.names import node_names
from gradscope.analysis.identity.sites import Site, at, site_of
from gradscope.analysis.lookups import Ids
from gradscope.analysis.program.acts import Done
from gradscope.analysis.program.calls import Calls
from gradscope.analysis.program.training import Training
from gradscope.analysis.rules.own_line import code_of
from gradscope.analysis.rules.registry import Found, rule
from gradscope.trace.schema import (
    NONE,
    ActFacts,
    CutAct,
    DataWrittenAct,
    GraphTask,
    Node,
    NodeBegin,
    Saved,
    Tensor,
)
from gradscope.trace.trace import Trace

IN_PLACE = re.compile(r"(?P<name>\w+)\.data\.(?P<call>\w+)_(?P<rest>\(.*)")
"""A whole line such as `h.data.clamp_(max=1)`."""


@rule("GS305", "written-unseen", reads=("act", "saved"))
def written_unseen(trace: Trace) -> Iterator[Found]:
    """A tensor was written to through `.data` between the forward that used it and its backward.

    It is a parameter or an intermediate result. Autograd counts writes, and raises if a saved
    tensor was changed. It does not count a write through `.data`, so the backward computes with
    values that the forward did not have.

    Bad:
        x = torch.ones(3, 2, requires_grad=True)
        w = torch.ones(2, 2, requires_grad=True)
        y = (x @ w).tanh()
        w.data.mul_(0.5)
        y.sum().backward()

    Good:
        x = torch.ones(3, 2, requires_grad=True)
        w = torch.ones(2, 2, requires_grad=True)
        y = (x @ w).tanh()
        y.sum().backward()
        w.data.mul_(0.5)
    """
    training = trace.once(Training)
    by_line: dict[str, list[tuple[Done[ActFacts], int, int]]] = defaultdict(list)
    writes: list[tuple[Done[ActFacts], tuple[int, ...]]] = [
        (act, act.tensors) for act in training.acts.of(DataWrittenAct)
    ]
    cuts = (act for act in training.acts.of(CutAct) if act.facts.written != NONE)
    writes += [(act, _results(trace, act.facts.written)) for act in cuts]
    if not writes:
        return
    kept = _Kept(trace)
    for act, tensors in writes:
        for tensor in tensors:
            node = kept.needed_after(tensor, act.t)
            if node is not None:
                by_line[training.acts.place(act)].append((act, tensor, node))
    for several in by_line.values():
        yield _found(training, several)


def _results(trace: Trace, made: int) -> tuple[int, ...]:
    """The results of the call whose node was created then, or has this sequence number.

    For a view, the tensor that it is a view of.
    """
    nodes, calls = trace.table(Node), trace.once(Calls)
    its = nodes["id"][(nodes["t"] == made) | (nodes["sequence_nr"] == made)]
    ops = np.flatnonzero(np.isin(calls.ops["node"], its) & calls.is_forward).tolist()
    return tuple(calls.origin_leaf(each) for at in ops for each in calls.outputs(at))


class _Kept:
    """What nodes save, since when, and when they run."""

    def __init__(self, trace: Trace) -> None:
        saved, runs, nodes = trace.table(Saved), trace.table(NodeBegin), trace.table(Node)
        self._calls = trace.once(Calls)
        self._tensors = trace.table(Tensor)
        self._node, self._tensor, self._bytes = saved["node"], saved["tensor"], saved["bytes"]
        self._t: Ids = np.full(len(saved), np.iinfo(np.int64).max)
        if len(nodes):  # a saved tensor may be recorded later
            made = nodes.positions(self._node)
            self._t[made >= 0] = nodes["t"][made[made >= 0]]
        self._ran = dict(zip(runs["node"].tolist(), runs["t"].tolist(), strict=True))  # the last
        self._leaves: dict[int, int] = {}

    def needed_after(self, leaf: int, t: int) -> int | None:
        """A node that saved this leaf, or a view of it, before this moment, and ran after it."""
        if not self._tensors.has(leaf):
            return None
        many = self._tensors["bytes"][self._tensors.index(leaf)]
        for place in np.flatnonzero((self._bytes == many) & (self._t < t)).tolist():
            node = int(self._node[place])
            if self._ran.get(node, -1) > t and self._leaf_of(int(self._tensor[place])) == leaf:
                return node
        return None

    def _leaf_of(self, tensor: int) -> int:
        if tensor not in self._leaves:
            self._leaves[tensor] = self._calls.origin_leaf(tensor)
        return self._leaves[tensor]


def _found(training: Training, several: list[tuple[Done[ActFacts], int, int]]) -> Found:
    act, tensor, node = several[0]
    trace, site = training.trace, training.acts.site(act)
    made = site_of(trace, trace.table(Node).row(node).stack)
    tasks = [task for task in trace.rows(GraphTask) if task.begin > act.t]
    called = site_of(trace, tasks[0].stack) if tasks else site
    caller = training.acts.called(act)
    times = f", {len(several)} times" if len(several) > 1 else ""
    return Found(
        message=f"{_what(training, tensor)} was written to through .data{at(site)}{caller} between "
        f"the forward that used it{at(made)} and the backward{at(called)}{times}: its gradient is "
        "wrong, and no error was raised",
        site=site,
        evidence=(
            Evidence("act", act.id),
            Evidence("node", node),
            Evidence("tensor", tensor),
        ),
        why=f"{node_names(trace).title(node)} had saved it; a write through .data is not counted, "
        "so the backward used the new values in place of the forward's",
        fix=_instead(act, site),
        certainty=Certainty.CERTAIN,
    )


def _what(training: Training, tensor: int) -> str:
    """A parameter by its name; a result by the call that returned it."""
    calls = training.trace.once(Calls)
    maker = calls.maker(tensor)
    if maker == NONE:
        return training.named({tensor})
    name = training.trace.text(int(calls.tensors["name"][calls.tensors.index(tensor)]))
    return f"`{name}`" if name else f"The result of {calls.name(maker)}"


def _instead(act: Done[ActFacts], site: Site) -> str:
    if isinstance(act.facts, DataWrittenAct):
        return (
            "write after the backward, as after `optimizer.step()`, and under `torch.no_grad()` "
            "instead of through `.data`, so that autograd notices"
        )
    found = IN_PLACE.fullmatch(code_of(site.text))
    if found and found["rest"].endswith(")"):
        name, call, rest = found.groups()
        return f"write `{name} = {name}.{call}{rest}` instead, which autograd records"
    return "compute a new tensor from it, which autograd records"
